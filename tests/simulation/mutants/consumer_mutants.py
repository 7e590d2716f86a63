"""As `producer_mutants`, for consumers: small bugs of a member."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import attrs
import pytest

from pykafka4.assignors import sticky
from pykafka4.consumer.assignment import Assignment
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.reading.fetch_buffer import FetchBuffer
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.session import ConsumerSession
from pykafka4.consumer.waits import Steps
from pykafka4.core import INFINITY, Effects
from pykafka4.core.consumer import source
from pykafka4.core.consumer.fetch_answers import FetchAnswers
from pykafka4.core.consumer.fetcher import Fetcher
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.consumer.positions import Positions
from pykafka4.core.consumer.start_offsets import StartOffsets
from pykafka4.core.engine import Engine
from pykafka4.core.group.committing import offsets
from pykafka4.core.group.leading.assigning import AssignorRun
from pykafka4.core.group.membership.consumer_protocol import Ownership
from pykafka4.core.group.membership.consumer_requests import Owned
from pykafka4.core.group.membership.membership import Membership
from pykafka4.core.metadata.coordinators import Coordinator
from pykafka4.core.network.call import Call, Next, Verdict
from pykafka4.core.subscription import Assigned, Claim, Ended, Start
from pykafka4.errors import KafkaError
from pykafka4.net.handoff.waiting import Signal
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.records.hot import Record
from tests.simulation.mutants.consumer_feature_mutants import MUTANTS as FEATURES
from tests.simulation.mutants.lists import change_lists
from tests.simulation.plans.consumer_plan import COOPERATIVE, EAGER
from tests.simulation.plans.schedules import Hunt, Patch, around


def commit_what_is_prefetched(patch: pytest.MonkeyPatch) -> None:
    def put(original: Any, self: Reader, item: Any) -> None:
        original(self, item)
        if hasattr(item, "next_offset"):
            self.finished[item.serial.tp] = (item.next_offset, -1)

    around(patch, Reader, "put", put)


def commit_what_is_in_hand(patch: pytest.MonkeyPatch) -> None:
    def leave(original: Any, self: Reader) -> None:
        original(self)
        self.finished.update({claim.tp: position for claim, position in self.taken.positions.items() if claim.live})

    around(patch, Reader, "leave", leave)


def commit_from_the_start_now_and_then(patch: pytest.MonkeyPatch) -> None:
    count = [0]

    def commit(original: Any, self: ConsumerMachine, offsets: Any, *rest: Any, **options: Any) -> None:
        count[0] += 1
        original(self, dict.fromkeys(offsets, OffsetAndMetadata(0)) if count[0] % 3 == 0 else offsets, *rest, **options)

    around(patch, ConsumerMachine, "commit", commit)


def lose_a_chunk(patch: pytest.MonkeyPatch) -> None:
    count = [0]

    def put(original: Any, self: Reader, item: Any) -> None:
        count[0] += hasattr(item, "next_offset")
        if not hasattr(item, "next_offset") or count[0] % 7:
            original(self, item)

    around(patch, Reader, "put", put)


def keep_what_is_revoked(patch: pytest.MonkeyPatch) -> None:
    around(patch, Reader, "purge", lambda original, self, claims: None)


def never_commit(patch: pytest.MonkeyPatch) -> None:
    around(patch, ConsumerMachine, "commit", lambda original, self, offsets, deadline, done, **options: done(None))


def give_everybody_everything(patch: pytest.MonkeyPatch) -> None:
    def everything(original: Any, self: AssignorRun, *args: Any) -> Any:
        assignment = original(self, *args)
        whole = [tp for mine in assignment.values() for tp in mine]
        return dict.fromkeys(assignment, whole)

    around(patch, AssignorRun, "_checked", everything)


def never_rest(patch: pytest.MonkeyPatch) -> None:
    def poll(original: Any, self: ConsumerMachine, now: float) -> Effects:
        return attrs.evolve(original(self, now), wake_at=now)

    around(patch, ConsumerMachine, "poll", poll)


def stay_out(patch: pytest.MonkeyPatch) -> None:
    """Members never join again once they are out."""

    def poll(original: Any, self: Membership, now: float) -> float:
        return INFINITY if self.protocol.generation > 0 and self.state.name == "UNJOINED" else original(self, now)

    around(patch, Membership, "poll", poll)


def ask_again_at_once(patch: pytest.MonkeyPatch) -> None:
    """A member without a coordinator looks it up without a pause."""

    def found(original: Any, self: Coordinator, now: float, node: int, told_by: int) -> Verdict:
        return (Next.RETRY, KafkaError("not known yet")) if now < 1003.0 else original(self, now, node, told_by)

    around(patch, Coordinator, "_found", found)
    around(patch, Call, "back_off", lambda original, self, now, reason: None)


def twice(patch: pytest.MonkeyPatch, kind: type[Assigned | Ended]) -> None:
    def call(original: Any, self: Assignment, method: str, event: Assigned | Ended, claims: Collection[Claim]) -> Steps[None]:
        yield from original(self, method, event, claims)
        if isinstance(event, kind):
            event.reported = False
            yield from original(self, method, event, claims)

    around(patch, Assignment, "_call_listener", call)


def tell_of_a_beginning_twice(patch: pytest.MonkeyPatch) -> None:
    twice(patch, Assigned)


def tell_of_an_end_twice(patch: pytest.MonkeyPatch) -> None:
    twice(patch, Ended)


def alter_a_value(patch: pytest.MonkeyPatch) -> None:
    def altered(r: Record) -> Record:
        return Record(r.topic, r.partition, r.offset, r.timestamp_ms, r.timestamp_type, r.key, r.value[:-1])

    change_lists(patch, lambda records: [altered(record) for record in records])


def believe_a_coordinator_that_is_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offsets, "STABLE_FROM", 1_000)


def pause_nothing(patch: pytest.MonkeyPatch) -> None:
    around(patch, Reader, "pause", lambda original, self, tp: None)


def say_that_a_commit_is_stored(patch: pytest.MonkeyPatch) -> None:
    """Every other commit is said to be stored, and is not sent."""
    count = [0]

    def commit(original: Any, self: ConsumerMachine, offsets: Any, deadline: float, done: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] % 2:
            done(None)
        else:
            original(self, offsets, deadline, done, **options)

    around(patch, ConsumerMachine, "commit", commit)


def wait_without_a_deadline(patch: pytest.MonkeyPatch) -> None:
    """A poll waits until there is something."""
    around(patch, Signal, "wait", lambda original, self, predicate, timeout=None: original(self, predicate, 30.0 if timeout else timeout))


def read_as_a_follower(patch: pytest.MonkeyPatch) -> None:
    """Brokers give followers what is not replicated yet."""
    patch.setattr(source, "CONSUMER", 1)


def forget_epochs(patch: pytest.MonkeyPatch) -> None:
    """No Fetch says of which epoch the last record was: no broker can tell that its log was cut before."""
    patch.setattr(source, "_fit", lambda message, version: _without_epochs(message))


def _without_epochs(message: Any) -> None:
    for partition in (partition for topic in message.topics for partition in topic.partitions):
        partition.last_fetched_epoch = -1


def choose_an_offset_unasked(patch: pytest.MonkeyPatch) -> None:
    around(patch, StartOffsets, "_without_committed", lambda original, self, position: self.reset(position, Start.EARLIEST))


def begin_at_the_first_record_instead_of_the_last(patch: pytest.MonkeyPatch) -> None:
    around(patch, StartOffsets, "reset", lambda original, self, position, target: original(self, position, Start.EARLIEST))


def stop_all_when_one_is_offline(patch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched while any partition has no leader."""
    around(patch, Fetcher, "_fetch_due", lambda original, self, now: None if self._recovery.offline else original(self, now))


