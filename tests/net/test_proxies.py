"""Handshakes with proxies, without I/O: every byte at which an answer can be cut or end, every refusal, and anything else."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import AuthenticationError, ConnectionLost
from pykafka4.net.proxies import MAX_HANDSHAKE_BYTES, REPLIES, STATUSES, Handshake, begin_handshake
from pykafka4.options.proxy import Proxy, parse_proxy

PREFIX = "kafka:9092: proxy gw:1080"
WORD = "s3cr3t-päss"
URLS = {
    "socks5": "socks5://gw:1080",
    "socks5 with password": f"socks5://anna:{WORD}@gw:1080",
    "http": "http://gw:1080",
    "http with password": f"http://anna:{WORD}@gw:1080",
}
NAMED = b"\x05\x01\x00\x03\x05kafka" + (9092).to_bytes(2, "big")
CONNECT = b"CONNECT kafka:9092 HTTP/1.1\r\nHost: kafka:9092\r\n"
BASIC = b"Proxy-Authorization: Basic " + base64.b64encode(f"anna:{WORD}".encode()) + b"\r\n"
LOGIN = b"\x01\x04anna" + bytes([len(WORD.encode())]) + WORD.encode()
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"
TUNNEL = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38"
# What the client sends, and the answer of the proxy; by the URL.
DIALOGUES = [
    ("socks5", [(b"\x05\x01\x00", b"\x05\x00"), (NAMED, TUNNEL)]),
    ("socks5", [(b"\x05\x01\x00", b"\x05\x00"), (NAMED, b"\x05\x00\x00\x03\x03abc\x04\x38")]),
    ("socks5", [(b"\x05\x01\x00", b"\x05\x00"), (NAMED, b"\x05\x00\x00\x03\x00\x04\x38")]),
    ("socks5", [(b"\x05\x01\x00", b"\x05\x00"), (NAMED, b"\x05\x00\x00\x04" + bytes(16) + b"\x04\x38")]),
    ("socks5 with password", [(b"\x05\x02\x00\x02", b"\x05\x00"), (NAMED, TUNNEL)]),
    ("socks5 with password", [(b"\x05\x02\x00\x02", b"\x05\x02"), (LOGIN, b"\x01\x00"), (NAMED, TUNNEL)]),
    ("http", [(CONNECT + b"\r\n", OK)]),
    ("http", [(CONNECT + b"\r\n", b"HTTP/1.0 200\r\n\r\n")]),
    ("http", [(CONNECT + b"\r\n", b"HTTP/1.1 204 x\nVia: a\nContent-Length: 5\n\n")]),
    ("http", [(CONNECT + b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n" + b"X: y\r\n" * 9 + b"\r\n" + OK)]),
    ("http with password", [(CONNECT + BASIC + b"\r\n", OK)]),
]


def proxy(kind: str) -> Proxy:
    parsed = parse_proxy(URLS[kind])
    assert parsed is not None
    return parsed


def begin(kind: str, host: str = "kafka", port: int = 9092) -> Handshake:
    return begin_handshake(proxy(kind), host, port, PREFIX)


def sent(handshake: Handshake) -> bytes:
    out, handshake.out = handshake.out, b""
    return out


def answers(kind: str) -> Iterator[tuple[list[tuple[bytes, bytes]], bytes]]:
    """The answers of every dialogue of a kind, each with what precedes it."""
    for other, dialogue in DIALOGUES:
        if other == kind:
            for number, (_, answer) in enumerate(dialogue):
                yield dialogue[:number], answer


def after(kind: str, dialogue: list[tuple[bytes, bytes]]) -> Handshake:
    handshake = begin(kind)
    for asked, answer in dialogue:
        assert sent(handshake) == asked
        handshake.receive(answer)
    handshake.out = b""
    return handshake


def refused(handshake: Handshake, *pieces: bytes) -> ConnectionLost:
    """The error after these bytes. It names the proxy, and shows no secret, whatever was sent."""
    with pytest.raises(ConnectionLost) as caught:
        for piece in pieces:
            handshake.receive(piece)
    assert not handshake.done
    assert str(caught.value).startswith(PREFIX + ": ")
    for secret in ("anna", WORD, WORD.encode().hex(), BASIC.decode().split()[-1]):
        assert secret not in str(caught.value)
    return caught.value


def reason(handshake: Handshake, *pieces: bytes) -> str:
    error = refused(handshake, *pieces)
    assert not isinstance(error, AuthenticationError)
    return str(error).removeprefix(PREFIX + ": ")


def authentication(handshake: Handshake, *pieces: bytes) -> str:
    error = refused(handshake, *pieces)
    assert isinstance(error, AuthenticationError)
    assert error.certain
    return str(error).removeprefix(PREFIX + ": ")


# -- what is said


@pytest.mark.parametrize(("kind", "dialogue"), DIALOGUES)
def test_the_tunnel_is_there_after_the_last_answer_however_the_answers_are_cut(kind: str, dialogue: list[tuple[bytes, bytes]]) -> None:
    for size in range(1, max(len(answer) for _, answer in dialogue) + 1):
        handshake = begin(kind)
        for asked, answer in dialogue:
            assert not handshake.done
            assert sent(handshake) == asked
            for at in range(0, len(answer), size):
                assert not handshake.out, "it answers before it has the whole answer"
                assert not handshake.done
                handshake.receive(answer[at : at + size])
        assert handshake.done
        assert not handshake.out


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", b"\x01\x7f\x00\x00\x01"),
        ("2001:db8::1", b"\x04\x20\x01\x0d\xb8" + bytes(11) + b"\x01"),
        ("k_1.example.", b"\x03\x0ck_1.example."),
        ("käse.example", b"\x03\x13xn--kse-qla.example"),
        ("1.2.3", b"\x03\x051.2.3"),
        ("x" * 255, b"\x03\xff" + b"x" * 255),
    ],
)
def test_names_go_to_a_socks_proxy_as_names_and_addresses_as_addresses(host: str, address: bytes) -> None:
    handshake = begin("socks5", host, 65535)
    handshake.receive(b"\x05\x00")
    assert handshake.out == b"\x05\x01\x00" + address + b"\xff\xff"


@pytest.mark.parametrize(("host", "target"), [("10.0.0.1", "10.0.0.1:1"), ("2001:db8:0::1", "[2001:db8::1]:1"), ("käse", "xn--kse-qla:1")])
def test_an_http_proxy_is_asked_for_host_and_port(host: str, target: str) -> None:
    assert begin("http", host, 1).out == f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()


@pytest.mark.parametrize("kind", URLS)
@pytest.mark.parametrize(
    ("host", "port"),
    [
        *[(host, 9092) for host in ("", "a\r\nX-Evil: 1", "a b", "a\0b", "a/b", "a:1", "\udc80", "ä" * 64, "ä" * 99_999, "x" * 256)],
        *[("fe80::1%eth0", 9092), ("::x", 1), ("a@b", 1), *[("kafka", port) for port in (0, -1, 65_536, 2**31 - 1)]],
    ],
)
def test_what_no_proxy_can_be_asked_for_is_refused_at_once(kind: str, host: str, port: int) -> None:
    with pytest.raises(ConnectionLost) as caught:
        begin(kind, host, port)
    assert str(caught.value) == f"{PREFIX}: it cannot be asked for this host and port"


# -- what goes wrong


@pytest.mark.parametrize("kind", URLS)
def test_a_proxy_that_closes_at_any_byte_is_named(kind: str) -> None:
    for dialogue, answer in answers(kind):
        for cut in range(len(answer)):
            pieces = [answer[:cut], b""] if cut else [b""]
            assert reason(after(kind, dialogue), *pieces).startswith("it closed the connection")


def test_where_a_proxy_closes_says_what_may_be_wrong() -> None:
    assert reason(begin("http"), b"") == "it closed the connection before it answered; is it a proxy for http://?"
    assert reason(begin("socks5"), b"") == "it closed the connection before it answered; is it a proxy for socks5://?"
    told = after("socks5 with password", DIALOGUES[5][1][:1])
    assert reason(told, b"") == "it closed the connection after it received the user name and the password; are they right?"
    assert reason(after("socks5", DIALOGUES[0][1][:1]), b"") == "it closed the connection instead of connecting to the broker"


@pytest.mark.parametrize("kind", URLS)
def test_bytes_after_an_answer_are_an_error(kind: str) -> None:
    """A broker never speaks first; and before the last answer the proxy has nothing to say, either."""
    for dialogue, answer in answers(kind):
        handshake = after(kind, dialogue)
        assert reason(handshake, answer + b"x") == "it sent more than its answer"
        assert not handshake.out


def test_every_reply_of_socks_is_named_as_soon_as_it_is_there() -> None:
    for reply in range(1, 256):
        said = REPLIES.get(reply, "a failure that SOCKS 5 does not define")
        assert reason(after("socks5", DIALOGUES[0][1][:1]), b"\x05", bytes([reply])) == f"{said} (SOCKS reply {reply})"


def test_the_replies_of_socks_are_those_of_the_rfc() -> None:
    assert set(REPLIES) == set(range(1, 9))
    assert "not allowed by its rules" in REPLIES[2]
    assert "refused" in REPLIES[5]


def test_a_method_that_was_not_offered_is_refused() -> None:
    for method in (1, *range(3, 255)):
        for kind in ("socks5", "socks5 with password"):
            assert reason(begin(kind), bytes([5, method])) == f"it chose the authentication method {method}, which was not offered"
    demand = "it demands a user name and a password: write socks5://user:password@host:port in proxy_url"
    assert authentication(begin("socks5"), b"\x05\x02") == demand


def test_a_socks_proxy_that_takes_no_method_says_why() -> None:
    assert authentication(begin("socks5"), b"\x05\xff").startswith("it demands a user name and a password")
    assert authentication(begin("socks5 with password"), b"\x05\xff").startswith("it accepts no user name with a password")


@pytest.mark.parametrize("verdict", [1, 2, 255])
def test_a_wrong_password_for_a_socks_proxy_is_an_authentication_error(verdict: int) -> None:
    told = after("socks5 with password", DIALOGUES[5][1][:1])
    assert authentication(told, b"\x01", bytes([verdict])) == "it refuses the user name or the password"


def test_every_status_of_http_is_named() -> None:
    for status in range(300, 1000):
        page = f"HTTP/1.1 {status} Some {WORD} words\r\nContent-Length: 4\r\n\r\n<a/>".encode()
        said = STATUSES.get(status, "it refused to connect to the broker")
        for kind in ("http", "http with password") if status != 407 else ():
            assert reason(begin(kind), page) == f"{said} (HTTP status {status})"


@pytest.mark.parametrize("header", [b"", b'Proxy-Authenticate: Basic realm="x"\r\n', b"proxy-authenticate: Negotiate, BASIC\r\n"])
def test_status_407_is_an_authentication_error(header: bytes) -> None:
    head = b"HTTP/1.1 407 Proxy Authentication Required\r\n" + header + b"\r\n<html>"
    assert authentication(begin("http with password"), head) == "it refuses the user name or the password"
    demand = "it demands a user name and a password: write http://user:password@host:port in proxy_url"
    assert authentication(begin("http"), head) == demand


def test_a_proxy_without_basic_authentication_is_told_apart() -> None:
    head = b"HTTP/1.1 407 x\r\nProxy-Authenticate: NTLM\r\nProxy-Authenticate: Negotiate\r\nVia: basic\r\n\r\n"
    said = "it accepts no user name with a password, the only login that this client supports"
    for kind in ("http", "http with password"):
        assert authentication(begin(kind), head) == said


@pytest.mark.parametrize(
    ("kind", "data", "says"),
    [
        ("socks5", b"H", "it speaks HTTP: write http:// in proxy_url"),
        ("socks5", b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP: write http:// in proxy_url"),
        ("http", b"\x05\xff", "it speaks SOCKS 5: write socks5:// in proxy_url"),
        ("http", b"\x15\x03\x01", "it speaks TLS, which is not supported between the client and a proxy"),
        ("socks5", b"\x15", "it speaks TLS, which is not supported between the client and a proxy"),
        ("socks5", b"\x00\x5b", "the program that listens there is not a proxy for socks5://"),
        ("http", b"HTTX", "the program that listens there is not a proxy for http://"),
        ("http", b"SSH-2.0", "the program that listens there is not a proxy for http://"),
        ("http", b"HTTP/2 200\r\n\r\n", "its answer is not valid HTTP/1.1"),
        ("http", b"HTTP/1.1 2000 x\r\n\r\n", "its answer is not valid HTTP/1.1"),
        ("http", b"HTTP/1.1 20\r\n\r\n", "its answer is not valid HTTP/1.1"),
        ("http", b"HTTP/1.1 099 x\r\n\r\n", "its answer is not valid HTTP/1.1"),
    ],
)
def test_a_peer_that_is_no_such_proxy_is_told_apart(kind: str, data: bytes, says: str) -> None:
    assert reason(begin(kind), data) == says


@pytest.mark.parametrize("reply", [b"\x04\x00\x00\x01", b"\x05\x00\x00\x02\x00", b"\x05\x00\x00\x00\x00"])
def test_a_reply_that_is_none_is_refused(reply: bytes) -> None:
    assert reason(after("socks5", DIALOGUES[0][1][:1]), reply) == "its answer is not valid SOCKS 5"


def test_an_answer_has_a_bound() -> None:
    handshake = begin("http")
    start = b"HTTP/1.1 200 OK\r\nX: "
    handshake.receive(start)
    for _ in range(MAX_HANDSHAKE_BYTES - len(start) - 1):
        handshake.receive(b"x")
    assert reason(handshake, b"x") == f"its answer is longer than {MAX_HANDSHAKE_BYTES:,} bytes"
    assert MAX_HANDSHAKE_BYTES == 16 * 1024


def test_announcements_without_end_have_the_same_bound() -> None:
    handshake = begin("http")
    endless = b"HTTP/1.1 100 Continue\r\n\r\n"
    answers = [endless] * (MAX_HANDSHAKE_BYTES // len(endless) + 1)
    assert reason(handshake, *answers) == f"its answer is longer than {MAX_HANDSHAKE_BYTES:,} bytes"


def test_many_announcements_at_once_are_read() -> None:
    handshake = begin("http")
    handshake.receive(b"HTTP/1.1 100\n\n" * 1000 + OK)
    assert handshake.done


def test_an_answer_that_fits_is_read_however_long_it_is() -> None:
    handshake = begin("http")
    handshake.receive(b"HTTP/1.1 200 OK\r\nX: ".ljust(MAX_HANDSHAKE_BYTES - 4, b"x") + b"\r\n\r\n")
    assert handshake.done


@pytest.mark.parametrize("kind", URLS)
def test_a_peer_that_sends_everything_back_learns_nothing_to_show(kind: str) -> None:
    handshake = begin(kind)
    with pytest.raises(ConnectionLost) as caught:
        for _ in range(4):
            handshake.receive(sent(handshake))
    assert WORD not in str(caught.value)
    assert "anna" not in str(caught.value)


@given(
    kind=st.sampled_from(sorted(URLS)),
    pieces=st.lists(st.one_of(st.binary(min_size=1), st.sampled_from([b"\x05\x02", b"\x01\x00", b"\x05\x00", OK])), max_size=8),
)
def test_whatever_arrives_ends_in_a_tunnel_or_in_one_error(kind: str, pieces: list[bytes]) -> None:
    handshake = begin(kind)
    with contextlib.suppress(ConnectionLost):
        for piece in pieces:
            if not handshake.done:
                sent(handshake)
                handshake.receive(piece)
