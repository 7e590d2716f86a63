"""Provides `client.futures`: the stateless calls of a client, with futures as their results. See `Client` for each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from pykafka4.client.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    from pykafka4.bounds import BoundSpec
    from pykafka4.client.calls import FetchOffsets, Offsets, Partitions, Times, Topics
    from pykafka4.client.targets import Target
    from pykafka4.core.admin.values import CommitResult, CommittedOffset, FetchedPartition, GroupCoordinator, ListedOffset
    from pykafka4.records import TopicPartition
    from pykafka4.splits import Split
    from pykafka4.wire.protocol.schema import Request, Response

__all__ = ["ClientFutures"]

R = TypeVar("R", bound="Response")


class ClientFutures:
    """The calls of `Client`, each of which returns a `concurrent.futures.Future` for its result or error, without waiting for brokers.

    The call itself raises the errors for most wrong arguments. `cancel` ends a call, although a broker may still carry out a request that
    was sent. Callbacks of the futures run on the client's callback executor. A call ends after `timeout` at the latest.
    """

    __slots__ = ("_runtime",)

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def fetch(
        self,
        offsets: FetchOffsets,
        timeout: float | None = None,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> Future[dict[TopicPartition, FetchedPartition]]:
        """See Client.fetch."""
        calls = self._runtime.calls
        return calls.future(calls.fetch(offsets, timeout, max_wait_ms, min_bytes, isolation_level))

    def list_offsets(
        self,
        times: Times,
        timeout: float | None = None,
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> Future[dict[TopicPartition, ListedOffset]]:
        """See Client.list_offsets."""
        calls = self._runtime.calls
        return calls.future(calls.list_offsets(times, timeout, isolation_level))

    def find_coordinator(self, group: str, timeout: float | None = None) -> Future[GroupCoordinator]:
        """See Client.find_coordinator."""
        calls = self._runtime.calls
        return calls.future(calls.find_coordinator(group, timeout))

    def committed_offsets(
        self, group: str, partitions: Partitions | None = None, timeout: float | None = None, *, require_stable: bool = False
    ) -> Future[dict[TopicPartition, CommittedOffset]]:
        """See Client.committed_offsets."""
        calls = self._runtime.calls
        return calls.future(calls.committed_offsets(group, partitions, timeout, require_stable))

    def commit_offsets(self, group: str, offsets: Offsets, timeout: float | None = None) -> Future[dict[TopicPartition, CommitResult]]:
        """See Client.commit_offsets."""
        calls = self._runtime.calls
        return calls.future(calls.commit_offsets(group, offsets, timeout))

    def splits(
        self,
        topics: Topics,
        n: int,
        start: BoundSpec = "earliest",
        until: BoundSpec = "now",
        *,
        partitions: Iterable[int | TopicPartition | tuple[str, int]] | None = None,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_committed",
        timeout: float | None = None,
    ) -> Future[list[Split]]:
        """See Client.splits."""
        calls = self._runtime.calls
        return calls.future(calls.splits(topics, n, start, until, partitions, timeout, isolation_level))

    def request(
        self, target: Target | int, message: Request[R], timeout: float | None = None, *, max_version: int | None = None
    ) -> Future[R]:
        """See Client.request."""
        calls = self._runtime.calls
        return calls.future(calls.request(target, message, timeout, max_version))
