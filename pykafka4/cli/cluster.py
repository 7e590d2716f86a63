"""`cluster`: brokers, quorum, features, log directories, reassignments, elections. Rule: nothing is changed without `--execute`."""

from __future__ import annotations

import click

__all__ = ["cluster"]


@click.group(short_help="The cluster: brokers, quorum, log directories, …")
def cluster() -> None:
    """The cluster: brokers, quorum, features, log directories, replicas, leaders."""