def leave_a_partition_out(patch: pytest.MonkeyPatch) -> None:
    """The leader of the group deals out all partitions but one."""

    def all_but_one(original: Any, self: AssignorRun, *args: Any) -> Any:
        assignment = original(self, *args)
        last = max((tp for mine in assignment.values() for tp in mine), default=None)
        return {member: [tp for tp in mine if tp != last] for member, mine in assignment.items()}

    around(patch, AssignorRun, "_checked", all_but_one)


def give_before_the_release(patch: pytest.MonkeyPatch) -> None:
    """The leader of a cooperative group gives a partition to its next owner while the last one holds it."""

    def assign(original: Any, self: Any, members: Any, topics: Any) -> Any:
        return sticky._assign(members, topics, sticky._sent_as_owned)[0]

    around(patch, sticky.CooperativeStickyAssignor, "assign", assign)


def tell_nobody_of_a_revocation(patch: pytest.MonkeyPatch) -> None:
    """An application reads on what its member has given back, as far as it knows."""
    around(patch, Assignment, "_report_end", lambda original, self, ended: ())


def raise_what_passes(patch: pytest.MonkeyPatch) -> None:
    """Errors that a new leader cures are raised by `poll`."""

    def report(original: Any, self: FetchAnswers, now: float, node: int, position: Any, reason: KafkaError) -> None:
        original(self, now, node, position, reason)
        self._positions.tell_once(position, reason)

    around(patch, FetchAnswers, "_report", report)


