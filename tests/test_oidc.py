"""OidcToken against an issuer on loopback, whose certificate is of an authority made for the test."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
import pickle
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_plus

import pytest

import pykafka4
from pykafka4.errors import AuthenticationError, ConfigError
from pykafka4.net.oidc import MAX_BODY_BYTES, MAX_HEAD_BYTES, OidcToken

trustme = pytest.importorskip("trustme", reason="makes certificates; pip install -e '.[test]'")

SECONDS = float(os.environ.get("PYKAFKA4_TEST_SECONDS", "20"))
NOW = 1_700_000_000.0
SECRET = "s3cret+/= with:colon"


def reply(body: object, status: str = "200 OK", *headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join([*head, "", ""]).encode() + data


def jwt(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{body}.c2ln"


class Issuer:
    """Answers every request with `answer`: bytes, or what is done with the connection."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.ca_file = str(folder / "ca.pem")
        self.authority.cert_pem.write_to_path(self.ca_file)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("localhost", "127.0.0.1").configure_cert(self.context)
        self.requests: list[tuple[str, dict[str, str], dict[str, list[str]]]] = []
        self.answer: bytes | Callable[[ssl.SSLSocket], None] = reply({"access_token": "abc", "token_type": "Bearer", "expires_in": 3600})
        self.stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.accepted = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/token?tenant=hidden-query"

    def close(self) -> None:
        self.stop.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(SECONDS)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                self.accepted += 1
                plain.settimeout(SECONDS)
                with contextlib.suppress(OSError), plain, self.context.wrap_socket(plain, server_side=True) as connection:
                    self._one(connection)

    def _one(self, connection: ssl.SSLSocket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._more(connection)
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += self._more(connection)
        self.requests.append((first, headers, parse_qs(body.decode())))
        if isinstance(self.answer, bytes):
            connection.sendall(self.answer)
        else:
            self.answer(connection)

    def _more(self, connection: ssl.SSLSocket) -> bytes:
        data = connection.recv(65536)
        if not data:
            raise OSError("closed")
        return data


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    it = Issuer(tmp_path)
    yield it
    it.close()


def asking(issuer: Issuer, **options: Any) -> OidcToken:
    given = {"client_secret": SECRET, "ca_file": issuer.ca_file, "timeout": SECONDS, "clock": lambda: NOW, **options}
    return OidcToken(given.pop("token_url", issuer.url), given.pop("client_id", "me:1"), **given)


def refused(issuer: Issuer, **options: Any) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as caught:
        asking(issuer, **options)()
    error: BaseException | None = caught.value
    while error is not None:  # whatever it came from is shown with it
        for secret in (SECRET, base64.b64encode(SECRET.encode()).decode(), "hidden-query", "hidden-token"):
            assert secret not in f"{error} {error!r} {vars(error)}"
        error = error.__cause__ or error.__context__
    assert str(caught.value).startswith(f"no token from https://localhost:{issuer.port}/token: ")
    return caught.value


# -- success


def test_it_asks_as_in_rfc_6749_and_returns_a_token_with_its_expiry(issuer: Issuer) -> None:
    token = asking(issuer, scope="kafka read", audience="brokers", extensions={"logicalCluster": "lkc-1"})()
    assert (token.value, token.expires_at, dict(token.extensions)) == ("abc", NOW + 3600, {"logicalCluster": "lkc-1"})
    ((first, headers, fields),) = issuer.requests
    assert first == "POST /token?tenant=hidden-query HTTP/1.1"
    assert headers["host"] == f"localhost:{issuer.port}"
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert fields == {"grant_type": ["client_credentials"], "scope": ["kafka read"], "audience": ["brokers"]}
    user, colon, password = base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode().partition(":")
    assert (colon, unquote_plus(user), unquote_plus(password)) == (":", "me:1", SECRET)
    assert user == "me%3A1"


def test_without_form_encoding_the_secret_is_sent_as_it_is(issuer: Issuer) -> None:
    asking(issuer, client_id="me", form_encode=False)()
    assert base64.b64decode(issuer.requests[0][1]["authorization"].removeprefix("Basic ")).decode() == f"me:{SECRET}"


def test_a_callable_for_the_secret_is_asked_each_time(issuer: Issuer) -> None:
    secrets = iter(["first", "second"])
    get = asking(issuer, client_secret=lambda: next(secrets))
    for secret in ("first", "second"):
        get()
        assert base64.b64decode(issuer.requests[-1][1]["authorization"].removeprefix("Basic ")).decode() == f"me%3A1:{secret}"
    with pytest.raises(StopIteration):
        get()


@pytest.mark.parametrize("answer", [None, b"abc", "", 5])
def test_what_a_callable_returns_for_the_secret_is_checked_before_it_is_sent(issuer: Issuer, answer: Any) -> None:
    with pytest.raises(ConfigError, match="client_secret"):
        asking(issuer, client_secret=lambda: answer)()
    assert not issuer.requests


@pytest.mark.parametrize(("told", "life"), [(60, 60), (60.5, 60.5), ("60", 60), ("60.5", 60.5)])
def test_a_life_may_be_a_number_or_a_string_with_one(issuer: Issuer, told: object, life: float) -> None:
    issuer.answer = reply({"access_token": "abc", "token_type": "bEARER", "expires_in": told})
    assert asking(issuer)().expires_at == NOW + life


@pytest.mark.parametrize(
    "told", [0, -1, True, "soon", "", "1e3", " 60", "0x10", "٣", float("nan"), float("inf"), 10**10, 10**400, [60], {}, "9" * 5000]
)
def test_a_life_that_makes_no_sense_is_refused(issuer: Issuer, told: object) -> None:
    issuer.answer = reply({"access_token": "hidden-token", "token_type": "Bearer", "expires_in": told})
    assert "expires_in" in str(refused(issuer))


@pytest.mark.parametrize(
    ("token", "expires_at"),
    [
        (jwt({"exp": NOW + 5}), NOW + 5),
        (jwt({"exp": int(NOW) + 5}), NOW + 5),
        (jwt({"exp": str(NOW)}), None),
        (jwt({"exp": NOW * 1000}), None),
        (jwt({"exp": -5}), None),
        (jwt({"exp": True}), None),
        (jwt({}), None),
        (jwt([1]), None),
        ("opaque", None),
        ("a.b.c", None),
        ("a.~~~~.c", None),
        ("..", None),
    ],
)
def test_without_a_life_the_expiry_is_the_claim_of_a_jwt_or_unknown(issuer: Issuer, token: str, expires_at: float | None) -> None:
    issuer.answer = reply({"access_token": token, "token_type": "Bearer"})
    assert asking(issuer)().expires_at == expires_at


def test_the_life_begins_when_the_token_is_asked_for(issuer: Issuer) -> None:
    clock = iter([NOW, NOW + 50])
    assert asking(issuer, clock=lambda: next(clock))().expires_at == NOW + 3600


def test_an_answer_in_chunks_is_read(issuer: Issuer) -> None:
    issuer.answer = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"access\r\n10\r\n_token": "abc"} \r\n0\r\n\r\n'
    assert asking(issuer)().value == "abc"


