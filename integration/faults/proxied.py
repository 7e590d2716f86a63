"""Proxied. Rule: a proxy before each broker, on any backend; whoever is not a client goes around it."""

from __future__ import annotations

from typing import Any

from integration.cluster import Cluster
from integration.faults.proxy import Proxy
from integration.seam import Address

__all__ = ["Proxied"]


class Proxied(Cluster):
    """Clients are told the addresses of `proxies`, one before each broker. Admin and judge go around them."""

    def __init__(self, brokers: int = 3, seed: int = 0, **options: Any) -> None:
        self.proxies: dict[int, Proxy] = {}
        self.seed = seed
        super().__init__(brokers, advertised=self.proxied, **options)

    def proxied(self, node: int, real: Address) -> Address:
        """A new proxy's address for a broker."""
        self.proxies[node] = Proxy(real, seed=self.seed + node)
        return self.proxies[node].address

    def heal_proxies(self) -> None:
        """End every fault of every proxy."""
        for proxy in self.proxies.values():
            proxy.heal()

    def close(self) -> None:
        super().close()
        for proxy in self.proxies.values():
            proxy.close()
        self.proxies.clear()
