"""Parses addresses of brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address

from pykafka4.errors import ConfigError, shown
from pykafka4.options.fields import as_int, as_str

__all__ = ["parse_host", "parse_servers"]

WRONG_IN_HOSTS = frozenset(",;/@[]")


def parse_servers(value: object) -> tuple[tuple[str, int], ...]:
    """Parse `"a:9092,b"`, or a list of addresses and (host, port) pairs, into ((host, port), …).

    The port defaults to 9092. An IPv6 address with a port is written `[::1]:9092`. Raises ConfigError.
    """
    parts = str.split(value, ",") if isinstance(value, str) else value
    if isinstance(parts, (bytes, bytearray, Mapping)) or not isinstance(parts, Iterable):
        raise _wrong(value, 'must be a string such as "host1:9092,host2:9092", or a list of addresses')
    servers = tuple(_parse_server(part) for part in parts if not (isinstance(part, str) and not part.strip()))  # allows a final comma
    if not servers:
        raise _wrong(value, 'is empty; name at least one broker, such as "localhost:9092"')
    return servers


def _wrong(value: object, allowed: str) -> ConfigError:
    """A URL with a user name, or a dict of all options, may hold a password, and is not shown."""
    text = shown(value)
    if isinstance(value, Mapping) or "@" in text or "@" in str(value):  # `shown` cuts long text
        text = f"<{type(value).__name__}, not shown>"
    return ConfigError(f"bootstrap_servers={text}: {allowed}")


def _parse_server(part: object) -> tuple[str, int]:
    part = as_str(part)
    if isinstance(part, tuple) and len(part) == 2:
        host, port = as_str(part[0]), as_int(part[1])
    elif isinstance(part, str):
        if "://" in part:
            raise _wrong(part, "must be host:port without a scheme (set the option security_protocol instead)")
        if "@" in part:
            raise _wrong(part, "'@' cannot be in a host name; remove the user name")
        host, _, port = part.strip().rpartition(":") if _has_port(part) else (part.strip(), "", "9092")
        host, port = host.strip(), port.strip()
    else:
        raise _wrong(part, "must be a string such as host:9092")
    number = port if type(port) is int else int(port) if isinstance(port, str) and port.isdecimal() and len(port) < 6 else 0
    if not isinstance(host, str) or not host or not 0 < number < 65536:
        raise _wrong(part, f"must be host:port with a port from 1 to 65535{_way_out(part)}")
    try:
        return parse_host(host), number
    except ValueError as error:
        raise _wrong(part, f"{error}{_way_out(part)}") from None


def parse_host(host: str) -> str:
    """Return a host name, or an IP address without the brackets of IPv6. Raises ValueError with the reason if `host` is not valid."""
    address = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if ":" in address:  # `::1` is an address, `a:b:c` is not
        try:
            IPv6Address(address)
        except ValueError:
            raise ValueError(f"{host!r} is neither a host name nor an IPv6 address") from None
        return address
    if wrong := [character for character in host if character in WRONG_IN_HOSTS or character.isspace() or not character.isprintable()]:
        raise ValueError(f"{wrong[0]!r} cannot be in a host name")
    try:
        host.encode("idna")  # the resolver does the same, but would fail at each connection attempt
    except UnicodeError as error:
        raise ValueError(f"{host!r} is not a valid host name: {error}") from None
    return host


def _way_out(part: object) -> str:
    if not isinstance(part, str):
        return ""
    if "," in part or ";" in part:
        return '; separate brokers with commas, "host1:9092,host2:9092", or pass a list with one broker per item'
    if "[" in part or "]" in part or part.count(":") > 1:
        return "; an IPv6 address with a port is written [::1]:9092"
    return "; remove the path" if "/" in part else ""


def _has_port(part: str) -> bool:
    return ":" in part.rpartition("]")[2] and (part.strip().startswith("[") or part.count(":") == 1)
