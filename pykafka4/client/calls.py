"""Checks the arguments of a client's stateless calls, and begins these calls for threads, futures and tasks. Invariant: an argument
that is wrong for every cluster raises an error before any broker gets a request, except a bound of `splits` or a field of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from pykafka4.bounds import LATEST, Bounds, BoundSpec, Selection, Span, as_bounds, as_selection
from pykafka4.client.answers import LOOP_ANSWER_S, Answers, Futures
from pykafka4.client.targets import Target, as_target
from pykafka4.core.admin import locating, stateless
from pykafka4.core.admin.call import Begin
from pykafka4.core.admin.fetches import FetchFrom, FetchLimits
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.values import CommitResult, CommittedOffset, FetchedPartition, GroupCoordinator, ListedOffset, OffsetSpec
from pykafka4.core.engine import Engine
from pykafka4.errors import ConfigError, KafkaError, PartialFailure, shown
from pykafka4.misuse import api_timeout, as_offsets, check_count, check_group, check_group_to_set, topic_partition
from pykafka4.net.handoff.waiting import Promise
from pykafka4.net.handoff.workers import Callbacks
from pykafka4.net.loop import Loop
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.splits import Split, divide
from pykafka4.wire.protocol.schema import Request, Response
from pykafka4.wire.records.hot import now_ms

__all__ = ["Calls", "FetchOffsets", "Offsets", "Partitions", "Times", "Topics", "listing"]

T = TypeVar("T")
R = TypeVar("R", bound=Response)
Partition: TypeAlias = TopicPartition | tuple[str, int]
FetchOffsets: TypeAlias = "Mapping[Any, int | tuple[int, int]]"  # the keys are partitions
Topics: TypeAlias = "str | Iterable[str]"
Times: TypeAlias = "Mapping[Any, OffsetSpec | int | datetime]"
Offsets: TypeAlias = "Mapping[Any, int | OffsetAndMetadata]"
Partitions: TypeAlias = "Any"  # an iterable of partitions
ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOST_SPLITS: Final = 1_000_000
MOST_INT32: Final = 2**31 - 1
DEFAULTS: Final = attrs.fields(ConsumerConfig)
MAX_BYTES: Final[Any] = DEFAULTS.max_partition_fetch_bytes.default
MAX_DECOMPRESSED_BYTES: Final[Any] = DEFAULTS.max_decompressed_bytes.default
CONNECTION_MESSAGES: Final = ("SaslHandshake", "SaslAuthenticate")  # messages that only connections send


class Calls:
    """An `Asker` with the stateless calls of one client, and their machine, which the first call creates."""

    def __init__(self, loop: Loop, engine: Engine, callbacks: Callbacks) -> None:
        self._loop, self._engine = loop, engine
        self._machine: AdminMachine | None = None
        self._futures = Futures(callbacks)

    # -- the machine

    @property
    def machine(self) -> AdminMachine:
        """The machine, which the first `begin` creates. Its methods are only for the loop thread."""
        assert self._machine is not None
        return self._machine

    def promise(self) -> Promise[Any]:
        return self._loop.promise(self._machine)

    def post(self, fn: Callable[[float], object]) -> None:
        self._loop.call(fn, self._machine)

    def begin(self, begin: Begin, timeout: float | None, finish: Callable[[dict[Any, Any]], T]) -> Answers[T]:
        """`timeout` is the application's argument: seconds, or None."""
        seconds = api_timeout(timeout)
        self._loop.check()
        if self._machine is None:
            self._loop.ask(self._start, LOOP_ANSWER_S, "starting the calls of a client")
        if (failure := self._engine.failure(self.machine)) is not None:
            raise failure.again()
        return Answers(self, begin, seconds, finish)

    def _start(self, now: float) -> None:
        if self._machine is None:  # a call on another thread may have created the machine after the check in `begin`
            engine = self._engine
            machine = AdminMachine(engine.config, engine.network, engine.cluster, engine.random)
            engine.add(machine, "client's calls")
            self._machine = machine

    def future(self, answers: Answers[T]) -> Future[T]:
        return self._futures.of(answers)

    # -- the calls; see Client

    def fetch(
        self, offsets: FetchOffsets, timeout: float | None, max_wait_ms: int, min_bytes: int, isolation_level: str
    ) -> Answers[dict[TopicPartition, FetchedPartition]]:
        wanted, seconds = _wanted(offsets), api_timeout(timeout)
        limits = FetchLimits(
            check_count(max_wait_ms, "max_wait_ms", MOST_INT32),
            check_count(min_bytes, "min_bytes", MOST_INT32),
            as_isolation(isolation_level),
            self._engine.config.receive_message_max_bytes,
            MAX_DECOMPRESSED_BYTES,
        )
        if max_wait_ms and max_wait_ms >= seconds * 1000:
            raise ConfigError(f"max_wait_ms={max_wait_ms} must be less than timeout={seconds:g}, which is in seconds")
        return self.begin(stateless.fetched(wanted, limits), timeout, dict)

    def list_offsets(self, times: Times, timeout: float | None, isolation_level: str) -> Answers[dict[TopicPartition, ListedOffset]]:
        return self.begin(listing(times, isolation_level), timeout, dict)

    def find_coordinator(self, group: str, timeout: float | None) -> Answers[GroupCoordinator]:
        return self.begin(stateless.found_coordinator(check_group(group)), timeout, single_outcome)

    def committed_offsets(
        self, group: str, partitions: Partitions | None, timeout: float | None, require_stable: bool
    ) -> Answers[dict[TopicPartition, CommittedOffset]]:
        name = check_group(group)
        if partitions is None:
            from pykafka4.core.admin import calls  # imported here: bounded reads need no messages about groups

            return self.begin(calls.committed([name], stable=require_stable), timeout, _of_all)
        return self.begin(stateless.committed_of(name, as_partitions(partitions), stable=require_stable), timeout, dict)

    def commit_offsets(self, group: str, offsets: Offsets, timeout: float | None) -> Answers[dict[TopicPartition, CommitResult]]:
        return self.begin(stateless.committing(check_group_to_set(group), as_offsets(offsets)), timeout, dict)

    def locate(
        self, selection: Selection, timestamps: Collection[int], timeout: float | None, isolation_level: str
    ) -> Answers[dict[TopicPartition, dict[int, int | None]]]:
        """Look up the offsets of partitions for each timestamp. In `selection`, None as the value of a topic selects all its partitions.

        The answers raise the error of the topics and partitions that failed, or PartialFailure if their errors differ.
        """
        return self.begin(locating.located(selection, timestamps, as_isolation(isolation_level)), timeout, _located)

    def splits(
        self, topics: Topics, n: int, start: BoundSpec, until: BoundSpec, partitions: object, timeout: float | None, isolation_level: str
    ) -> Answers[list[Split]]:
        selection, count = as_selection(topics, partitions), check_count(n, "n, the number of splits,", MOST_SPLITS)
        if not count:
            raise ConfigError("n, the number of splits, must be at least 1")
        from pykafka4.core.admin.sizes import DescribeSizes  # imported here: other calls need no messages about log directories

        bounds = as_bounds(start, until, selection, now_ms())
        begin = locating.located(selection, bounds.timestamps, as_isolation(isolation_level), DescribeSizes)
        return self.begin(begin, timeout, lambda found: divide(spans := _spans(bounds, found), _bytes_per_offset(spans, found), count))

    def request(self, target: Target | int, message: Request[R], timeout: float | None, max_version: int | None) -> Answers[R]:
        to = as_target(target)
        if not isinstance(message, Request):
            raise TypeError(
                f"the message must be a request of pykafka4.messages, such as MetadataRequest(topics=None), not {shown(message)}"
            )
        kind = type(message)
        if kind.__name__.removesuffix("Request") in CONNECTION_MESSAGES:
            raise ConfigError(f"{kind.__name__}: only the client authenticates its connections; set the options of `sasl_mechanism`")
        if max_version is not None and check_count(max_version, "max_version", kind.versions.hi) < kind.versions.lo:
            raise ConfigError(f"max_version={max_version}: the lowest version of {kind.__name__} here is {kind.versions.lo}")
        return self.begin(stateless.sent(message, to.where, to.name, max_version), timeout, single_outcome)


