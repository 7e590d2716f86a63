"""Proxied. Rule: a proxy before each broker, on any backend; whoever is not a client goes around it."""

from __future__ import annotations

from typing import Any

from integration.cluster import Address, Cluster
from integration.faults.proxy import PATIENCE, Proxy
from integration.local.cluster import LocalCluster
from integration.waiting import until

__all__ = ["Proxied", "ProxiedCluster"]


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

    def wait_connections(self, at_least: int, timeout: float = PATIENCE) -> None:
        """Until the proxies together have at least that many open connections."""
        until(
            lambda: sum(proxy.open for proxy in self.proxies.values()) >= at_least, timeout, f"{at_least} connections through the proxies"
        )

    def close(self) -> None:
        super().close()
        for proxy in self.proxies.values():
            proxy.close()
        self.proxies.clear()


class ProxiedCluster(Proxied, LocalCluster):
    """Local brokers, each behind a proxy."""