# -- refusals


@pytest.mark.parametrize(
    ("answer", "words", "certain"),
    [
        (reply({"error": "invalid_client", "error_description": "new id"}, "401 No"), "401, 'invalid_client', 'new id'; check", True),
        (reply({"error": "x" * 5000}, "400 Bad"), "x… (5,000 characters)'", True),
        (reply({"error": "a\r\nb\x1b[31m"}, "400 Bad"), r"'a\r\nb\x1b[31m'", True),
        (reply({"error": f"the password {SECRET} is wrong"}, "400 Bad"), "(its words are not shown, because they repeat a secret)", True),
        (reply({"error": 5, "error_description": ["hidden-token"]}, "403 No"), "HTTP status 403; check", True),
        (reply(b"<html>hidden-token</html>", "404 Not Found"), "HTTP status 404; check the path", True),
        (reply(b"", "500 Oops"), "HTTP status 500", False),
        (reply(b"", "503 Busy"), "HTTP status 503", False),
        (reply(b"", "429 Too Many"), "HTTP status 429", False),
        (reply({"access_token": "hidden-token"}, "201 Created"), "HTTP status 201", True),
        (reply(b"hidden-token"), "not a JSON object", True),
        (reply(b"[" * 60_000), "not a JSON object", True),
        (reply(["hidden-token"]), "not a JSON object", True),
        (reply(b"\xff\xfe\xfd"), "not a JSON object", True),
        (reply({"token": "hidden-token"}), "no access_token", True),
        (reply({"access_token": 5}), "no access_token", True),
        (reply({"access_token": "hidden-token\r\nX: 1"}), "RFC 6750", True),
        (reply({"access_token": ""}), "empty", True),
        (reply({"access_token": "hidden-token", "token_type": "mac"}), "not of the type Bearer", True),
        (reply({"access_token": "hidden-token", "token_type": None}), "not of the type Bearer", True),
        (reply(b" " * (MAX_BODY_BYTES + 1)), f"more than {MAX_BODY_BYTES:,} bytes", True),
        (b"SSH-2.0-hidden-token\r\n", "not HTTP (BadStatusLine)", False),
        (b"HTTP/1.1 200 OK\r\n" + b"X: hidden-token\r\n" * 200 + b"\r\n", "not HTTP (HTTPException)", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhidden-token\r\n", "not HTTP (IncompleteRead)", False),
        (b"", "not HTTP (RemoteDisconnected)|cannot be reached", False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000, f"more than {MAX_BODY_BYTES + MAX_HEAD_BYTES:,} bytes", False),
    ],
)  # fmt: skip
def test_every_other_answer_is_an_error_that_names_the_reason_and_no_secret(
    issuer: Issuer, answer: bytes, words: str, certain: bool
) -> None:
    issuer.answer = answer
    error = refused(issuer)
    assert any(word in str(error) for word in words.split("|")), str(error)
    assert error.certain is certain
    assert len(str(error)) < 800


def test_a_redirect_is_not_followed(issuer: Issuer) -> None:
    for status in ("301 Moved", "302 Found", "307 Temporary", "308 Permanent"):
        issuer.answer = reply(b"", status, f"Location: https://localhost:{issuer.port}/other")
        assert "redirects are not followed" in str(refused(issuer))
    assert issuer.accepted == 4


def test_a_certificate_of_another_authority_is_refused_before_the_secret_is_sent(issuer: Issuer, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    for ca_file in (str(tmp_path / "other.pem"), None):
        error = refused(issuer, ca_file=ca_file)
        assert "its certificate is refused" in str(error)
        assert not error.certain
    assert not issuer.requests


def test_a_certificate_for_another_host_is_refused(issuer: Issuer) -> None:
    issuer.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.authority.issue_cert("elsewhere.example").configure_cert(issuer.context)
    assert "its certificate is refused" in str(refused(issuer))
    assert not issuer.requests


def test_a_proxy_of_the_environment_is_not_used(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert asking(issuer)().value == "abc"


def test_nobody_listening_is_a_guess(issuer: Issuer) -> None:
    issuer.close()
    error = refused(issuer)
    assert "cannot be reached: Connection refused" in str(error)
    assert not error.certain


def took(issuer: Issuer, timeout: float) -> tuple[str, float]:
    began = time.monotonic()
    error = refused(issuer, timeout=timeout)
    assert not error.certain
    return str(error), time.monotonic() - began


@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 200 OK\r\nX: ", b'HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{"access_token": "', b"HTTP/1.1 100"]
)
def test_an_issuer_that_sends_a_byte_now_and_then_is_given_up_in_time(issuer: Issuer, begun: bytes) -> None:
    def drip(connection: ssl.SSLSocket) -> None:
        connection.sendall(begun)
        while not issuer.stop.wait(0.02):
            connection.sendall(b"a" if begun else b"H")

    issuer.answer = drip
    message, seconds = took(issuer, 0.4)
    assert "no complete response within 0.4 s" in message
    assert seconds < 0.4 + SECONDS / 5


def test_an_issuer_that_never_answers_is_given_up_in_time(issuer: Issuer) -> None:
    issuer.answer = lambda connection: issuer.stop.wait(SECONDS) and None
    assert "no complete response within 0.2 s" in took(issuer, 0.2)[0]


def test_a_handshake_that_never_ends_is_given_up_in_time(issuer: Issuer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(AuthenticationError, match=r"no complete response within 0\.2 s"):
            asking(issuer, token_url=f"https://localhost:{silent.getsockname()[1]}/", timeout=0.2)()
        assert time.monotonic() - began < 0.2 + SECONDS / 5


# -- what is given


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://localhost/token", "must be https"),
        ("http://127.0.0.1/token", "must be https"),
        ("file:///etc/passwd", "is not a URL such as|must be https"),
        ("ftp://host/x", "must be https"),
        ("HTTPX://host/x", "must be https"),
        ("https://me:hidden-word@host/", "user name before the host"),
        ("https://host/#x", "fragment"),
        ("https://", "is not a URL"),
        ("https://host:99999/", "is not a URL"),
        ("https://host:x/", "is not a URL"),
        ("https://" + "a" * 64 + ".example/", "is not a URL"),
        ("https://host/\r\nX: 1", "spaces, line ends"),
        (" https://host/", "spaces, line ends"),
        ("https://hööst/", "not ASCII"),
        ("", "empty"),
        (None, "must be a str"),
        (b"https://host/", "must be a str"),
    ],
)
def test_only_urls_of_https_are_taken(url: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OidcToken(url, "me", "secret")
    assert any(word in str(caught.value) for word in words.split("|")), str(caught.value)
    assert "hidden-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"client_id": ""}, "client_id is empty"),
        ({"client_id": 5}, "client_id must be a str"),
        ({"client_secret": ""}, "client_secret is empty"),
        ({"client_secret": None}, "client_secret must be a str"),
        ({"scope": ["a"]}, "scope must be a str"),
        ({"audience": 5}, "audience must be a str"),
        ({"extensions": {"auth": "x"}}, "SASL extension"),
        ({"timeout": 0}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"timeout": 301}, "timeout must be"),
        ({"ca_file": 5}, "ca_file must be a str"),
        ({"form_encode": 1}, "form_encode must be True or False"),
        ({"client_id": "a:b", "form_encode": False}, "client_id has a colon"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        OidcToken(**{"token_url": "https://host/", "client_id": "me", "client_secret": "secret", **options})


def test_a_file_of_authorities_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    for name in ("gone", "empty"):
        with pytest.raises(ConfigError, match=f"{name}' cannot be used"):
            OidcToken("https://host/", "me", "secret", ca_file=str(tmp_path / name))()


def test_it_shows_no_secret_and_cannot_be_pickled() -> None:
    get = OidcToken("https://host/token?key=hidden-word", "me", "hidden-word", extensions={"a": "hidden-word"})
    assert "hidden-word" not in repr(get)
    assert "https://host/token" in repr(get)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(get)
    assert copy.deepcopy(get) is get
    with pytest.raises(AttributeError):
        get.token_url = "https://other/"  # type: ignore[misc]


def test_it_is_public_and_an_option_takes_it() -> None:
    get = pykafka4.OidcToken("https://host/token", "me", "hidden-word")
    options: Any = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": get}
    config = pykafka4.options.config.ClientConfig.parse({"bootstrap_servers": "b:1", **options})  # type: ignore[attr-defined]
    assert config.sasl_oauth_token is get
    assert "hidden-word" not in repr(config)
    assert pykafka4.Token("abc").value == "abc"
