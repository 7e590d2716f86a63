"""Reads offset ranges without a group.

A read has ended when the position of each partition is at or past its `until`. For deleted and truncated records, a read raises an error
that names the offsets, or with on_lost="warn" logs a warning and continues.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from operator import length_hint
from typing import Any, Final, Literal, TypeAlias, TypeVar

import attrs

from pykafka4.bounded.extent import Extent
from pykafka4.bounded.progress import Progress
from pykafka4.bounds import Span
from pykafka4.consumer.guard import Iteration
from pykafka4.consumer.reading.forms import Form
from pykafka4.consumer.session import ConsumerSession
from pykafka4.consumer.waits import Steps
from pykafka4.errors import GO_ON, SEEK, ClosedError, ConfigError, InvalidOffset, KafkaTimeoutError, LogTruncated, OffsetOutOfRange, shown
from pykafka4.logs import get_log
from pykafka4.misuse import api_timeout
from pykafka4.options.config import GROUP_OPTIONS, ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["BoundedRead", "LostRange", "read_options"]

log = get_log("pykafka4.consumer")

T = TypeVar("T")
LOOKS: Final = 10  # checks of the positions within `timeout`: the error comes at most a tenth of that time late
WITHOUT_GROUP: Final = "a bounded read has no group, and commits nothing"
REFUSED: Final = {
    **dict.fromkeys(GROUP_OPTIONS, WITHOUT_GROUP),
    "auto_offset_reset": "start= says where a bounded read begins, and on_lost= what happens if the log has changed",
    "exclude_internal_topics": "a bounded read has no subscription by pattern",
    **dict.fromkeys(("begin", "since"), "start= says where it begins"),
    **dict.fromkeys(("end", "stop", "to"), "until= says where it ends"),
}
BYTES: Final = dict.fromkeys(
    ("key_deserializer", "value_deserializer", "on_poison"),
    "keys and values of columns are bytes; `read` has deserializers, and cast(polars.String) turns a column into text",
)
CONSUMER_OPTIONS: Final = attrs.fields_dict(ConsumerConfig).keys()
ARGUMENTS: Final = ("topics", "start", "until", "partitions", "split", "progress", "on_lost", "timeout", "client")
Call: TypeAlias = Literal["read", "read_arrow"]
CALLS: Final[Mapping[Call, tuple[Mapping[str, str], Sequence[str]]]] = {  # refused options with the reasons, and arguments
    "read": (REFUSED, ARGUMENTS),
    "read_arrow": ({**REFUSED, **BYTES}, (*ARGUMENTS, "columns", "max_rows")),
}


def read_options(options: Mapping[str, Any], call: Call) -> dict[str, Any]:
    """The options for the consumer of a bounded read. read_committed is the default: aborted records do not belong in a snapshot.

    Raises ConfigError for an option that the call refuses, and for a misspelt argument.
    """
    refused, arguments = CALLS[call]
    for name in options:
        if name in refused:
            raise ConfigError(f"{call} has no option {name}: {refused[name]}")
        if name not in CONSUMER_OPTIONS and (near := difflib.get_close_matches(name, arguments, n=1, cutoff=0.75)):
            raise ConfigError(f"{call} has no option {name}; did you mean {near[0]!r}?")
    return {"isolation_level": "read_committed", **options, "auto_offset_reset": "none"}


@attrs.frozen
class LostRange:
    """A partition's offsets from `first` to `last`, whose records are lost, and the reason."""

    topic: str
    partition: int
    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: offsets {self.first} to {self.last} are lost: {self.reason}"


