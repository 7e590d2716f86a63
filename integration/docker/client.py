"""Connects to a Docker engine, and removes containers and networks. Invariant: if a label is given, only objects with it are removed."""

from __future__ import annotations

import contextlib
import socket

from docker import DockerClient
from docker.errors import DockerException, NotFound

from integration.waiting import WaitTimeout, until

__all__ = ["TROUBLE", "EngineFailed", "connect", "purge"]

PURGE_S = 60.0
CALL_S = 60.0
UNIX = "unix://"
TROUBLE = (OSError, DockerException, WaitTimeout)  # the errors of `purge` in an engine that fails


class EngineFailed(RuntimeError):
    """Raised if an engine did not start or does not answer; the message has the end of its log."""


def connect(host: str) -> DockerClient:
    """Raises the errors of the SDK and its transport while no engine answers at `host`."""
    if host.startswith(UNIX):  # connect here first: the SDK leaves a socket open if it cannot connect it
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(CALL_S)
            knock.connect(host.removeprefix(UNIX))
    return DockerClient(base_url=host, timeout=CALL_S)


def purge(client: DockerClient, label: str | None = None) -> list[str]:
    """Remove the containers and networks with `label` (None: all), in any state. Returns a line for each."""
    filters = {"label": label} if label else {}
    removed: dict[str, None] = {}
    until(
        lambda: emptied(client, filters, removed),
        PURGE_S,
        f"the engine to remove the objects with {label or 'any or no label'}",
        forgive=(OSError, DockerException),
    )
    return list(removed)


def emptied(client: DockerClient, filters: dict[str, str], removed: dict[str, None]) -> bool:
    """Returns True if there were no containers and networks. Another process may remove the same objects meanwhile."""
    containers = client.containers.list(all=True, sparse=True, ignore_removed=True, filters=filters)
    for container in containers:
        with contextlib.suppress(NotFound):
            container.remove(force=True, v=True)
            removed[f"removed the container {' '.join(container.attrs.get('Names') or [container.short_id]).lstrip('/')}"] = None
    networks = client.networks.list(filters={**filters, "type": "custom"})
    for network in networks:
        with contextlib.suppress(NotFound):
            network.remove()
            removed[f"removed the network {network.name}"] = None
    return not (containers or networks)
