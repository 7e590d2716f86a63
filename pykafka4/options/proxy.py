"""Parses the URL of a proxy. Invariant: an error names the wrong part, but shows only the scheme, because other parts may be
secret.

No error is raised inside an `except` block: the handled exception, which holds a part of the URL, would be its context.
"""

from __future__ import annotations

import difflib
import re
from enum import Enum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import attrs

from pykafka4.errors import ConfigError
from pykafka4.options.fields import as_str
from pykafka4.options.secret import Secret
from pykafka4.options.servers import parse_host

__all__ = ["Proxy", "ProxyKind", "parse_proxy"]

LONGEST: Final = 255  # bytes of a user name or password, the limit of SOCKS 5
# A text before `://` that is not a scheme may be a part of a password, so no error shows it.
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,19}")
BROKEN_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
SUCH_AS: Final = "socks5://host:port or http://host:port"


class ProxyKind(Enum):
    """The protocol between client and proxy."""

    SOCKS5 = "socks5"
    HTTP = "http"


KINDS: Final = {"socks5": ProxyKind.SOCKS5, "socks5h": ProxyKind.SOCKS5, "http": ProxyKind.HTTP}
REFUSED: Final = {
    "https": "TLS between the client and a proxy is not supported; use http:// (security_protocol encrypts the traffic through the proxy)",
    "socks": "write socks5://",
    "socks4": "only version 5 of SOCKS is supported; use socks5:// if the proxy speaks it",
    "socks4a": "only version 5 of SOCKS is supported; use socks5:// if the proxy speaks it",
}


@attrs.frozen
class Proxy(Secret):
    kind: ProxyKind
    host: str
    port: int
    username: bytes | None = attrs.field(default=None, repr=False)  # None: the client does not authenticate itself
    password: bytes = attrs.field(default=b"", repr=False)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self.username is not None else object.__reduce_ex__(self, protocol)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_proxy(value: object) -> Proxy | None:
    """Parse `socks5://[user:password@]host:port` or `http://…`. Raises ConfigError. The proxy resolves brokers' names, so `socks5h` equals
    `socks5`.
    """
    if value is None or isinstance(value, Proxy):
        return value
    if not isinstance(value, str):
        raise ConfigError(f"proxy_url is of type {type(value).__name__}: must be a string such as {SUCH_AS}")
    scheme, separator, rest = as_str(value).strip().partition("://")
    kind = KINDS.get(scheme.lower()) if separator else None
    if kind is None:
        raise _wrong(_about_scheme(scheme if separator else ""))
    credentials, at, address = rest.rpartition("@")
    username, password = _parse_credentials(kind, credentials) if at else (None, b"")
    host, port = _parse_address(address.removesuffix("/"))
    return Proxy(kind, host, port, username, password)


def _wrong(why: str) -> ConfigError:
    return ConfigError(f"proxy_url: {why}")


def _about_scheme(scheme: str) -> str:
    if not SCHEME.fullmatch(scheme):
        return f"has no scheme: must be {SUCH_AS}"
    if (why := REFUSED.get(scheme.lower())) is not None:
        return f"the scheme {scheme!r} is none of socks5, socks5h, http; {why}"
    near = difflib.get_close_matches(scheme.lower(), KINDS, n=1, cutoff=0.7)
    return f"the scheme {scheme!r} is none of socks5, socks5h, http; {f'did you mean {near[0]}://?' if near else f'use {SUCH_AS}'}"


def _parse_credentials(kind: ProxyKind, text: str) -> tuple[bytes, bytes]:
    """The text of a ConfigError has neither the user name nor the password."""
    if any(character in text for character in "/?#"):
        raise _wrong("a character of the user name or password has to be encoded: write %2F for /, %3F for ?, %23 for #")
    if BROKEN_PERCENT.search(text):
        raise _wrong("a % in the user name or password is not followed by two hexadecimal digits: write %25 for %")
    name, _, word = text.partition(":")
    username, password = (unquote_to_bytes(part.encode("utf-8", "surrogatepass")) for part in (name, word))
    if not username:
        raise _wrong("the user name before @ is empty: write user:password@host:port, or leave out the @")
    if kind is ProxyKind.HTTP and b":" in username:
        raise _wrong("the user name has a colon, which HTTP proxies take for its end: use another user name")
    if kind is ProxyKind.SOCKS5 and max(len(username), len(password)) > LONGEST:
        raise _wrong(f"the user name or the password has more than {LONGEST} bytes, the limit of SOCKS 5")
    return username, password


def _parse_address(text: str) -> tuple[str, int]:
    if any(character in text for character in "/?#"):
        raise _wrong(f"must end after the port, as in {SUCH_AS}")
    host, _, port = ("", "", "") if text.endswith("]") else text.rpartition(":")
    if not host:
        raise _wrong(f"host or port is missing: must be {SUCH_AS}; usual ports are 1080 (SOCKS), 3128 and 8080 (HTTP)")
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
        raise _wrong("the port must be a number from 1 to 65535; is the @ between password and host missing?")
    if ":" in host and not host.startswith("["):
        raise _wrong("a host with colons must be an IPv6 address in brackets, as in socks5://[::1]:1080")
    if (parsed := _host_or_none(host)) is None:
        raise _wrong("the host is neither a host name nor an IP address")
    return parsed, int(port)


def _host_or_none(text: str) -> str | None:
    try:
        return parse_host(text)
    except ValueError:
        return None
