"""`cluster`: brokers, quorum, features, log directories, reassignments, elections. Rule: nothing is changed without `--execute`."""

from __future__ import annotations

import click

from pykafka4.cli.local import down, status, up

__all__ = ["cluster"]


@click.group(short_help="The cluster: brokers, quorum, log directories, …")
def cluster() -> None:
    """The cluster: brokers, quorum, features, log directories, replicas, leaders."""


for command in (up, down, status):
    cluster.add_command(command)
