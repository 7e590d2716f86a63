"""Commits offsets for the application. Invariant: a member commits only offsets of partitions that it holds and has not lost; a callback
runs at most once.

Only `committing` and `looking_up` wait, for the promises that `_send` and `_look_up` return.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

from pykafka4.client.attachment import LOOP_ANSWER_S, Attachment
from pykafka4.consumer.arguments import Offsets, OnDone, Partitions, as_offsets, as_partitions, check_on_done, no_group
from pykafka4.consumer.guard import Guard, call
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.selection import Selection
from pykafka4.consumer.waits import Steps, Waits, at_once
from pykafka4.core.consumer.machine import COMMIT_S, ConsumerMachine
from pykafka4.core.group.committing.offsets import Found, names_of
from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.errors import BufferFull, ConfigError, GroupError, KafkaError
from pykafka4.errors.codes import BY_NAME
from pykafka4.logs import get_log
from pykafka4.net.handoff.waiting import Promise
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["ILLEGAL_GENERATION", "Commits"]

log = get_log("pykafka4.group")

ILLEGAL_GENERATION: Final = BY_NAME["ILLEGAL_GENERATION"].code
MOST_OWED: Final = 10_000  # waiting callbacks of `commit_async`: a blocked callback executor must not let them fill memory


class Commits:
    def __init__(
        self,
        attachment: Attachment[ConsumerMachine],
        config: ConsumerConfig,
        reader: Reader,
        guard: Guard,
        selection: Selection,
        waits: Waits,
    ) -> None:
        self._attachment, self._config, self._reader, self._selection = attachment, config, reader, selection
        self.guard, self._waits = guard, waits
        self._owed: deque[None] = deque()  # one for each commit_async callback that has not begun

    @call
    def commit(self, offsets: Offsets | None, timeout: float, topic: str | None = None) -> None:
        at_once(self.committing(offsets, timeout, topic))

    def committing(self, offsets: Offsets | None, timeout: float, topic: str | None = None) -> Steps[None]:
        wanted = self._offsets_to_commit(offsets, topic)
        self._check(wanted)
        if not wanted:
            return
        promise = self._send(wanted, timeout)
        error = yield from self._waits.result(promise, timeout + LOOP_ANSWER_S)
        if error is not None:
            try:
                raise error
            finally:
                del error, promise  # a cycle of error, traceback and this frame would keep a forgotten consumer open

    @call
    def commit_async(self, offsets: Offsets | None, on_done: OnDone | None, topic: str | None = None) -> None:
        check_on_done(on_done)
        if on_done is not None and len(self._owed) >= MOST_OWED:
            raise BufferFull(f"{MOST_OWED:,} commit_async callbacks are waiting: commit less often, and do not block in callbacks")
        wanted = self._offsets_to_commit(offsets, topic)
        self._check(wanted)
        promise = self._send(wanted, COMMIT_S)
        if on_done is None:
            promise.add_done_callback(self._log_failure)
        else:
            self._owed.append(None)
            promise.add_done_callback(lambda p: self._waits.call_back(lambda: self._call_back(on_done, wanted, p)))

    def _log_failure(self, promise: Promise[KafkaError | None]) -> None:
        if (error := _outcome(promise)) is not None:
            log.warning("%s: commit_async without a callback failed: %s", self._config.log_name, error)

    def _call_back(self, on_done: OnDone, committed: dict[TopicPartition, OffsetAndMetadata], promise: Promise[KafkaError | None]) -> None:
        self._owed.pop()
        on_done(committed, _outcome(promise))

    def _offsets_to_commit(self, offsets: Offsets | None, topic: str | None) -> dict[TopicPartition, OffsetAndMetadata]:
        self._attachment.check()
        if self._config.group_id is None:
            raise no_group("commit")
        if topic is not None:
            self._check_topic(offsets, topic)
        if offsets is None:
            with self.guard.using("commit"):
                if self._selection.run is not None:
                    offsets = self._selection.run.committable()
                    return {tp: at for tp, at in offsets.items() if tp in self._reader.claims and topic in (None, tp.topic)}
                reached = {tp: offset for tp, offset in self._reader.reached().items() if topic is None or tp.topic == topic}
                self._reader.finished.update(reached)  # otherwise the next auto-commit would go back to the earlier finished offsets
                return _with_metadata(reached)
        given = as_offsets(offsets)
        if self._selection.run is None:  # a run commits its own finished records, whatever the application commits
            self._reader.finished.update({tp: (at.offset, at.leader_epoch) for tp, at in given.items() if tp in self._reader.claims})
        return given

    def _check_topic(self, offsets: Offsets | None, topic: str) -> None:
        if offsets is not None:
            raise ConfigError(f"commit takes offsets or topic={topic!r}, not both: offsets name their topics")
        claims, selection = self._reader.claims, self._selection
        if topic not in selection.topics and not any(tp.topic == topic for tp in claims) and not self._may_match(topic):
            raise ConfigError(
                f"commit(topic={topic!r}): this consumer does not read the topic; subscription() and assignment() list its topics"
            )

    def _may_match(self, topic: str) -> bool:
        chosen = self._selection.filter
        return chosen is not None and chosen.matches(topic)

    def _check(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Raise GroupError for partitions that a subscribed consumer does not have, and after the loss of all partitions of the group."""
        claims, selection = self._reader.claims, self._selection
        if not selection.subscribed:
            return
        strange = [tp for tp in offsets if tp not in claims]
        if len(claims) == len(selection.by_hand) and (strange or selection.lost):
            why = f"{selection.lost}; poll rejoins the group" if selection.lost else "poll joins the group"
            trouble = self._attachment.machine.trouble
            why += "" if trouble is None else f", and tries again after an error: {trouble}"
            raise GroupError(ILLEGAL_GENERATION, "commit", f"this consumer has no partitions assigned by the group: {why}")
        if strange:  # the coordinator would accept the commit, and the next owner of the partition would begin at that offset
            raise GroupError(
                ILLEGAL_GENERATION, "commit", f"{names_of(strange)}: not assigned to this consumer; assignment() lists its partitions"
            )

    def _send(self, offsets: dict[TopicPartition, OffsetAndMetadata], timeout: float) -> Promise[KafkaError | None]:
        promise: Promise[KafkaError | None] = self._attachment.promise()
        wanted = dict(offsets)
        self._attachment.post(lambda now: self._attachment.machine.commit(wanted, now + timeout, promise.set_result))
        return promise

    def commit_finished(self, timeout: float, only: Collection[TopicPartition] | None = None) -> Promise[KafkaError | None]:
        """Send the last auto-commit before a release. If the commit fails, the loop logs the error, and the records may be redelivered.

        The promise is done at once if there is nothing to commit. `only=None` means all partitions.
        """
        finished = self._reader.settle()
        chosen = finished if only is None else {tp: finished[tp] for tp in only if tp in finished}
        if not chosen or not self._config.enable_auto_commit or self._config.group_id is None:
            done: Promise[KafkaError | None] = Promise()
            done.set_result(None)
            return done
        promise: Promise[KafkaError | None] = self._attachment.promise()
        self._attachment.post(lambda now: self._attachment.machine.commit_last(_with_metadata(chosen), now + timeout, promise.set_result))
        return promise

    def committed(self, partitions: Partitions, timeout: float) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return at_once(self.looking_up(partitions, timeout))

    def looking_up(self, partitions: Partitions, timeout: float) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        self._attachment.check()
        if self._config.group_id is None:
            raise no_group("committed")
        tps = as_partitions(partitions)
        if not tps:
            return {}
        promise = self._look_up(tps, timeout)
        found = yield from self._waits.result(promise, timeout + LOOP_ANSWER_S)
        if isinstance(found, KafkaError):
            try:
                raise found
            finally:
                del found, promise  # a cycle with this frame would keep a forgotten consumer open
        return {tp: found[tp] for tp in tps}

    def _look_up(self, tps: Collection[TopicPartition], timeout: float) -> Promise[Found | KafkaError]:
        promise: Promise[Found | KafkaError] = self._attachment.promise()
        offsets = self._attachment.machine.offsets
        self._attachment.post(lambda now: offsets.lookup(tps, now + timeout, lambda _, found: promise.set_result(found)))
        return promise


def _outcome(promise: Promise[KafkaError | None]) -> KafkaError | None:
    error = promise.exception(0)
    if error is not None:
        return error if isinstance(error, KafkaError) else KafkaError(str(error))
    return promise.result(0)


def _with_metadata(reached: Mapping[TopicPartition, OffsetAndEpoch]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(offset, epoch) for tp, (offset, epoch) in reached.items()}
