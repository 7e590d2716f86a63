"""Finds the offsets at which positions begin. Invariant: a position begins where the application said, otherwise at its committed offset,
otherwise by the reset policy; offsets of a deleted topic are never used.

Lookups are repeated until there is an offset or the position is no longer read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from pykafka4.core import INFINITY
from pykafka4.core.consumer.losses import Gap, Losses
from pykafka4.core.consumer.positions import Positions
from pykafka4.core.consumer.searches import Search, Searches
from pykafka4.core.group.committing.offsets import Found, Offsets
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.events import LossReason
from pykafka4.core.metadata.topic import MISSING_S
from pykafka4.core.subscription import Lately, Policy, Position, Since, Stage, Start, of_new_partition, reset_policy
from pykafka4.core.timers import Timers
from pykafka4.errors import InvalidOffset, KafkaError, NoOffsetForPartition, OffsetOutOfRange
from pykafka4.errors.codes import ErrorCode
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig

__all__ = ["RETRY_LOOKUP_S", "StartOffsets"]

log = get_log("pykafka4.fetcher")

RETRY_LOOKUP_S: Final = 1.0  # seconds to the next lookup of committed offsets, after a lookup that ended with an error


class PositionSearch(Search):
    """A lookup for a position. A class costs less than closures, and an application may seek thousands of partitions at once."""

    __slots__ = ("_owner", "_position")

    def __init__(self, position: Position, target: Start | Since, owner: StartOffsets) -> None:
        super().__init__(position.tp, target)
        self._position, self._owner = position, owner

    def wanted(self) -> bool:
        return self._position.stage is Stage.RESETTING and self._owner.positions.is_current(self._position)

    def refused(self, now: float, error: KafkaError) -> None:
        self._owner.positions.tell_once(self._position, error)


class StartSearch(PositionSearch):
    __slots__ = ()

    def wanted(self) -> bool:
        """Whether the position still waits for this lookup, not for a later one."""
        return self._position.search is self and super().wanted()

    def found(self, now: float, offset: int, epoch: int) -> None:
        what = self.target.value
        log.info("%s: %s: reading from offset %d (%s)", self._owner.log_name, self.tp, offset, what, tp=self.tp, offset=offset)
        self._owner.continue_at(self._position, offset)


class RewindSearch(StartSearch):
    """Looks up the beginning of the log after a rewind, to read from there, but not before the first record that must be read again."""

    __slots__ = ("_first",)

    def __init__(self, position: Position, first: int, owner: StartOffsets) -> None:
        super().__init__(position, Start.EARLIEST, owner)
        self._first = first

    def found(self, now: float, offset: int, epoch: int) -> None:
        super().found(now, max(offset, self._first), epoch)


class TimeSearch(StartSearch):
    """Looks up the first record at or after a time; without such a record, the end of the log.

    Then the time is looked up again: otherwise a record that was written between the two requests would be skipped.
    """

    __slots__ = ("_end", "_since")

    def __init__(self, position: Position, target: Since, owner: StartOffsets) -> None:
        super().__init__(position, target, owner)
        self._since, self._end = target, -1

    def found(self, now: float, offset: int, epoch: int) -> None:
        if self.target is Start.LATEST:
            self._end, self.target = offset, self._since
            self._owner.searches.begin(self)
        else:
            super().found(now, offset, epoch)

    def absent(self) -> bool:
        """All records are older: look up the end of the log, or read from there if the end is known. The end itself is never absent."""
        if self.target is Start.LATEST:
            return False
        if self._end < 0:
            self.target = Start.LATEST
        else:
            self._owner.continue_at(self._position, self._end)
        return True


class RangeSearch(PositionSearch):
    """Looks up the earliest offset, then the latest, to explain an offset that is out of range."""

    __slots__ = ("_earliest",)

    def found(self, now: float, offset: int, epoch: int) -> None:
        if self.target is Start.EARLIEST:
            self._earliest, self.target = offset, Start.LATEST
            self._owner.searches.begin(self)
        else:
            error = OffsetOutOfRange.among(*self.tp, self._position.offset, self._earliest, offset)
            self._owner.positions.stop(self._position, error)


class StartOffsets:
    __slots__ = (
        "_cluster",
        "_config",
        "_losses",
        "_offsets",
        "_timers",
        "_unasked",
        "_wall_ms",
        "log_name",
        "policy",
        "positions",
        "searches",
    )

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        offsets: Offsets,
        searches: Searches,
        positions: Positions,
        losses: Losses,
        timers: Timers,
        wall_ms: Callable[[], int],
    ) -> None:
        """`wall_ms` returns the time of day, in ms since 1970."""
        self._wall_ms, self._losses = wall_ms, losses
        self._config, self._cluster, self._offsets = config, cluster, offsets
        self.searches, self.positions, self._timers = searches, positions, timers
        self.log_name = config.log_name
        self.policy = reset_policy(config.auto_offset_reset)
        self._unasked: list[Position] = []  # positions whose committed offsets have not been requested yet

    def begin(self, position: Position) -> None:
        if position.stage is Stage.UNKNOWN:
            self._offsets.stored.pop(position.tp, None)  # another member may have committed meanwhile
            self._unasked.append(position)
        elif position.stage is Stage.FETCHING:
            self.positions.located.append(position)
        elif position.stage is Stage.RESETTING:
            self._search(position)

    def poll(self, now: float) -> None:
        if self._unasked:
            self._ask_committed()
        self.searches.poll(now)

    def reset(self, position: Position, target: Policy, first: int | None = None) -> None:
        """Continue at the offset of `target`, but not before `first`."""
        position.reset(target)
        self.positions.touch(position.tp)
        self._search(position, first)

    def continue_at(self, position: Position, offset: int) -> None:
        """Read from `offset`, the result of a lookup; report the gap that ends there."""
        gap, position.gap, position.search = position.gap, None, None
        self.positions.locate(position, offset, -1)
        if gap is not None:
            self._losses.continued(position, gap, offset)

    def out_of_range(self, position: Position) -> None:
        """The leader's log does not have the offset: continue by the reset policy or, after a rewind, at the earliest offset.

        With auto_offset_reset=none, stop with an error.
        """
        if self.policy is Start.NONE:
            self._explain_range(position)
            return
        first, position.otherwise = position.otherwise, None
        if position.claim.delivered:
            first = None  # records have been fetched since the rewind
        target = self.policy if first is None else Start.EARLIEST
        log.warning(
            "%s: %s: offset %d is out of range; the position is reset to %s",
            self.log_name,
            position.tp,
            position.offset,
            target.value,
            tp=position.tp,
            offset=position.offset,
        )
        position.gap = Gap(position.offset, LossReason.REMOVED if target is Start.EARLIEST else LossReason.RESET)
        self.reset(position, target, first)

    # ---------------------------------------------------------------- committed offsets

    def _ask_committed(self) -> None:
        asking, self._unasked = [p for p in self._unasked if self.positions.is_current(p) and p.stage is Stage.UNKNOWN], []
        if not asking:
            return
        if self._config.group_id is None:
            for position in asking:
                self._without_committed(position)
            return
        asked = {position: position.claim.recreated for position in asking}
        for position in asked:
            position.move(Stage.ASKING)
        self._offsets.lookup(
            [position.tp for position in asked],
            INFINITY,
            lambda now, found: self._committed(now, asked, found),
            lambda: any(self._awaits_committed(position) for position in asked),
            lambda now, found: self._some_committed(now, asked, found),
        )

    def _some_committed(self, now: float, asked: dict[Position, int], found: Found) -> None:
        """Apply some offsets. For the other positions, which stay in `asked`, the coordinator returned an error."""
        known = {position: asked.pop(position) for position in tuple(asked) if position.tp in found}
        self._committed(now, known, found)

    def _awaits_committed(self, position: Position) -> bool:
        return self.positions.is_current(position) and position.stage is Stage.ASKING

    def _committed(self, now: float, asked: Mapping[Position, int], found: Found | KafkaError) -> None:
        """Apply the result to the positions in `asked`, each with `Claim.recreated` at the time of the lookup."""
        for position in [p for p in asked if self._awaits_committed(p)]:
            if isinstance(found, KafkaError):
                position.move(Stage.UNKNOWN)
                self.positions.tell_once(position, found)
                self._timers.at(now + RETRY_LOOKUP_S, lambda _, position=position: self._unasked.append(position))  # type: ignore[misc]
                continue
            if position.claim.recreated != asked[position]:  # the response may have an offset of the deleted topic
                position.move(Stage.UNKNOWN)
                self._unasked.append(position)
                continue
            place = found[position.tp]
            if place is None:
                self._without_committed(position)
            else:
                self._offsets.stored[position.tp] = place.offset
                self.positions.locate(position, place.offset, place.leader_epoch)

    def _without_committed(self, position: Position) -> None:
        self._offsets.stored.pop(position.tp, None)
        if position.fallback is Start.NONE:
            group = f"in group {self._config.group_id}" if self._config.group_id is not None else "(group_id is not set)"
            self.positions.stop(position, NoOffsetForPartition.at(*position.tp, f"no committed offset {group}"))
        else:
            self.reset(position, position.fallback)

    # ---------------------------------------------------------------- earliest and latest offsets

    def _search(self, position: Position, first: int | None = None) -> None:
        target = position.target
        if isinstance(target, Lately):
            target = Since(max(0, self._wall_ms() - target.duration_ms))
        if first is not None:
            position.search = RewindSearch(position, first, self)
        elif isinstance(target, Since):
            position.search = TimeSearch(position, target, self)
        else:
            position.search = StartSearch(position, target, self)
        self.searches.begin(position.search)

    def _explain_range(self, position: Position) -> None:
        position.move(Stage.RESETTING)
        self.positions.touch(position.tp)

        self.searches.begin(RangeSearch(position, Start.EARLIEST, self))

    # ---------------------------------------------------------------- topics that are created or recreated

    def topic_changed(self, positions: Iterable[Position]) -> None:
        """Apply new metadata of topics. In a recreated topic, old offsets belong to other records."""
        for position in positions:
            error = self._cluster.topic_error(position.tp.topic)
            if (refusal := self._cluster.refusal(position.tp.topic, position.after_request)) is not None:
                self.positions.tell_once(position, refusal)
            if position.by_policy and position.stage is not Stage.FETCHING:
                self._check_if_new(position, error)
            if not self.notice(position):
                continue
            if position.stage is Stage.FETCHING:
                self.restart(position)
            else:
                self._search_again(position)

    def notice(self, position: Position) -> bool:
        """Whether the topic has been recreated since the last call. If so, offsets of the old topic are no longer committed."""
        known, before = self._cluster.topic_id(position.tp.topic), position.topic_id
        if known is None or known == before:
            return False
        position.topic_id = known
        if before is None:
            return False
        tp, offset = position.tp, position.offset
        log.warning("%s: %s: the topic was recreated; its earlier offsets are no longer valid", self.log_name, tp, tp=tp, offset=offset)
        position.claim.recreated += 1
        first = position.offset if position.gap is None else position.gap.first
        if first >= 0:
            position.gap = Gap(first, LossReason.RECREATED, max(first, position.last_end))
        position.claim.end = position.end_before = -1
        self._offsets.forget(position.tp)
        return True

    def end(self, position: Position, deleted: Collection[str] = ()) -> None:
        """Handle a topic that was recreated or deleted, maybe since the last poll; `deleted` are topics known to be gone."""
        if self.notice(position):
            return
        missing = self._cluster.was_missing(position.tp.topic, MISSING_S)
        if position.offset >= 0 and (missing or position.tp.topic in deleted):
            self._losses.ended(position, Gap(position.offset, LossReason.DELETED, position.last_end))
        if missing:
            position.claim.missing = True
            position.claim.recreated += 1  # if the topic exists again when the application commits, it is probably a new one

    def _check_if_new(self, position: Position, error: ErrorCode | None) -> None:
        """If the partition did not exist when its reading began, read it from the beginning, unless auto_offset_reset is `none`."""
        size = self._cluster.partitions(position.tp.topic)
        missing = (size == 0 and error is not None and error.name == "UNKNOWN_TOPIC_OR_PARTITION") or 0 < size <= position.tp.partition
        if missing and position.fallback is not (new := of_new_partition(position.fallback)):
            position.fallback = position.target = new
            if position.search is not None:
                self._search(position)

    def restart(self, position: Position) -> None:
        """Read the new topic from its beginning; with auto_offset_reset=none, stop with an error."""
        if self.policy is Start.NONE:
            self.positions.stop(position, InvalidOffset.at(*position.tp, "the topic was recreated", position.offset))
        else:
            # The topic is newer than the subscription, so all of it is read, whatever the policy.
            self.reset(position, Start.EARLIEST)

    def _search_again(self, position: Position) -> None:
        """Repeat a lookup after the topic was recreated: a response in flight may be about the old topic."""
        if position.by_policy:
            position.fallback = position.target = of_new_partition(position.fallback)
        if position.search is not None:
            self._search(position)