class BoundedRead:
    """The ranges of a read, and their records in any form (`consumer.reading.forms`).

    `session` serves this read only; `end` does not close the session.
    """

    def __init__(self, session: ConsumerSession, extent: Extent, on_lost: str, progress: Progress, patience: float | None):
        """`patience`: seconds without progress until `poll` raises KafkaTimeoutError; None: no limit."""
        if on_lost not in ("raise", "warn"):
            raise ConfigError(f'on_lost={shown(on_lost)}: must be "raise" or "warn"')
        self.session, self.patience = session, patience
        self.step = None if patience is None else patience / LOOKS  # seconds for which one poll waits
        self.spans: dict[TopicPartition, Span] = {}
        self.lost: list[LostRange] = []
        self.records = 0  # returned so far
        self._extent, self._on_lost, self._progress = extent, on_lost, progress
        self._open: list[TopicPartition] = []  # partitions that may not have reached their ends
        self._last_positions: object = None  # the positions after the previous poll, if it had no records
        self._still = 0  # polls in a row that did not move a position
        self._over = False  # `end` was called

    def opening(self) -> Steps[None]:
        """Fix the ranges, and begin to fetch. Raises the errors of `Lookups.located`, `Bounds.span` and `begin`.

        The lookup may take `patience` seconds, or 60 s if `patience` is None, because a call without a deadline could hang.
        """
        extent, bounds = self._extent, self._extent.bounds
        if bounds is None:  # a split
            self.begin(extent.ranges)
            return
        found = yield from self.session.lookups.located(extent.topics, bounds.timestamps, api_timeout(self.patience))
        self.begin({tp: bounds.span(tp, found[tp]) for tp in sorted(found)})

    def begin(self, spans: Mapping[TopicPartition, Span]) -> None:
        """Begin to fetch the ranges. Raises OffsetOutOfRange for records that are already deleted, with on_lost="raise"."""
        self.spans = dict(spans)
        starts = {tp: self._first_left(tp, span) for tp, span in spans.items() if not span.is_empty}
        self._progress.begin(", ".join(self._extent.names), sum(span.until - span.start for span in spans.values() if not span.is_empty))
        self._open = [tp for tp, start in starts.items() if start < spans[tp].until][::-1]
        if self._open:
            self.session.ends = self
            self.session.assignment.assign(self._open)
            self.session.read_spans({tp: (starts[tp], spans[tp].until) for tp in self._open})

    def _first_left(self, tp: TopicPartition, span: Span) -> int:
        """The first offset to read. Records deleted before the read began are lost."""
        if span.start >= span.earliest:
            return span.start
        known_end = max(span.earliest, span.until)
        self._lose(tp, span.start, min(span.earliest, span.until), OffsetOutOfRange.deleted(*tp, span.start, span.earliest, known_end))
        return span.earliest

    # ---------------------------------------------------------------- the end

    def due(self) -> bool:
        """See `consumer.session.BoundedEnds`."""
        return self.done

    @property
    def done(self) -> bool:
        reader, left = self.session.reader, self._open  # partitions at their ends are dropped, so most calls check one partition
        while left and (claim := reader.claims.get(left[-1])) is not None and reader.has_reached_end(claim):
            left.pop()
        return not left

    def poll(self, form: Form[T], most: int | None = None, iteration: Iteration | None = None) -> T:
        """The next records, in `form`; `form.nothing()` when the read is `done`.

        Raises the errors of `Consumer.poll`; for lost records, with on_lost="raise", OffsetOutOfRange, LogTruncated or InvalidOffset (the
        topic was recreated); KafkaTimeoutError after `patience` seconds without progress; ClosedError. The next call tries again.
        """
        while not self.done:
            try:
                out = self.session.poll(self.step, most, form, iteration)
            except InvalidOffset as error:
                self.settle(error)
                continue
            except ClosedError as error:
                raise self.named(error) from None
            if self.is_answer(out):
                return out
        return form.nothing()

    def named(self, error: ClosedError) -> ClosedError:
        """The error for a poll after `end`, in terms of the read: the application does not know that the read has a consumer."""
        return ClosedError("this read was closed before its end; begin another one") if self._over else error

    def is_answer(self, out: Any) -> bool:
        """Whether `out` has records, or the read is at its end. If not, may raise the KafkaTimeoutError of `poll`."""
        count = length_hint(out)
        if not count and not self.done:
            self._check_patience()
            return False
        self.records += count
        self._last_positions, self._still = None, 0
        if self._progress.due():
            self._progress.show(self.records, self.offsets_done)
        return True

    def _check_patience(self) -> None:
        """Positions that move without records, for example past aborted transactions, are also progress."""
        positions = self.session.reader.positions()
        self._still = self._still + 1 if positions == self._last_positions else 0
        self._last_positions = positions
        if self.patience is not None and self._still >= LOOKS:
            self._still = 0
            tp = self._open[-1]
            waits = self.session.status().get("partitions", {}).get(str(tp), {}).get("waits_for")
            raise KafkaTimeoutError(
                f"{tp} is read up to offset {positions.get(tp, self.spans[tp].start)} of {self.spans[tp].until}, and no further for "
                f"{self.patience:g} s{f' (it waits for: {waits})' if waits else ''}; timeout= is the longest time without progress"
            )

    # ---------------------------------------------------------------- progress

    @property
    def offsets_done(self) -> int:
        """The number of offsets that the read has passed, in all ranges."""
        at = self.session.reader.positions()
        ranges = [(span, at.get(tp, span.until)) for tp, span in self.spans.items() if not span.is_empty]
        return sum(min(max(offset, span.start), span.until) - span.start for span, offset in ranges)

    def end(self) -> None:
        """May be called early, and twice."""
        self._over = True
        if self.session.ends is self:
            self.session.ends = None
        self._progress.end(self.records, self.offsets_done)

    # ---------------------------------------------------------------- lost records

    def settle(self, error: InvalidOffset) -> None:
        """Raise an error that names the lost range, if records are lost; with on_lost="warn", add the range to `lost` and continue.

        The read continues after the range, or at its start if other records have replaced the lost ones.
        """
        tp = TopicPartition(error.topic, error.partition)
        first, end, goes_on_at, shown_error = SETTLE.get(type(error), _recreated)(error, self.spans[tp].until)
        if first < end:  # the range is empty if the topic of a finished partition was recreated
            self._lose(tp, first, end, shown_error)
        if goes_on_at < self.spans[tp].until and tp not in self._open:
            self._open.append(tp)
        self.session.read_spans({tp: (goes_on_at, self.spans[tp].until)})

    def _lose(self, tp: TopicPartition, first: int, end: int, error: InvalidOffset) -> None:
        if self._on_lost == "raise":
            raise error
        lost = LostRange(*tp, first, end - 1, str(error))
        self.lost.append(lost)
        log.warning("%s: %s", self.session.config.client_id, lost)


