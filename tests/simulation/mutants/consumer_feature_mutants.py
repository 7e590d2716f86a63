"""As `consumer_mutants`, for what applications may do beside polling and committing all: see `consumer_features`."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from pykafka4.aio.session import TaskConsumerSession
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.session import ConsumerSession
from pykafka4.core import INFINITY
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.consumer.start_offsets import StartOffsets
from pykafka4.core.group.leading.leadership import Leadership
from pykafka4.core.group.membership.membership import Membership
from pykafka4.core.group.topics.subscribed import SubscribedTopics
from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.core.subscription import Since
from tests.simulation.plans.consumer_features import TOPIC_FAULTS
from tests.simulation.plans.schedules import Hunt, Patch, around

__all__ = ["MUTANTS"]


def take_what_is_excluded(patch: pytest.MonkeyPatch) -> None:
    around(patch, TopicFilter, "matches", lambda original, self, topic: any(pattern.fullmatch(topic) for pattern in self.patterns))


def keep_what_is_deleted(patch: pytest.MonkeyPatch) -> None:
    """A topic that is gone stays in the subscription."""
    around(patch, SubscribedTopics, "_is_gone", lambda original, self, topic: False)
    around(patch, Leadership, "outgrown", lambda original, self: False)


def begin_at_the_end_of_what_is_new(patch: pytest.MonkeyPatch) -> None:
    around(patch, SubscribedTopics, "fallback", lambda original, self, tp: self._policy)
    around(patch, StartOffsets, "_check_if_new", lambda original, self, position, error: None)


def grant_no_lease(patch: pytest.MonkeyPatch) -> None:
    """`extend_lease` returns, and nothing is longer."""
    around(patch, Membership, "extend_lease", lambda original, self, now, seconds: None)


def never_end_a_lease(patch: pytest.MonkeyPatch) -> None:
    around(patch, Membership, "keep_lease", lambda original, self, now: INFINITY)


def commit_all_instead_of_a_topic(patch: pytest.MonkeyPatch) -> None:
    around(patch, Commits, "_offsets_to_commit", lambda original, self, offsets, topic: original(self, offsets, None))


def commit_nothing_of_a_topic(patch: pytest.MonkeyPatch) -> None:
    around(
        patch,
        Commits,
        "_offsets_to_commit",
        lambda original, self, offsets, topic: {} if topic is not None else original(self, offsets, topic),
    )


def drop_the_text_of_a_commit(patch: pytest.MonkeyPatch) -> None:
    def commit(original: Any, self: ConsumerMachine, offsets: Any, *rest: Any, **options: Any) -> None:
        original(self, {tp: attrs.evolve(at, metadata="") for tp, at in offsets.items()}, *rest, **options)

    around(patch, ConsumerMachine, "commit", commit)


def seek_a_later_time(patch: pytest.MonkeyPatch) -> None:
    def seek_to(original: Any, self: ConsumerSession, partitions: Any, start: Any, what: str) -> None:
        original(self, partitions, Since(start.timestamp_ms + 1) if isinstance(start, Since) else start, what)

    around(patch, ConsumerSession, "seek_to", seek_to)


def lose_what_a_cancelled_poll_has(patch: pytest.MonkeyPatch) -> None:
    """A poll of a task waits with records in its hands."""

    async def await_records(original: Any, self: TaskConsumerSession, *args: Any) -> Any:
        records = await original(self, *args)
        await asyncio.sleep(0.01)
        return records

    around(patch, TaskConsumerSession, "_await_records", await_records)

    def recover(original: Any, self: Reader) -> None:
        self.handed, self.changing = self.taken, False

    around(patch, Reader, "recover", recover)


PATTERN = {"features": ("pattern",), "companion": False, "static": False, "aim": "", "sick": False, "crash": ""}
LEASE = {"features": ("lease",), "calls": 0.2, "static": False, "aim": "", "sick": False, "crash": "", "members": 1, "trouble": 20.0}
PART = {"features": ("commits of a part",), "calls": 0.2, "iterate": 0.0, "topics": {"t": 2, "u": 2}, "members": 1, "crash": ""}
OF_A_PART = "a commit of a part is that part"
LEASES = "a lease is kept and ends"

MUTANTS: dict[Patch, Hunt] = {
    take_what_is_excluded: Hunt(
        {"subscriptions select topics"}, faults=TOPIC_FAULTS, says=", which its subscription excludes", plan=PATTERN
    ),
    keep_what_is_deleted: Hunt(
        {"subscriptions select topics", "every partition has an owner"},
        faults=TOPIC_FAULTS,
        every=15.0,
        says=": deleted, and still assigned since ",
        plan={**PATTERN, "trouble": 60.0, "protocol": "classic", "members": 1, "restarts": 0.0},
        first=9,
    ),
    begin_at_the_end_of_what_is_new: Hunt(
        {"new partitions are read from their beginning"},
        {"auto_offset_reset": "latest"},
        ("more partitions",),
        every=1.0,
        says=", which is not its first",
        plan={"sick": False},
    ),
    grant_no_lease: Hunt(
        {LEASES}, {"max_poll_interval_ms": 4_000}, ("more partitions",), every=20.0, says=" before its lease ends", plan=LEASE
    ),
    never_end_a_lease: Hunt(
        {LEASES}, {"max_poll_interval_ms": 4_000}, ("more partitions",), every=20.0, says=" after its lease has ended", plan=LEASE
    ),
    commit_all_instead_of_a_topic: Hunt({OF_A_PART}, {"enable_auto_commit": False}, says="; the commit had ", plan=PART),
    commit_nothing_of_a_topic: Hunt({OF_A_PART}, {"enable_auto_commit": False}, says=", and is not there", plan=PART),
    drop_the_text_of_a_commit: Hunt({OF_A_PART}, {"enable_auto_commit": False}, says=": the text is ", plan=PART),
    lose_what_a_cancelled_poll_has: Hunt(
        {"positions never skip", "progress", "nothing unfinished is committed"},
        {"auto_offset_reset": "earliest"},
        says=" is next (after ",
        plan={"features": ("asyncio",), "companion": False, "crash": ""},
    ),
    seek_a_later_time: Hunt(
        {"positions never skip", "progress"}, says=" after seeking the time ", plan={"features": ("seek to time",), "calls": 0.2}
    ),
}