def listing(times: Times, isolation_level: str) -> Begin:
    if not isinstance(times, Mapping):
        raise TypeError(f"list_offsets takes a mapping of partitions to an offset spec or a time, not {shown(times)}")
    timestamps = {(tp := topic_partition(item)): as_timestamp(f"the time of {tp}", time) for item, time in times.items()}
    return stateless.listed(timestamps, as_isolation(isolation_level))


def _spans(bounds: Bounds, found: Mapping[Any, Any]) -> dict[TopicPartition, Span]:
    return {tp: bounds.span(tp, offsets) for tp, offsets in _located(found).items()}


def _located(found: Mapping[Any, Any]) -> dict[TopicPartition, dict[int, int | None]]:
    """The offsets of each partition. Raises the common error, or PartialFailure."""
    errors = {key: one for key, one in found.items() if isinstance(one, KafkaError) and not isinstance(key, int)}
    if errors and len(set(map(str, errors.values()))) == 1:
        raise next(iter(errors.values())).again()
    if errors:
        raise PartialFailure.of(f"offsets of {len(errors)} partitions or topics cannot be looked up", errors)
    return {tp: offsets for tp, offsets in found.items() if isinstance(tp, TopicPartition)}


def _bytes_per_offset(spans: Mapping[TopicPartition, Span], found: Mapping[Any, Any]) -> dict[TopicPartition, float]:
    """The mean bytes per offset of each partition whose span is not empty; an empty dict if one of their sizes is unknown or 0."""
    sizes = locating.sizes_of(found)
    counts = {tp: found[tp][LATEST] - span.earliest for tp, span in spans.items()}
    if not all(sizes.get(tp) for tp, span in spans.items() if not span.is_empty):
        return {}
    return {tp: sizes[tp] / max(1, counts[tp]) for tp, span in spans.items() if not span.is_empty}


