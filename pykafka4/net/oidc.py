"""Fetches tokens from an OpenID Connect issuer. Invariant: the secret goes only to the host of `token_url`, over TLS, and no error shows
it; no answer can cost much time or memory.

The module uses `http.client`, because `urllib.request` opens `file:` URLs, follows redirects and takes proxies from the environment
(CVE-2025-27817 of Kafka's Java client was of this kind).
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

import attrs

from pykafka4.core.sasl.credentials import text_of
from pykafka4.core.sasl.oauthbearer import Token
from pykafka4.errors import AuthenticationError, ConfigError
from pykafka4.errors.frames import guarded
from pykafka4.errors.peer_text import filtered
from pykafka4.options.secret import Secret, hidden

__all__ = ["OidcToken"]

MAX_BODY_BYTES: Final = 64 * 1024  # bytes of a response's body
MAX_HEAD_BYTES: Final = 64 * 1024  # bytes of status line, header and framing
LONGEST_LIFE_S: Final = 10 * 366 * 86_400.0
LATEST_S: Final = 1e11  # seconds since 1970; a higher number is in milliseconds
LONGEST_TIMEOUT_S: Final = 300.0
NUMBER: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})?")
URL: Final = re.compile(r"[\x21-\x7e]+")
TEMPORARY_STATUSES: Final = (408, 425, 429)  # may be temporary, like all statuses from 500 on
TIMED_OUT: Final = "no complete response within {:g} s"


def _url(value: str) -> str:
    text = text_of(value, "token_url")
    if not URL.fullmatch(text):
        raise ConfigError("token_url has spaces, line ends or characters that are not ASCII: pass it as in the issuer's configuration")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError:  # a UnicodeError is also a ValueError
        host = None
    if not host:
        raise ConfigError("token_url is not a URL such as https://issuer.example/oauth2/token")
    if parts.scheme != "https":
        raise ConfigError(f"token_url begins with {parts.scheme}: it must be https:, because the secret is sent there")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("token_url has a user name before the host: pass client_id and client_secret instead")
    if parts.fragment:
        raise ConfigError("token_url has a fragment (#…), which is never sent: leave it out")
    return text


def _shown(url: str) -> str:
    return url.partition("?")[0]  # the query may hold a secret


def _secret(value: str | Callable[[], str]) -> str | Callable[[], str]:
    return value if callable(value) else text_of(value, "client_secret")


def _client_id(value: str) -> str:
    return text_of(value, "client_id")


def _scope(value: str | None) -> str | None:
    return None if value is None else text_of(value, "scope")


def _audience(value: str | None) -> str | None:
    return None if value is None else text_of(value, "audience")


def _ca_file(value: str | None) -> str | None:
    return None if value is None else text_of(value, "ca_file")


def _extensions(value: Mapping[str, str] | None) -> Mapping[str, str]:
    return Token("none", extensions=value).extensions


def _names(extensions: Mapping[str, str]) -> str:
    return str(sorted(extensions))


def _timeout(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST_TIMEOUT_S:
        raise ConfigError(f"timeout must be a number of seconds over 0, up to {LONGEST_TIMEOUT_S:g}")
    return float(value)


def _flag(value: bool) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"form_encode must be True or False, not {type(value).__name__}")
    return value


@attrs.frozen(eq=False)
class OidcToken(Secret):
    """A callable for `sasl_oauth_token` that gets a token for a client id and its secret from an OpenID Connect issuer (KIP-768).

    `client_secret` may be a callable, which is called for each token. The issuer's certificate must be signed by an authority in `ca_file`
    (PEM; default: the system's authorities). Redirects are not followed, and proxies are not used. A call takes at most `timeout` seconds,
    not counting the lookup of the host's name and a callable `client_secret`. A failed call is not retried here: the client calls again,
    with a backoff.

    Id and secret are encoded as RFC 6749 demands before they become the user name and password of HTTP. `form_encode=False` leaves them as
    they are, for issuers that do not decode them. The token lives for the issuer's `expires_in`; without `expires_in`, until the `exp` of a
    JWT.
    """

    token_url: str = attrs.field(converter=_url, repr=_shown)
    client_id: str = attrs.field(converter=_client_id)
    client_secret: str | Callable[[], str] = attrs.field(converter=_secret, repr=hidden)
    scope: str | None = attrs.field(default=None, converter=_scope)
    audience: str | None = attrs.field(default=None, converter=_audience)
    extensions: Mapping[str, str] = attrs.field(default=None, converter=_extensions, repr=_names)
    ca_file: str | None = attrs.field(default=None, converter=_ca_file)
    timeout: float = attrs.field(default=5.0, converter=_timeout)
    form_encode: bool = attrs.field(default=True, converter=_flag)
    clock: Callable[[], float] = attrs.field(default=time.time, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        if ":" in self.client_id and not self.form_encode:
            raise ConfigError("client_id has a colon, which ends the user name of HTTP: leave form_encode at True")

    @guarded
    def __call__(self) -> Token:
        """Fetch a token from the issuer.

        Raises AuthenticationError if the issuer refuses, cannot be reached, or sends an invalid response; the error's `certain` is False if
        another call may succeed. Raises ConfigError for a bad `client_secret` or `ca_file`.
        """
        secret = text_of(self.client_secret() if callable(self.client_secret) else self.client_secret, "client_secret")
        asked_at = self.clock()
        answer = self._ask(secret)
        return self._token(answer, asked_at, secret)

    # -- the request

    def _ask(self, secret: str) -> Answer:
        deadline = time.monotonic() + self.timeout
        try:
            return self._exchange(secret, deadline)
        except ssl.SSLCertVerificationError as error:
            reason = f"its certificate is refused: {error.verify_message}; set ca_file to the certificate of its authority"
        except ssl.SSLError as error:
            reason = f"TLS failed: {error.reason or type(error).__name__}"
        except TimeoutError:
            reason = TIMED_OUT.format(self.timeout)
        except ResponseTooLarge:
            reason = f"it sent more than {MAX_BODY_BYTES + MAX_HEAD_BYTES:,} bytes"
        except OSError as error:
            reason = f"it cannot be reached: {error.strerror or type(error).__name__}"
        except http.client.HTTPException as error:  # its text would repeat received bytes
            reason = f"its response is not HTTP ({type(error).__name__})"
        raise self._failed(reason, certain=False)  # after the `except` blocks, so that the caught error is not its `__context__`

    def _exchange(self, secret: str, deadline: float) -> Answer:
        parts = urlsplit(self.token_url)
        assert parts.hostname is not None
        context = self._context()
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=context)
        try:
            connection.sock = _dial(parts.hostname, parts.port or 443, context, deadline)
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, self._body(), self._headers(secret))
            response = connection.getresponse()
            body = response.read(MAX_BODY_BYTES + 1)
            return Answer(response.status, body)
        finally:
            connection.close()

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            reason = getattr(error, "strerror", None) or type(error).__name__
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.sslsocket_class = DeadlineSocket
            return context
        raise ConfigError(f"ca_file={self.ca_file!r} cannot be used: {reason}")

    def _body(self) -> bytes:
        fields = {"grant_type": "client_credentials", "scope": self.scope, "audience": self.audience}
        return urlencode({name: value for name, value in fields.items() if value is not None}).encode()

    def _headers(self, secret: str) -> dict[str, str]:
        return {
            "Authorization": f"Basic {self._basic(secret)}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
            "User-Agent": "pykafka4",
            "Connection": "close",
        }

    def _basic(self, secret: str) -> str:
        user, password = (quote_plus(value) if self.form_encode else value for value in (self.client_id, secret))
        return base64.b64encode(f"{user}:{password}".encode()).decode()

    # -- the response

    def _token(self, answer: Answer, asked_at: float, secret: str) -> Token:
        if len(answer.body) > MAX_BODY_BYTES:
            raise self._failed(f"its response has more than {MAX_BODY_BYTES:,} bytes")
        found = _object_in(answer.body)
        if answer.status != 200:
            raise self._refused(answer.status, found or {}, secret)
        if found is None:
            raise self._failed("its response is not a JSON object; check the path of the URL")
        value = found.get("access_token")
        if not isinstance(value, str):
            raise self._failed("its response has no access_token")
        kind = found.get("token_type", "Bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise self._failed("its token is not of the type Bearer, the only type that brokers accept")
        expires_at = _expiry_in(value) if found.get("expires_in") is None else asked_at + self._life(found["expires_in"])
        try:
            return Token(value, expires_at, extensions=self.extensions)
        except ConfigError as error:
            reason = str(error)
        raise self._failed(reason)

    def _life(self, told: object) -> float:
        life = _number(told)
        if life is None or not 0 < life <= LONGEST_LIFE_S:
            raise self._failed(f"its expires_in is not a number of seconds over 0, up to {LONGEST_LIFE_S:.0f}")
        return life

    def _refused(self, status: int, found: Mapping[str, object], secret: str) -> AuthenticationError:
        """The error shows the issuer's words, unless `filtered` finds the secret in them."""
        secrets = (secret, quote_plus(secret), self._basic(secret))
        told = [found.get(name) for name in ("error", "error_description")]
        words = "".join(f", '{filtered(text, secrets)}'" for text in told if isinstance(text, str))
        hint = ""
        if 300 <= status < 400:
            hint = "; redirects are not followed: set token_url to their target"
        elif status in (400, 401, 403):
            hint = "; check client_id, client_secret and scope"
        elif status in (404, 405):
            hint = "; check the path of token_url"
        return self._failed(f"HTTP status {status}{words}{hint}", certain=status < 500 and status not in TEMPORARY_STATUSES)

    def _failed(self, reason: str, *, certain: bool = True) -> AuthenticationError:
        error = AuthenticationError(f"no token from {_shown(self.token_url)}: {reason}")
        error.certain = certain
        return error


@attrs.frozen(repr=False)
class Answer:
    status: int
    body: bytes


class ResponseTooLarge(Exception):
    """Raised if the issuer sends more than MAX_BODY_BYTES + MAX_HEAD_BYTES."""


class DeadlineSocket(ssl.SSLSocket):
    """Has one deadline for all reads and writes, and one limit of received bytes; a plain timeout starts over with each read."""

    deadline: float
    room: int

    def recv_into(self, buffer: Any, nbytes: int | None = None, flags: int = 0) -> int:
        self.settimeout(_left(self.deadline))
        count = super().recv_into(buffer, nbytes, flags)
        self.room -= count
        if self.room < 0:
            raise ResponseTooLarge
        return count

    def send(self, data: Any, flags: int = 0) -> int:
        self.settimeout(_left(self.deadline))
        return super().send(data, flags)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _dial(host: str, port: int, context: ssl.SSLContext, deadline: float) -> DeadlineSocket:
    """Connect. Every address of `host` gets an equal share of the time that is left."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError()
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        with socket.socket(family, kind, protocol) as plain:
            try:
                plain.settimeout(_left(deadline) / (len(addresses) - number))
                plain.connect(address)
            except OSError as error:
                failure = error
                continue
            plain.settimeout(_left(deadline))
            encrypted = context.wrap_socket(plain, server_hostname=host)  # the timeout applies to the whole handshake
            assert isinstance(encrypted, DeadlineSocket)
            encrypted.deadline, encrypted.room = deadline, MAX_BODY_BYTES + MAX_HEAD_BYTES
            return encrypted
    raise failure


def _object_in(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if NUMBER.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < LATEST_S:
        return None
    return float(value)


def _expiry_in(token: str) -> float | None:
    """Return the `exp` claim of a JWT, unverified; None if `token` is not a JWT with a valid `exp`."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = _object_in(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        return None
    expiry = None if claims is None else claims.get("exp")
    return None if isinstance(expiry, str) or (number := _number(expiry)) is None or number <= 0 else number
