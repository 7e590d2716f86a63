"""Calls that only some applications make: longer leases, commits of one topic or with a text, seeking to a time.

Each is judged here by what the coordinator has, and by what the log had before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pykafka4.errors import ConfigError, KafkaError
from pykafka4.records import OffsetAndMetadata, TopicPartition
from tests.simulation.judge.invariants import Broken
from tests.simulation.plans.consumer_plan import GROUP

if TYPE_CHECKING:
    from tests.simulation.users.members import Member

__all__ = ["RareCalls"]

LEAVING_S: Final = 2.0  # seconds that leaving the group takes, at most
EARLY_S: Final = 0.1  # seconds before the end of a lease in which the member may be leaving


class RareCalls:
    """One member's."""

    def __init__(self, member: Member) -> None:
        self._member, self._sim = member, member.sim
        calls: dict[str, tuple[Callable[[], None], ...]] = {
            "lease": (self._work_on_a_longer_lease,),
            "commits of a part": (self._commit_topic, self._commit_by_name),
            "seek to time": (self._seek_to_time,),
        }
        self.calls = [call for name in self._sim.plan.features for call in calls.get(name, ())]
        self._texts = 0

    # ---- leases

    def work_long(self, seconds: float, polled: float, lease: float = 0.0) -> None:
        """Ask for nothing for `seconds`. The lease is `max_poll_interval_ms` from when the last poll returned, or `lease` from now."""
        sim, member = self._sim, self._member
        began, member_id = sim.timeline.now, member.group_id
        ends = max(polled + sim.plan.options["max_poll_interval_ms"] / 1000, began + lease)
        inside = sim.in_group(member_id)
        member.working_long = True
        sim.world.sleep(seconds)
        member.working_long = False
        now = sim.timeline.now
        if member.ending or member.crash.at is not None or not inside:
            return
        if now < ends - EARLY_S:
            quiet = sim.disturbances.calm(None, began, now) >= now - began - 1e-6 and not sim.changed_since(began, member_id)
            sim.used["leases kept"] += quiet and lease > 0
            if quiet and not sim.in_group(member_id):
                raise Broken("a lease is kept and ends", f"{member.name} is out of the group {ends - now:.3f} s before its lease ends")
        elif member.instance is None and sim.disturbances.calm(None, ends, now) > LEAVING_S:
            sim.used["leases ended"] += 1
            if sim.in_group(member_id):
                raise Broken("a lease is kept and ends", f"{member.name} is in the group {now - ends:.3f} s after its lease has ended")

    def _work_on_a_longer_lease(self) -> None:
        sim, member = self._sim, self._member
        if sim.healed:
            return
        began = sim.timeline.now
        seconds = sim.random.uniform(1.0, 8.0)
        try:
            with member.calling("extend_lease", 0.0):
                member.current_consumer().extend_lease(seconds)
        except KafkaError as error:
            lapsed = began - member.polled >= sim.plan.options["max_poll_interval_ms"] / 1000
            if not lapsed:  # by what the application did since it polled
                member.excuse_call("extend_lease", error, began)
            return
        sim.note(f"{member.name} extends its lease by {seconds:.3f} s")
        self.work_long(seconds * sim.random.choice((0.5, 0.95, 1.6, 3.0)), member.polled, seconds)
        sim.upset()

    # ---- commits

    def _positions(self) -> dict[TopicPartition, int]:
        """Where the client is sure to be."""
        owned = self._member.reading.owned.items()
        return {tp: position.at for tp, position in owned if position.at is not None and not position.cuts and position.known}

    def _commit_topic(self) -> None:
        """Of one topic; what is of others stays uncommitted."""
        sim, member = self._sim, self._member
        positions = self._positions()
        if member.iterates or not positions:
            return
        topic, limit = sim.random.choice(sorted({tp.topic for tp in positions})), sim.random.choice((0.5, 3.0))
        member.finish()
        alone = len(sim.members) == 1 and not sim.plan.options["enable_auto_commit"] and not member.unanswered
        before, began = sim.ledger.commits.copy(), sim.timeline.now
        try:
            with member.calling("commit", limit):
                member.current_consumer().commit(timeout=limit, topic=topic)
        except KafkaError as error:
            member.excuse_call("commit", error, began)
            return
        for tp, at in positions.items():
            if tp.topic == topic and sim.ledger.most.get(tp, -1) < at and tp not in sim.ledger.gone:
                raise Broken("a commit of a part is that part", f"{member.name} {tp}: {at} was committed of {topic}, and is not there")
        sim.used["commits of one topic"] += 1
        sim.used["commits of one topic alone"] += alone
        others = sorted(tp for tp, count in sim.ledger.commits.items() if tp.topic != topic and count > before[tp])
        if alone and others:
            raise Broken("a commit of a part is that part", f"{member.name} commits {topic}; the commit had {others}, too")

    def _commit_by_name(self) -> None:
        """Of one partition, with a text."""
        sim, member = self._sim, self._member
        positions = self._positions()
        if member.iterates or not positions:
            return
        tp, limit = sim.random.choice(sorted(positions)), sim.random.choice((0.5, 3.0))
        member.finish()
        self._texts += 1
        text = f"{member.name}, text {self._texts}"
        before, began = sim.ledger.commits[tp], sim.timeline.now
        try:
            with member.calling("commit", limit):
                member.current_consumer().commit({tp: OffsetAndMetadata(positions[tp], metadata=text)}, limit)
        except KafkaError as error:
            member.excuse_call("commit", error, began)
            return
        sim.used["commits with a text"] += 1
        stored = sim.cluster.group(GROUP).offsets.get(tp)
        if sim.ledger.commits[tp] == before + 1 and stored is not None and stored.metadata != text:
            raise Broken("a commit of a part is that part", f"{member.name} {tp}: the text is {stored.metadata!r} instead of {text!r}")

    # ---- positions

    def _seek_to_time(self) -> None:
        """Back to a record that was handed out: the client looks its offset up."""
        sim, member = self._sim, self._member
        owned = member.reading.owned
        if not owned or sim.healed:
            return
        tp = sim.random.choice(sorted(owned))
        reached = owned[tp].at
        records = [] if reached is None else [r for r in sim.ledger.records(tp) if r.offset < reached]
        if not records:
            return
        member.finish()
        time = sim.random.choice(records).timestamp_ms
        first = next(r.offset for r in records if r.timestamp_ms >= time)
        sim.note(f"{member.name} seeks {tp} to the time {time}, offset {first}")
        with contextlib.suppress(ConfigError), member.calling("seek_to_time", 0.0):  # revoked meanwhile
            member.current_consumer().seek_to_time(time, [tp])
            member.reading.sought(tp, first, time)
            sim.ledger.went_back(tp, first)
            sim.ledger.sought_time(tp, time)