def single_outcome(found: Mapping[Any, Any]) -> Any:
    (outcome,) = found.values()
    if isinstance(outcome, KafkaError):
        raise outcome.again()
    return outcome


def _of_all(found: Mapping[str, Any]) -> dict[TopicPartition, CommittedOffset]:
    return {tp: CommittedOffset(tp, committed) for tp, committed in sorted(single_outcome(found).items())}


def _wanted(offsets: object) -> dict[TopicPartition, FetchFrom]:
    if not isinstance(offsets, Mapping):
        raise TypeError(f"fetch takes a mapping of partitions to offsets, or to (offset, max_bytes), not {shown(offsets)}")
    return {(tp := topic_partition(item)): _place(tp, place) for item, place in offsets.items()}


def _place(tp: TopicPartition, place: object) -> FetchFrom:
    if isinstance(place, OffsetSpec):
        raise TypeError(f"fetch takes the offset of {tp} as a number, which list_offsets returns for {place.name}")
    offset, max_bytes = place if isinstance(place, tuple) and len(place) == 2 else (place, MAX_BYTES)
    most = check_count(max_bytes, f"max_bytes of {tp}", MOST_INT32)
    if not most:
        raise ConfigError(f"max_bytes of {tp} must be at least 1; a first batch that is larger is returned whole")
    return FetchFrom(check_count(offset, f"the offset of {tp}"), most)


def as_partitions(partitions: object) -> list[TopicPartition]:
    """The partitions without duplicates. Raises TypeError or ConfigError for a wrong argument."""
    if isinstance(partitions, (str, bytes, TopicPartition)) or not hasattr(partitions, "__iter__"):
        raise TypeError(f"partitions={shown(partitions)}: takes a list of (topic, partition) pairs")
    return list(dict.fromkeys(map(topic_partition, partitions)))


def as_timestamp(what: str, time: object) -> int:
    """The timestamp for ListOffsets; `time` is a spec, milliseconds since 1970, or a datetime. Errors begin with `what`."""
    if isinstance(time, OffsetSpec):
        return time.value
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise ConfigError(f"{what}: {time!r} has no time zone; add one, such as time.replace(tzinfo=timezone.utc)")
        time = (time - EPOCH) // timedelta(milliseconds=1)
    if isinstance(time, bool) or not isinstance(time, int):
        raise TypeError(f"{what}: takes EARLIEST, LATEST or another OffsetSpec, milliseconds since 1970 or a datetime, not {shown(time)}")
    return check_count(time, f"{what}, in milliseconds,")


def as_isolation(level: object) -> int:
    """The number of the isolation level in requests. Raises ConfigError for an unknown level."""
    if not isinstance(level, str) or level not in ISOLATION:
        raise ConfigError(f"isolation_level={shown(level)}: must be {' or '.join(ISOLATION)}")
    return ISOLATION[level]
