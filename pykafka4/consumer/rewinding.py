"""Rewinds a group at the request of one member. Invariant: the group gets the request only after a lookup has found all given offsets
in their logs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pykafka4.client.answers import Answers, Deadline
from pykafka4.client.attachment import LOOP_ANSWER_S, Attachment
from pykafka4.consumer.arguments import as_timestamp
from pykafka4.consumer.lookups import Lookups
from pykafka4.consumer.selection import Selection
from pykafka4.consumer.waits import Steps, Waits, at_once
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.group.notes import Rewind
from pykafka4.errors import ConfigError, KafkaError, shown
from pykafka4.misuse import check_count, topic_partition
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

if TYPE_CHECKING:  # imported when used: most consumers rewind no group
    from pykafka4.core.admin.values import OffsetSpec

__all__ = ["GroupRewinding", "RewindOffsets"]

RewindOffsets = Mapping[Any, "int | datetime | OffsetSpec"]
Times = Mapping[TopicPartition, "datetime | OffsetSpec"]


class GroupRewinding:
    def __init__(
        self, attachment: Attachment[ConsumerMachine], config: ConsumerConfig, selection: Selection, lookups: Lookups, waits: Waits
    ) -> None:
        self._attachment, self._config, self._selection = attachment, config, selection
        self._lookups, self._waits = lookups, waits

    def future(self, offsets: RewindOffsets, timeout: float) -> Future[dict[TopicPartition, int]]:
        return self._attachment.runtime.calls.future(at_once(self._asking(offsets, timeout)))

    def awaiting(self, offsets: RewindOffsets, timeout: float) -> Steps[dict[TopicPartition, int]]:
        answers = yield from self._asking(offsets, timeout)
        try:
            yield from self._waits.result(answers.promise, answers.seconds + LOOP_ANSWER_S)
            return answers.result()
        finally:
            answers.end()

    def _asking(self, offsets: RewindOffsets, timeout: float) -> Steps[Answers[dict[TopicPartition, int]]]:
        self._attachment.check()
        numbers, times = _split_offsets(offsets)
        self._check_group()
        deadline = Deadline(timeout)
        return self._ask((yield from self._resolved(numbers, times, deadline)), deadline.left)

    def _check_group(self) -> None:
        if self._config.group_id is None:
            raise ConfigError("rewind_group needs a group_id")
        if self._config.group_protocol == "consumer":
            raise ConfigError(
                "rewind_group works in groups of the classic protocol: with group_protocol='consumer' the coordinator assigns partitions, "
                "and cannot rewind; stop the members and move the offsets (pykafka4 groups rewind)"
            )
        if not self._selection.subscribed:
            raise ConfigError("rewind_group: this consumer is not a member of the group; call subscribe first")

    def _resolved(self, numbers: Mapping[TopicPartition, int], times: Times, deadline: Deadline) -> Steps[dict[TopicPartition, int]]:
        from pykafka4.core.admin.values import LATEST

        if numbers:
            starts = yield from self._lookups.beginnings(list(numbers), deadline.left)
            ends = yield from self._lookups.high_watermarks(list(numbers), deadline.left)
            for tp, offset in numbers.items():
                if not starts[tp] <= offset <= ends[tp]:
                    raise ConfigError(f"rewind_group: {tp} has no offset {offset}: its log is from {starts[tp]} to {ends[tp]}")
        found = yield from self._lookups.specs("rewind_group", times, deadline.left)
        past_end = [tp for tp, offset in found.items() if offset is None]
        found |= yield from self._lookups.specs("rewind_group", dict.fromkeys(past_end, LATEST), deadline.left)
        return {**numbers, **{tp: offset for tp, offset in found.items() if offset is not None}}

    def _ask(self, offsets: dict[TopicPartition, int], timeout: float) -> Answers[dict[TopicPartition, int]]:
        rewind, asker = Rewind(uuid.uuid4().hex, offsets), self._attachment

        def begin(_: object, now: float, seconds: float, done: Callable[[dict[Any, Any]], None]) -> Callable[[], None]:
            return asker.machine.rewind(rewind, now + seconds, lambda error: done({"": error}))

        def finish(outcome: dict[str, KafkaError | None]) -> dict[TopicPartition, int]:
            if (error := outcome[""]) is not None:
                raise error.again()
            return dict(offsets)

        of_session: Any = asker  # `Answers` is typed for the session of an admin client, which has another machine
        return Answers(of_session, begin, timeout, finish)


def _split_offsets(offsets: object) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Any]]:
    """The partitions with given offsets, and the partitions whose offsets have to be looked up."""
    from pykafka4.core.admin.values import EARLIEST, LATEST

    if not isinstance(offsets, Mapping):
        raise TypeError(f"rewind_group takes a mapping of partitions to offsets, EARLIEST, LATEST or datetimes, not {shown(offsets)}")
    if not offsets:
        raise ConfigError("rewind_group: no partitions")
    wanted = {topic_partition(item): target for item, target in offsets.items()}
    looked_up = {tp: target for tp, target in wanted.items() if target in (EARLIEST, LATEST)}
    times = {tp: as_timestamp(target) for tp, target in wanted.items() if isinstance(target, datetime)}
    rest: Collection[TopicPartition] = wanted.keys() - looked_up.keys() - times.keys()
    return {tp: check_count(wanted[tp], f"the offset of {tp}") for tp in sorted(rest)}, {**looked_up, **times}