def tell_nobody_of_a_crash(patch: pytest.MonkeyPatch) -> None:
    around(patch, ConsumerMachine, "crash", lambda original, self, reason: ())


def crash_with_the_others(patch: pytest.MonkeyPatch) -> None:
    """An exception in one machine ends the loop."""

    def fail(original: Any, self: Engine, slot: Any, error: Exception) -> None:
        raise error

    around(patch, Engine, "stop", fail)


def call_back_twice(patch: pytest.MonkeyPatch) -> None:
    def commit_async(original: Any, self: Commits, offsets: Any, on_done: Any, *topic: Any) -> None:
        original(self, offsets, lambda *told: [on_done(*told) for _ in range(2)], *topic)

    around(patch, Commits, "commit_async", commit_async)


def forget_the_first_callback(patch: pytest.MonkeyPatch) -> None:
    seen: list[Commits] = []

    def commit_async(original: Any, self: Commits, offsets: Any, on_done: Any, *topic: Any) -> None:
        first = self not in seen
        seen.append(self)
        original(self, offsets, (lambda *told: None) if first else on_done, *topic)

    around(patch, Commits, "commit_async", commit_async)


def sleep_on_when_woken(patch: pytest.MonkeyPatch) -> None:
    around(patch, ConsumerSession, "wakeup", lambda original, self: None)


