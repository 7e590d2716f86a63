"""Reports lost offsets. Invariant: reading continues after lost offsets only with a report.

Each loss is a warning in the log, an `OffsetsLost` event of the client, and a count in `stats()`. With auto_offset_reset=none, `poll`
raises an error instead of skipping a gap.
"""

from __future__ import annotations

import attrs

from pykafka4.core.metadata.events import EventSink, LossReason, OffsetsLost
from pykafka4.core.subscription import Position
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig

__all__ = ["Gap", "Losses"]

log = get_log("pykafka4.consumer")


@attrs.frozen
class Gap:
    """A range of lost offsets, whose end may be unknown until reading continues."""

    first: int
    reason: LossReason
    until: int | None = None  # None: the offset at which reading continues


class Losses:
    __slots__ = ("_config", "_events", "count")

    def __init__(self, config: ConsumerConfig, events: EventSink) -> None:
        self._config, self._events = config, events
        self.count = 0  # lost offsets of all partitions

    def continued(self, position: Position, gap: Gap, offset: int) -> None:
        """Reading continues at `offset`: report `gap` as lost, or log the step back if `offset` is before the gap.

        Without unread offsets, a recreated topic is only an event: the log already has a line about the new topic.
        """
        until = offset if gap.until is None else gap.until
        lost = OffsetsLost(position.tp, gap.first, until, gap.reason)
        if until > gap.first:
            self._report(position, lost)
        elif gap.reason is LossReason.RECREATED:
            self._events.emit(lost)
        elif until < gap.first:
            log.warning(
                "%s: %s: offset %d is beyond the end of the log; reading from offset %d",
                self._config.log_name,
                position.tp,
                gap.first,
                until,
                tp=position.tp,
                offset=until,
            )

    def ended(self, position: Position, gap: Gap) -> None:
        if gap.until is not None and gap.until > gap.first:
            self._report(position, OffsetsLost(position.tp, gap.first, gap.until, gap.reason))

    def truncated(self, position: Position, offset: int) -> None:
        """Count the loss, and emit its event. The reader logs the warning, because it knows which records it has returned."""
        self.count += max(0, position.offset - offset)
        self._events.emit(OffsetsLost(position.tp, offset, max(offset, position.offset), LossReason.TRUNCATED))

    def _report(self, position: Position, lost: OffsetsLost) -> None:
        self.count += lost.until - lost.first
        log.warning(
            "%s: %s: offsets %d to %d (%d) are lost: %s",
            self._config.log_name,
            position.tp,
            lost.first,
            lost.until - 1,
            lost.until - lost.first,
            lost.reason.value,
            tp=position.tp,
            offset=lost.first,
        )
        self._events.emit(lost)
