"""Parses `allowed_hosts`, and matches the hosts that brokers advertise: names by suffix, addresses by network.

Invariant: a name matches no network, as only the resolver knows its address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import attrs

from pykafka4.errors import ConfigError
from pykafka4.options.fields import bad, plain
from pykafka4.options.servers import parse_host

__all__ = ["AllowedHosts", "parse_allowed_hosts"]


@attrs.frozen
class AllowedHosts:
    """Names, each of which stands for itself and its subdomains, and networks."""

    names: tuple[str, ...]
    networks: tuple[IPv4Network | IPv6Network, ...]

    def allows(self, host: str) -> bool:
        """Whether a client may connect to `host`, a name or an address."""
        try:
            address = ip_address(host)
        except ValueError:
            name = _normal(host)
            return any(name == allowed or name.endswith(f".{allowed}") for allowed in self.names)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


def parse_allowed_hosts(value: object) -> AllowedHosts | None:
    """Parse `"kafka.example.com,10.0.0.0/8"`, or a list of such. None: every host is allowed."""
    if value is None or isinstance(value, AllowedHosts):
        return value
    parts = str.split(value, ",") if isinstance(value, str) else value
    if isinstance(parts, (bytes, bytearray, Mapping)) or not isinstance(parts, Iterable):
        raise bad("allowed_hosts", value, 'must be a string such as "kafka.example.com,10.0.0.0/8", or a list of such')
    names: list[str] = []
    networks: list[IPv4Network | IPv6Network] = []
    for part in parts:
        _add(part, names, networks)
    if not names and not networks:
        raise bad("allowed_hosts", value, "is empty; None allows every host")
    return AllowedHosts(tuple(names), tuple(networks))


def _add(part: object, names: list[str], networks: list[IPv4Network | IPv6Network]) -> None:
    part = plain(part)
    if not isinstance(part, str) or not part.strip(" ."):
        raise bad("allowed_hosts", part, "each item must be a host name or a network")
    text = part.strip()
    try:
        networks.append(ip_network(text))
    except ValueError as error:
        if "/" in text or ":" in text:
            raise bad("allowed_hosts", part, f"must be a host name without a port, or a network such as 10.0.0.0/8 ({error})") from None
        if "*" in text:
            raise bad("allowed_hosts", part, "has no wildcards: example.com stands for its subdomains, too") from None
        try:
            names.append(_normal(parse_host(text.removeprefix("."))))
        except ValueError as wrong:
            raise ConfigError(f"allowed_hosts={part!r}: {wrong}") from None


def _normal(name: str) -> str:
    return name.lower().rstrip(".")