def keep_what_was_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A consumer whose handle was collected stays in its group."""
    patch.setattr(ConsumerSession, "forgotten", staticmethod(lambda session: None))


# ---- what the calls of an application say


def out_of_range(patch: pytest.MonkeyPatch, act: Callable[[StartOffsets, Any], None]) -> None:
    """Something else is done when an offset is out of range."""
    around(patch, StartOffsets, "out_of_range", lambda original, self, position: act(self, position))


def raise_where_the_application_did_not_ask(patch: pytest.MonkeyPatch) -> None:
    """An offset that retention deleted is raised although auto_offset_reset says where to go on."""
    out_of_range(patch, lambda self, position: self._explain_range(position))


def go_on_unasked_after_retention(patch: pytest.MonkeyPatch) -> None:
    out_of_range(patch, lambda self, position: self.reset(position, Start.EARLIEST))


def go_on_at_the_end_after_a_cut(patch: pytest.MonkeyPatch) -> None:
    """With auto_offset_reset=earliest an offset out of range is left for the end of the log."""
    out_of_range(patch, lambda self, position: self.reset(position, Start.LATEST))


def overlook_what_is_committed(patch: pytest.MonkeyPatch) -> None:
    """A consumer without a reset policy reads from an offset that it chose."""

    def committed(original: Any, self: StartOffsets, now: float, asked: Any, found: Any) -> None:
        original(self, now, asked, found if isinstance(found, KafkaError) else dict.fromkeys(found))

    around(patch, StartOffsets, "_committed", committed)


def lose_a_chunk_of_what_was_cut(patch: pytest.MonkeyPatch) -> None:
    """What waits for the application when the log is cut is dropped, but for the last."""

    def truncate(original: Any, self: Positions, position: Any, *where: Any, **options: Any) -> None:
        buffer: FetchBuffer = self._intake._buffer  # type: ignore[attr-defined]
        items = buffer._items.get(position.claim, ())
        for chunk in [item for item in items if hasattr(item, "next_offset")][:-1]:
            items.remove(chunk)  # type: ignore[union-attr]
        original(self, position, *where, **options)

    around(patch, Positions, "truncate", truncate)


def fail_a_commit_now_and_then(patch: pytest.MonkeyPatch) -> None:
    count = [0]

    def commit(original: Any, self: ConsumerMachine, offsets: Any, deadline: float, done: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] % 2:
            original(self, offsets, deadline, done, **options)
        else:
            done(KafkaError("not today"))

    around(patch, ConsumerMachine, "commit", commit)


def tell_the_position_before(patch: pytest.MonkeyPatch) -> None:
    around(patch, ConsumerSession, "position", lambda original, self, tp, timeout: original(self, tp, timeout) - 1)


def tell_more_than_is_committed(patch: pytest.MonkeyPatch) -> None:
    def committed(original: Any, self: Commits, *args: Any) -> Any:
        return {tp: at and attrs.evolve(at, offset=at.offset + 1) for tp, at in original(self, *args).items()}

    around(patch, Commits, "committed", committed)


def raise_what_nobody_knows(patch: pytest.MonkeyPatch) -> None:
    def pause(original: Any, self: ConsumerSession, partitions: Any) -> None:
        raise KeyError(partitions)

    around(patch, ConsumerSession, "pause", pause)


def seek_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    """A consumer that crashed accepts a `seek`."""

    def seek(original: Any, self: ConsumerSession, *args: Any) -> None:
        if self.failure() is None:
            original(self, *args)

    around(patch, ConsumerSession, "seek", seek)


def give_back_before_the_release(patch: pytest.MonkeyPatch) -> None:
    """A member of the consumer protocol reports partitions that the application still reads as given back."""

    def report(original: Any, self: Ownership) -> frozenset[Owned]:
        return frozenset((topic_id, tp.partition) for tp, topic_id in self.ids.items() if tp not in self.revoking)

    around(patch, Ownership, "report", report)


UNFINISHED = "nothing unfinished is committed"
SKIP = "positions never skip"
NEEDLESS = "no needless failure"
TWO = "one owner per generation"
CALM = {"trouble": 45.0, "crash": "", "sick": False}

MUTANTS: dict[Patch, Hunt] = {
    **FEATURES,
    commit_what_is_prefetched: Hunt({UNFINISHED}, says=" is committed, record "),
    commit_what_is_in_hand: Hunt({UNFINISHED}, says=" is committed, record "),
    commit_from_the_start_now_and_then: Hunt({"commits never go back", "a commit that returned is stored"}, says=" after "),
    lose_a_chunk: Hunt({SKIP, "partitions go on"}, says=" is next (after "),
    keep_what_is_revoked: Hunt(
        {"records of owned partitions only", "progress", "no internal errors"},
        {"auto_offset_reset": "earliest"},
        says=" and owns ",
        plan={"iterate": 0.0},
    ),
    never_commit: Hunt({"progress", "a commit that returned is stored"}, says="(committed, finished, end): "),
    give_everybody_everything: Hunt({"one owner per generation"}, says="generation ", plan={"protocol": "classic"}),
    give_before_the_release: Hunt(
        {TWO},
        faults=("member closes", "member joins"),
        every=0.6,
        says=" goes to ",
        plan={"strategies": (COOPERATIVE,), "members": 3, "protocol": "classic"},
    ),
    tell_nobody_of_a_revocation: Hunt(
        {TWO, "listeners are told the truth"},
        faults=("member closes", "member joins"),
        every=0.6,
        says=" reads them",
        plan={"strategies": (COOPERATIVE,), "members": 3, "protocol": "classic"},
    ),
    give_back_before_the_release: Hunt(
        {"one owner at a time"},
        faults=("member joins", "member closes"),
        every=0.5,
        says=", and is read by ",
        plan={"protocol": "consumer", "release": "4.4", "restarts": 1.0},
    ),
    never_rest: Hunt({"no hot loop"}, says=" turns in a row "),
    ask_again_at_once: Hunt({"no hot loop"}, says=" requests of "),
    stay_out: Hunt({"progress", "every partition has an owner"}, says=": nobody since ", first=9),
    tell_of_a_beginning_twice: Hunt({"listeners are told the truth"}, says=" is assigned twice"),
    tell_of_an_end_twice: Hunt({"listeners are told the truth"}, says=" is revoked and was not assigned"),
    believe_a_coordinator_that_is_behind: Hunt(
        {"commits never go back", "positions never skip", "no needless failure", "nothing unfinished is committed"},
        faults=("coordinator moves", "member closes", "member joins"),
        every=0.15,
        says=" is committed, record ",
        plan={"release": "4.4", "trouble": 20.0, "strategies": (EAGER,)},
        first=10,
    ),
    alter_a_value: Hunt({"records are what was written"}, says=", written "),
    pause_nothing: Hunt({"paused partitions are quiet"}, says=", which is paused", plan={"calls": 0.2}),
    say_that_a_commit_is_stored: Hunt({"a commit that returned is stored"}, says=" is stored", plan={"calls": 0.2}),
    wait_without_a_deadline: Hunt({"waits end in time"}, says=" took "),
    read_as_a_follower: Hunt(
        {"never past the high watermark"},
        says="; the high watermark never was ",
        plan={"release": "2.8", "protocol": "classic", "replication": 0.3},
    ),
    forget_epochs: Hunt(
        {"what was cut off is told or read again"},
        {"auto_offset_reset": "earliest"},
        ("unclean election",),
        every=2.0,
        says=" is next, ",
        plan={"release": "4.4", "sick": False},
    ),
    choose_an_offset_unasked: Hunt({"no offset is chosen unasked"}, {"auto_offset_reset": "none"}, says=", nothing was committed"),
    begin_at_the_first_record_instead_of_the_last: Hunt(
        {SKIP}, {"auto_offset_reset": "latest"}, ("move leader",), says=", the latest was "
    ),
    stop_all_when_one_is_offline: Hunt(
        {"partitions go on"},
        faults=("partition is gone",),
        every=2.0,
        says="; next is ",
        plan={"sick": True, "trouble": 20.0, "topics": {"t": 4}},
    ),
    leave_a_partition_out: Hunt(
        {"every partition has an owner"}, faults=("move leader",), every=20.0, says=": nobody since ", plan={**CALM, "protocol": "classic"}
    ),
    raise_what_passes: Hunt({NEEDLESS}, faults=("fetch error",), says=": poll raised "),
    tell_nobody_of_a_crash: Hunt(
        {"a crash is told"}, {"enable_auto_commit": True}, says=" still waits", plan={"crash": "machine", "iterate": 1.0}
    ),
    crash_with_the_others: Hunt({"the others of a client go on"}, says=" ends with ", plan={"crash": "machine", "companion": True}),
    call_back_twice: Hunt({"callbacks of commits run once"}, {"enable_auto_commit": False}, says=": (commit, times called): "),
    forget_the_first_callback: Hunt({"callbacks of commits run once"}, {"enable_auto_commit": False}, says=": (commit, times called): "),
    sleep_on_when_woken: Hunt({"waits end in time"}, says=" took ", plan={"iterate": 0.0}),
    keep_what_was_forgotten: Hunt({"waits end in time"}, faults=("member closes",), says=" took ", plan={"iterate": 0.0}),
    raise_where_the_application_did_not_ask: Hunt(
        {NEEDLESS}, {"auto_offset_reset": "earliest"}, ("retention",), every=0.2, says=" is asked where to read: "
    ),
    go_on_unasked_after_retention: Hunt(
        {"no offset is chosen unasked"}, {"auto_offset_reset": "none"}, ("retention",), every=0.2, says=", which was deleted"
    ),
    go_on_at_the_end_after_a_cut: Hunt(
        {SKIP, "progress", UNFINISHED},
        {"auto_offset_reset": "earliest"},
        ("unclean election",),
        every=0.3,
        says=", cut at ",
        plan={"release": "2.1", "protocol": "classic", "static": False, "topics": {"t": 1}},
    ),
    overlook_what_is_committed: Hunt({NEEDLESS}, {"auto_offset_reset": "none"}, says=" is asked where to read on, without need: "),
    lose_a_chunk_of_what_was_cut: Hunt(
        {SKIP, "progress"},
        {"auto_offset_reset": "earliest", "max_poll_records": 1, "max_partition_fetch_bytes": 300, "prefetch_bytes": 1_000_000},
        ("unclean election",),
        every=0.5,
        says=" of a log that was cut, ",
        plan={"release": "4.4", "topics": {"t": 1}, "records": 150, "sick": False},
    ),
    fail_a_commit_now_and_then: Hunt(
        {NEEDLESS}, faults=("move leader",), every=20.0, says=" failed, begun at ", plan={"calls": 0.5}, first=11
    ),
    tell_the_position_before: Hunt({SKIP}, says=": position ", plan={"calls": 0.2}),
    tell_more_than_is_committed: Hunt({UNFINISHED}, says=", which nobody committed", plan={"calls": 0.2}),
    raise_what_nobody_knows: Hunt({"no internal errors"}, says="unexpected ", plan={"calls": 0.2}),
    seek_after_a_crash: Hunt({"a crash is told"}, says=" raised nothing after a crash: ", plan={"crash": "machine"}),
}
