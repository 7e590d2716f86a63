"""Lists the backends, each with a name and a class, and chooses one; no other module does."""

from __future__ import annotations

import importlib
import os
from types import MappingProxyType

from integration.cluster import Cluster
from integration.faults.proxied import Proxied

__all__ = ["BACKENDS", "backend", "chosen", "proxied"]

BACKENDS = MappingProxyType(
    {
        "local": "integration.local.cluster:LocalCluster",
        "docker": "integration.docker.cluster:DockerCluster",
        "vagrant": "integration.vagrant.cluster:VagrantCluster",
    }
)


def chosen() -> str:
    return os.environ.get("CLUSTER") or "local"


def backend(name: str) -> type[Cluster]:
    """The backend's own libraries are imported only now. Raises ValueError, with all names, for an unknown name."""
    if name not in BACKENDS:
        raise ValueError(f"no cluster backend is called {name!r}; there are {', '.join(BACKENDS)}")
    module, _, kind = BACKENDS[name].partition(":")
    found: type[Cluster] = getattr(importlib.import_module(module), kind)
    return found


def proxied(name: str) -> type[Proxied]:
    """The class of a backend with a proxy in front of each broker."""
    kind = backend(name)
    return type(f"Proxied{kind.__name__}", (Proxied, kind), {"__doc__": f"{kind.__name__}, each broker behind a proxy."})
