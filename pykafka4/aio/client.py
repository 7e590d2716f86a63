"""Defines the client for asyncio, with the stateless calls as coroutines.

A cancelled call ends; brokers may still carry out a request of this call.
"""

from __future__ import annotations

from concurrent.futures import Executor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack

from pykafka4.aio.tasks import EventLoopBinding
from pykafka4.client.answers import LOOP_ANSWER_S, Answers
from pykafka4.client.client import Client as ThreadClient
from pykafka4.client.runtime import Runtime
from pykafka4.client.serving import ServesStatus
from pykafka4.errors import ConfigError, shown_unless_secret
from pykafka4.errors.frames import guarded
from pykafka4.misuse import check_timeout
from pykafka4.net import system
from pykafka4.options.typed import ClientOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka4.bounds import BoundSpec
    from pykafka4.client.calls import FetchOffsets, Offsets, Partitions, Times, Topics
    from pykafka4.client.targets import Target
    from pykafka4.core.admin.values import CommitResult, CommittedOffset, FetchedPartition, GroupCoordinator, ListedOffset
    from pykafka4.metrics.sources import Source
    from pykafka4.pages.watched import Watched
    from pykafka4.records import TopicPartition
    from pykafka4.splits import Split
    from pykafka4.wire.protocol.schema import Request, Response

__all__ = ["Client"]

T = TypeVar("T")
R = TypeVar("R", bound="Response")


class Client(ServesStatus):
    """The stateless calls of `pykafka4.Client` as coroutines: `await client.fetch({("orders", 0): 0})`.

    `aio.Client(bootstrap_servers="host:9092", **options)` owns a client; `aio.Client(client=client)` shares a `pykafka4.Client`, also with
    producers and consumers, and does not close it. An `aio.Client` belongs to the event loop of its first use. A cancelled call ends.
    """

    _name = "aio.Client"

    @guarded
    def __init__(
        self, client: ThreadClient | None = None, *, callback_executor: Executor | None = None, **options: Unpack[ClientOptions]
    ) -> None:
        """Raises ConfigError for an invalid option. The client connects in the background. Needs no running event loop."""
        if client is not None and not isinstance(client, ThreadClient):
            raise ConfigError(f"client must be a pykafka4.Client, not {shown_unless_secret(client)}")
        if client is not None and (options or callback_executor is not None):
            raise ConfigError(f"{next(iter(options), 'callback_executor')}: set by the shared Client; pass it there")
        self._owns = client is None
        self._client = client if client is not None else ThreadClient(callback_executor=callback_executor, **options)
        self._binding = EventLoopBinding("aio.Client")

    @property
    def _sources(self) -> tuple[Source, ...]:
        return self._client._sources

    async def fetch(
        self,
        offsets: FetchOffsets,
        timeout: float | None = None,
        *,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> dict[TopicPartition, FetchedPartition]:
        """See pykafka4.Client.fetch. Records are decoded on another thread."""
        return await self._result(self._calls.fetch(offsets, timeout, max_wait_ms, min_bytes, isolation_level))

    async def list_offsets(
        self,
        times: Times,
        timeout: float | None = None,
        *,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    ) -> dict[TopicPartition, ListedOffset]:
        """See pykafka4.Client.list_offsets."""
        return await self._result(self._calls.list_offsets(times, timeout, isolation_level))

    async def find_coordinator(self, group: str, timeout: float | None = None) -> GroupCoordinator:
        """See pykafka4.Client.find_coordinator."""
        return await self._result(self._calls.find_coordinator(group, timeout))

    async def committed_offsets(
        self, group: str, partitions: Partitions | None = None, timeout: float | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, CommittedOffset]:
        """See pykafka4.Client.committed_offsets."""
        return await self._result(self._calls.committed_offsets(group, partitions, timeout, require_stable))

    async def commit_offsets(self, group: str, offsets: Offsets, timeout: float | None = None) -> dict[TopicPartition, CommitResult]:
        """See pykafka4.Client.commit_offsets. After a cancellation the coordinator may or may not have stored the offsets."""
        return await self._result(self._calls.commit_offsets(group, offsets, timeout))

    async def splits(
        self,
        topics: Topics,
        n: int,
        start: BoundSpec = "earliest",
        until: BoundSpec = "now",
        *,
        partitions: Iterable[int | TopicPartition | tuple[str, int]] | None = None,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_committed",
        timeout: float | None = None,
    ) -> list[Split]:
        """See pykafka4.Client.splits."""
        return await self._result(self._calls.splits(topics, n, start, until, partitions, timeout, isolation_level))

    async def request(
        self, target: Target | int, message: Request[R], timeout: float | None = None, *, max_version: int | None = None
    ) -> R:
        """See pykafka4.Client.request."""
        return await self._result(self._calls.request(target, message, timeout, max_version))

    def status(self) -> dict[str, Any]:
        """See pykafka4.Client.status."""
        return self._client.status()

    def _shown(self) -> tuple[Runtime, object, Watched]:
        return self._client._shown()

    async def close(self, timeout: float | None = None) -> None:
        """Close the client, unless it is shared. See pykafka4.Client.close."""
        limit = check_timeout(timeout)
        if self._owns and not self._client._runtime.loop.forked:
            self._binding.enter()
            await self._binding.run_on_thread(lambda: self._client.close(limit), self._client.config.client_id)

    async def __aenter__(self) -> Self:
        self._binding.enter()
        self._client._runtime.check()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self._client).replace("<Client", "<aio.Client", 1)

    @property
    def _calls(self) -> Any:
        if not self._client._runtime.loop.forked:  # in a forked child, the call itself raises the error of the fork
            self._binding.enter()
        return self._client._runtime.calls

    async def _result(self, answers: Answers[T]) -> T:
        try:
            # The machine ends the call after `seconds`; LOOP_ANSWER_S is for a loop that does not respond.
            await self._binding.done(answers.promise, system.monotonic() + answers.seconds + LOOP_ANSWER_S)
            return answers.result()
        finally:
            answers.end()  # also after a cancellation: the loop must not go on with a call that no task awaits
