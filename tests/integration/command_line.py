"""Calls the command line on a cluster, with the properties that the cluster demands; has the bootstrap servers for Kafka's tools."""

from __future__ import annotations

import sys
from pathlib import Path

from integration.cluster import Cluster
from integration.kafka.settings import write_properties

FOLDER = Path(__file__).parents[2] / "build" / "clients"


def call_of(cluster: Cluster, *arguments: str) -> list[str]:
    """The words of `pykafka4 ARGUMENTS`, with the options that reach `cluster`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{cluster.bootstrap.partition(',')[0].replace(':', '-')}.properties"
    write_properties(file, {"bootstrap.servers": cluster.bootstrap, **cluster.java})
    return [sys.executable, "-m", "pykafka4", *arguments, "--config", str(file)]


def tools_bootstrap(cluster: Cluster) -> str:
    """The bootstrap servers for Kafka's tools and other clients without the cluster's certificates: listeners that demand no login."""
    if cluster.security is None:
        return cluster.bootstrap
    return ",".join(f"{host}:{port}" for host, port in map(cluster.admin_address, cluster.nodes))
