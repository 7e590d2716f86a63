"""Puts a proxy in front of each broker of any backend. Invariant: only clients reach brokers through proxies, all other parts directly."""

from __future__ import annotations

from typing import Any

from integration.cluster import Cluster
from integration.faults.proxy import Proxy
from integration.seam import Address

__all__ = ["Proxied"]


class Proxied(Cluster):
    """Brokers advertise the addresses of their `proxies` to clients. The other brokers, `Admin` and the judge connect directly."""

    def __init__(self, brokers: int = 3, seed: int = 0, **options: Any) -> None:
        self.proxies: dict[int, Proxy] = {}
        self.seed = seed
        super().__init__(brokers, advertised=self.proxied, **options)

    def proxied(self, node: int, real: Address) -> Address:
        self.proxies[node] = Proxy(real, seed=self.seed + node)
        return self.proxies[node].address

    def heal_proxies(self) -> None:
        for proxy in self.proxies.values():
            proxy.heal()

    def close(self) -> None:
        super().close()
        for proxy in self.proxies.values():
            proxy.close()
        self.proxies.clear()
