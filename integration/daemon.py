"""Owns the cluster that was started by hand, and carries out one order at a time. Invariant: the brokers end with this process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

from integration.backends import backend
from integration.cluster import Cluster
from integration.host.cache import cache
from integration.host.prerequisites import MissingPrerequisite
from integration.security.settings import Protocol, Security
from pykafka4.errors import KafkaError

__all__ = ["NODE_ORDERS", "state_file"]

PATIENCE_S = 10.0  # seconds for a client to send its order
NODE_ORDERS = ("kill", "start", "stop", "restart", "freeze", "thaw", "disconnect", "reconnect", "cut", "mend")


def state_file() -> Path:
    """The file with the daemon's socket: `$PYKAFKA4_CLUSTER`, or one in the cache. SIGKILL leaves it there."""
    chosen = os.environ.get("PYKAFKA4_CLUSTER")
    return Path(chosen) if chosen else cache() / "cluster.json"


def status(cluster: Cluster) -> dict[str, Any]:
    """`trouble` is the reason why the brokers do not answer."""
    brokers = [
        {
            "node": node,
            "state": cluster.state(node).value,
            "process": cluster.process(node),
            "address": ":".join(map(str, cluster.address(node))),
            "log": str(cluster.server_log(node)),
        }
        for node in cluster.nodes
    ]
    clients = {"bootstrap_servers": cluster.bootstrap, **cluster.client_security()} if cluster.security else None
    told = {"bootstrap": cluster.bootstrap, "version": cluster.version, "brokers": brokers, "clients": clients}
    try:
        return {**told, **answers(cluster), "trouble": None}
    except (OSError, KafkaError) as error:
        return {**told, "trouble": str(error)}


def answers(cluster: Cluster) -> dict[str, Any]:
    return {
        "cluster_id": cluster.admin.describe_any().cluster_id,
        "controller": cluster.admin.active_controller(),
        "topics": len(cluster.admin.metadata(None, None).topics),
        "out_of_sync": cluster.admin.out_of_sync(cluster.running()[0], None),
    }


def carry_out(cluster: Cluster, order: dict[str, Any]) -> Any:
    if order["do"] == "status":
        return status(cluster)
    if order["do"] == "start" and order["node"] is None:
        cluster.start_all()
        return [cluster.state(node).value for node in cluster.nodes]
    if order["do"] in NODE_ORDERS and order["node"] in cluster.nodes:
        getattr(cluster, order["do"])(order["node"])
        return cluster.state(order["node"]).value
    raise RuntimeError(f"no such order or broker: {order}; brokers are {list(cluster.nodes)}")


def answer(cluster: Cluster, order: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": None if order["do"] == "down" else carry_out(cluster, order)}
    except (RuntimeError, AssertionError, OSError, KafkaError) as error:
        return {"error": f"{order['do']}: {error}"}


def serve(cluster: Cluster, listener: socket.socket) -> None:
    verb = None
    while verb != "down":
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            try:
                order = json.loads(connection.makefile("rb").readline())
                verb = order["do"]
                connection.sendall(json.dumps(answer(cluster, order)).encode() + b"\n")
            except (OSError, ValueError, KeyError):  # a client that hung up, or sent no order, must not end the daemon
                continue


def main(name: str, brokers: int, version: str, protocol: str) -> None:
    """`protocol` is the security protocol of the clients' listener; empty: PLAINTEXT."""
    security: dict[str, Any] = {"security": Security(cast(Protocol, protocol))} if protocol else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder = Path(tempfile.mkdtemp(prefix="pykafka4-daemon-"))
    try:
        with socket.socket(socket.AF_UNIX) as listener, backend(name)(brokers, version, **security) as cluster:
            listener.bind(str(folder / "socket"))
            listener.listen()
            announce(cluster, folder / "socket")
            serve(cluster, listener)
    finally:
        state_file().unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def announce(cluster: Cluster, path: Path) -> None:
    """Write the state file in one step: a client never reads a part of it."""
    fresh = state_file().with_suffix(".new")
    fresh.write_text(json.dumps({"socket": str(path), "bootstrap": cluster.bootstrap}))
    fresh.rename(state_file())


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])
    except MissingPrerequisite as error:
        sys.exit(str(error))
