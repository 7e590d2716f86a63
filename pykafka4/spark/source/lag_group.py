"""Commits the offsets of a stream to a group, for tools that show lag. Rule: nothing reads them back, and no failure is one of the query.

Spark calls `commit` of a reader not before the next batch: a query that waits for records would show its last batch as not read. The start
of a trigger is where that batch has ended, so it is committed then, beside the look-ups of the trigger. Spark ends the process of the
reader at once when a query has ended, so `latestOffset` waits for the commit.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import attrs

from pykafka4.client.client import Client
from pykafka4.records import TopicPartition
from pykafka4.spark.options import log

__all__ = ["LagGroup"]


@attrs.define(eq=False)
class LagGroup:
    """The group of commitOffsetsToGroup. A failure is a warning, once for each text."""

    client: Client
    name: str
    _committed: Mapping[TopicPartition, int] = attrs.Factory(dict)
    _running: Future[Any] | None = None  # nobody has waited for it yet
    _told: set[str] = attrs.Factory(set)

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to commit `positions`, unless they were committed before."""
        if positions == self._committed:
            return
        self._committed = positions
        self._running = self.client.futures.commit_offsets(self.name, dict(positions))
        self._running.add_done_callback(self._warn)

    def _warn(self, future: Future[Any]) -> None:
        if future.cancelled():
            return
        failed = future.exception() or next((result.error for result in future.result().values() if result.error), None)
        if failed is not None and str(failed) not in self._told:
            self._told.add(str(failed))
            log.warning("%s: option commitOffsetsToGroup: %s; the query goes on", self.client.config.client_id, failed)

    def finish(self, seconds: float) -> None:
        """Wait for the commit that began last, once: a coordinator that is down delays a batch no longer than that."""
        if self._running is not None:
            concurrent.futures.wait([self._running], seconds)
            self._running = None