Lost = tuple[int, int, int, InvalidOffset]  # the first lost offset, the offset after the last one, the next offset to read, the error


def _out_of_range(error: Any, until: int) -> Lost:
    if error.offset < error.earliest:
        end = min(error.earliest, until)
        deleted = OffsetOutOfRange.deleted(error.topic, error.partition, error.offset, error.earliest, error.latest)
        return error.offset, end, end, deleted
    return error.latest, until, until, LogTruncated.before(error.topic, error.partition, until, error.latest)


def _truncated(error: Any, until: int) -> Lost:
    if error.truncated_to < error.offset:  # other records have replaced records that were read: read the new records
        return error.truncated_to, error.offset, error.truncated_to, _without_seek(error)
    return error.truncated_to, until, until, error


def _recreated(error: Any, until: int) -> Lost:
    """The rest of the range is lost: the new records do not belong to it."""
    return error.offset, until, until, _without_seek(error)


def _without_seek(error: InvalidOffset) -> InvalidOffset:
    """A copy of `error` with the way out of a bounded read, which cannot seek."""
    copy = error.again()
    copy.args = (str(error).replace(f", and {SEEK}", f"; {GO_ON}"),)
    return copy


SETTLE: Mapping[type, Callable[[Any, int], Lost]] = {OffsetOutOfRange: _out_of_range, LogTruncated: _truncated}
