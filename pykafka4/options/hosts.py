"""Parses `allowed_hosts`, and matches the hosts that brokers advertise: names by suffix, addresses by network.

Invariant: a name matches no network, because only the resolver knows its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import attrs

from pykafka4.errors import ConfigError
from pykafka4.options.fields import as_str, bad
from pykafka4.options.servers import parse_host

__all__ = ["AllowedHosts", "address_or_name", "parse_allowed_hosts"]


@attrs.frozen
class AllowedHosts:
    """Names and networks. A name stands for itself and its subdomains."""

    items: tuple[str | IPv4Network | IPv6Network, ...]

    def allows(self, host: str) -> bool:
        found = address_or_name(host)
        if isinstance(found, str):
            return any(f".{found}".endswith(f".{item}") for item in self.items if isinstance(item, str))
        return any(found in item for item in self.items if not isinstance(item, str))


def address_or_name(host: str) -> IPv4Address | IPv6Address | str:
    """The value by which hosts are compared: equal for all spellings of an IPv6 address; capitals and a final dot in a name are ignored."""
    try:
        return ip_address(host)
    except ValueError:
        return _normal(host)


def parse_allowed_hosts(value: object) -> AllowedHosts | None:
    """Parse `"kafka.example.com,10.0.0.0/8"`, or a list of such items. None: every host is allowed."""
    if value is None or isinstance(value, AllowedHosts):
        return value
    parts = str.split(value, ",") if isinstance(value, str) else value
    if isinstance(parts, (bytes, bytearray, Mapping)) or not isinstance(parts, Iterable):
        raise bad("allowed_hosts", value, 'must be a string such as "kafka.example.com,10.0.0.0/8", or a list of hosts and networks')
    if items := tuple(map(_parse, parts)):
        return AllowedHosts(items)
    raise bad("allowed_hosts", value, "is empty; None allows every host")


def _parse(part: object) -> str | IPv4Network | IPv6Network:
    text = as_str(part)
    if not isinstance(text, str) or not _normal(text):
        raise bad("allowed_hosts", part, "each item must be a host name or a network")
    try:
        return ip_network(text.strip())
    except ValueError as error:
        if "/" in text or ":" in text or "*" in text:
            allowed = "must be a host name (which stands for its subdomains, too), without a port, or a network such as 10.0.0.0/8"
            raise bad("allowed_hosts", part, f"{allowed} ({error})") from None
    try:
        return parse_host(_normal(text))
    except ValueError as error:
        raise ConfigError(f"allowed_hosts={part!r}: {error}") from None


def _normal(name: str) -> str:
    return name.strip().strip(".").lower()
