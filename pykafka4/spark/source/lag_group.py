"""Commits the offsets of a stream to a group, for tools that show lag. Invariant: no code reads the offsets back; no failed commit fails
the query.

Spark calls `commit` of a reader only with the next batch, so a query that waits for records would show its last batch as unread. The start
of a trigger is the end of the last batch, so each trigger commits its start while it looks up offsets. `latestOffset` waits for the commit,
because Spark ends the reader's process at once when a query has ended.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

import attrs

from pykafka4.client.client import Client
from pykafka4.records import TopicPartition
from pykafka4.spark.options import log

__all__ = ["LagGroup"]


@attrs.define(eq=False)
class LagGroup:
    """The group of commitOffsetsToGroup. The first error of a failed commit is logged as a warning, once for each text."""

    client: Client
    name: str
    _committed: Mapping[TopicPartition, int] = attrs.Factory(dict)
    _running: Future[Any] | None = None  # the last commit, until `finish` has waited for it
    _reported: set[str] = attrs.Factory(set)

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to commit `positions`, unless they are committed already."""
        if positions == self._committed:
            return
        self._running = self.client.futures.commit_offsets(self.name, dict(positions))
        self._running.add_done_callback(partial(self._note, positions))

    def _note(self, positions: Mapping[TopicPartition, int], future: Future[Any]) -> None:
        if future.cancelled():
            return
        failed = future.exception() or next((result.error for result in future.result().values() if result.error), None)
        if failed is None:
            self._committed = positions
        elif str(failed) not in self._reported:
            self._reported.add(str(failed))
            log.warning("%s: option commitOffsetsToGroup: %s; the query continues", self.client.config.client_id, failed)

    def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for the last commit, once, so that a dead coordinator delays a batch by no more than that."""
        if self._running is not None:
            concurrent.futures.wait([self._running], seconds)
            self._running = None
