"""Reads records for a command, as lists in any `Form`. Invariant: as a member of a group, the command requests a list only when the
records of the previous list are written, acknowledged or filtered out.

So a member commits only these records: the next poll, or a `close` without an error, finishes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pykafka4.bounded import extent as bounded
from pykafka4.bounded.progress import Silence
from pykafka4.bounded.reading import BoundedRead
from pykafka4.bounds import Selection
from pykafka4.cli.records.clients import consumer_session
from pykafka4.cli.records.extents import RESETS, ExtentOptions
from pykafka4.cli.records.places import LOG_END, LOG_START, Place, spans, timestamps
from pykafka4.client.steps import at_once
from pykafka4.consumer.guard import Iteration
from pykafka4.consumer.reading.forms import Form
from pykafka4.consumer.session import ConsumerSession
from pykafka4.consumer.until_end import UntilEnd
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record

if TYPE_CHECKING:
    from pykafka4.cli.invocation import Invocation

__all__ = ["Reading", "opened"]

T = TypeVar("T")
TICK_S: Final = 0.5  # outside a `BoundedRead`, a poll without records ends after this time, so that the progress is redrawn
CLOSE_S: Final = 10.0  # seconds for the last commit, and for leaving the group
LOOKUP_S: Final = 60.0
DEFAULTS: Final = {"isolation_level": "read_committed"}


class Reading:
    """The base of readings, which return the records of a session list by list."""

    total: int | None = None  # the number of offsets to read, if it is known

    def lists(self, form: Form[T], most: int | None) -> Iterator[T]:
        """Yield lists of up to `most` records or batches; a list can be empty."""
        while not self.has_ended():
            yield self.poll(form, most)

    def has_ended(self) -> bool:
        return False

    def poll(self, form: Form[T], most: int | None) -> T:
        raise NotImplementedError

    def give_back(self, rest: Sequence[Record[Any, Any]]) -> None:
        """Hand back the last records of the last list, which were not written: a group reads them again."""

    @property
    def losses(self) -> Collection[object]:
        """The ranges that could not be read; each has a text for a message."""
        return ()


@contextlib.contextmanager
def opened(invocation: Invocation, extent: ExtentOptions, **decided: Any) -> Iterator[tuple[ConsumerSession, Reading]]:
    """Enclose a session and its reading. A member of a group finishes the last list if the block ends without an error."""
    extent.check()
    options: dict[str, Any] = {**decided}
    if extent.group is not None:
        options |= {"group_id": extent.group}
    elif not extent.follow:
        options |= {"auto_offset_reset": "none"}  # a `BoundedRead` does the seeks, and reports lost records
    options.setdefault("auto_offset_reset", RESETS.get(extent.start or LOG_START, "earliest"))  # also for offsets out of range
    session, failed = consumer_session(invocation, DEFAULTS, **options), True
    try:
        yield session, _reading(session, extent, invocation.timeout or LOOKUP_S)
        failed = False
    finally:
        session.close(CLOSE_S, failed=failed)


def _reading(session: ConsumerSession, extent: ExtentOptions, timeout: float) -> Reading:
    if extent.group is not None and not extent.follow:
        return MemberToEndReading(session, extent.topics)
    if extent.group is not None or (extent.follow and not extent.partitions and extent.start in (None, *RESETS)):
        return MemberReading(session, extent.topics)
    chosen: Selection = dict.fromkeys(extent.topics, tuple(dict.fromkeys(extent.partitions)) or None)
    if extent.follow:
        return TailReading(session, chosen, extent.start or LOG_START, timeout)
    return SpanReading(session, chosen, extent.start or LOG_START, extent.until or LOG_END, timeout)


class SpanReading(Reading):
    """A reading from one place to another, without a group."""

    def __init__(self, session: ConsumerSession, chosen: Selection, start: Place, until: Place, timeout: float) -> None:
        self._reading = BoundedRead(session, bounded.Extent(chosen), "warn", Silence(), timeout)
        found = at_once(session.lookups.located(chosen, timestamps(start, until), timeout))
        self._reading.begin(spans(found, start, until))
        self.total = sum(span.until - span.start for span in self._reading.spans.values() if not span.is_empty)

    def has_ended(self) -> bool:
        return self._reading.done

    def poll(self, form: Form[T], most: int | None) -> T:
        return self._reading.poll(form, most)

    @property
    def losses(self) -> Collection[object]:
        return self._reading.lost


class TailReading(Reading):
    """A reading from one place on, in the current partitions, without an end and without a group."""

    def __init__(self, session: ConsumerSession, chosen: Selection, start: Place, timeout: float) -> None:
        self._session = session
        found = at_once(session.lookups.located(chosen, timestamps(start), timeout))
        starts: Mapping[TopicPartition, int] = {tp: start.offset_in(at) for tp, at in found.items()}
        session.assignment.assign(list(starts))
        session.seek(starts)

    def poll(self, form: Form[T], most: int | None) -> T:
        return self._session.poll(TICK_S, most, form)


class MemberReading(TailReading):
    """A reading of all partitions of topics, new partitions included, or of the partitions of a group's member."""

    def __init__(self, session: ConsumerSession, topics: Collection[str]) -> None:
        self._session = session
        session.assignment.subscribe(list(topics), None, None)

    def give_back(self, rest: Sequence[Record[Any, Any]]) -> None:
        firsts = {TopicPartition(record.topic, record.partition): record.offset for record in reversed(rest)}
        if firsts:
            self._session.seek(firsts)


class MemberToEndReading(MemberReading):
    """A member's reading up to the ends that the logs have when the member gets its partitions."""

    def __init__(self, session: ConsumerSession, topics: Collection[str]) -> None:
        super().__init__(session, topics)
        self._ends = UntilEnd(session, Iteration())
        self._ends.iteration.follow(self)

    def has_ended(self) -> bool:
        if not self._ends.begun or self._ends.lacks_some():
            self._session.find_ends(self._ends)
        return self._ends.is_over()

    def poll(self, form: Form[T], most: int | None) -> T:
        return self._session.poll(TICK_S, most, form, self._ends.iteration)
