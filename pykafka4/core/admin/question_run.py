"""Sends the requests of one question, retries them, and settles its keys.

Invariant: unless the question is dropped, each added key is settled once: by a response, by an outcome that needs no request, by an error
after which the request is not repeated, or at the deadline.

Up to `most` keys with the same broker share a request; requests to different brokers can be in flight at the same time. A request has the
full `request_timeout_ms`, even if the deadline is earlier, because a request that times out closes a connection that other requests use.

A response makes the next poll check only the keys of its request. Brokers that accept one group in a request send as many
responses as there are keys. If each response led to a check of all keys, the number of checks would grow with the square of the number of
keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Reply, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import MISSING
from pykafka4.core.metadata.topic import MISSING_S
from pykafka4.core.network.call import OTHER_BROKER_S
from pykafka4.core.network.endpoint import broker_of, via
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError, KafkaTimeoutError, broker_error
from pykafka4.errors.codes import Refresh, error_code
from pykafka4.options.config import ClientConfig
from pykafka4.records import Written

__all__ = ["DOUBT", "NEXT_REQUEST", "BrokerChoice", "Lane", "Question", "QuestionRun", "Refusal", "RunContext"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SENT: Final = "the request was sent and is not repeated; it may have been carried out"
CHECK_S: Final = 0.25  # seconds between checks of a key whose broker is not known
# Errors that brokers also return for a change that is in their log, but not yet replicated: the change may still be carried out.
UNDECIDED: Final = (
    "REQUEST_TIMED_OUT",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "KAFKA_STORAGE_ERROR",
)
DOUBT: Final = "an earlier request got no response, or an error that leaves its outcome open, so it may have been carried out"


class Lane(IntEnum):
    """The connection of a question. A broker answers the requests of one connection in order, and holds some of them back."""

    PROMPT = 0  # all questions except the following kinds
    FETCH = 1  # fetches that a broker may hold back until there are records
    FOREIGN = 2  # messages of the application, and other requests that a broker may hold back for long


@attrs.frozen
class Refusal:
    code: int
    detail: str | None = None


NEXT_REQUEST: Final = Refusal(0)  # the response has no complete outcome of the key, so the next request about the key follows at once


class Question(ABC, Generic[K, V]):
    """One kind of request about many keys: makes the requests, and reads the outcome of each key from the responses."""

    api: ClassVar[str]  # Kafka's name of the request
    about: ClassVar[str]  # the format of a key in error messages
    resource: ClassVar[str] = ""  # the kind of the resource that a key names, if brokers check rights on it: group, topic, transactional_id
    most: ClassVar[int] = 100  # most keys in one request, because a large request delays the next requests on its connection
    many_from: ClassVar[int] = 0  # the first version that accepts more than one key
    max_version: int | None = None
    changes: ClassVar[bool] = False  # the request changes something, so its errors may need the note DOUBT
    missing_s: ClassVar[float | None] = None  # seconds for which the request for an unknown topic is repeated; None: MISSING_S
    lane: Lane = Lane.PROMPT
    expects_reply: bool = True
    repeatable: bool = True  # a request that may have been carried out may be sent again
    wait_s: float = 0.0  # seconds for which a broker may hold the response back, added to request_timeout_ms

    @abstractmethod
    def message(self, keys: Sequence[K]) -> Any:
        """The request about `keys`."""

    def fit(self, message: Any, version: int) -> None:
        """Remove from `message` the fields that `version` lacks, and below `many_from` all keys but the first.

        Raises UnsupportedVersion if the request would have another meaning without a field.
        """

    @abstractmethod
    def read(self, keys: Sequence[K], reply: Reply) -> Mapping[K, V | Refusal]:
        """The outcome of each key in the response. A `repeatable` request is repeated for a key that the response lacks."""

    def failed(self, keys: Sequence[K], reason: KafkaError) -> Mapping[K, V] | None:
        """The outcomes of keys whose request would always fail with `reason`; smaller requests follow for the other keys.

        None: the failure is handled as usual.
        """
        return None

    def repeated(self, found: V | Refusal) -> V | Refusal:
        """The outcome that `found` implies after a lost response about the key, because the earlier request may have been carried out."""
        return found

    def wrong_broker_error(self, found: V) -> KafkaError | None:
        """The error in the outcome `found` after which the broker is looked up again; None without such an error."""
        return None

    def what(self, key: K) -> str:
        """The name of `key` in error messages, such as `group g`."""
        return self.about.format(key)

    def late(self, key: K) -> str:
        """The subject of the error at the deadline."""
        return self.what(key)

    def error(self, key: K, refusal: Refusal) -> KafkaError:
        resource = {self.resource: str(key)} if self.resource else {}
        return broker_error(refusal.code, self.what(key), refusal.detail, self.api, **resource)  # type: ignore[arg-type]


class BrokerChoice(ABC, Generic[K]):
    cured_by: ClassVar[Refresh] = Refresh.NOTHING  # after a retriable code with this `refresh` the broker of the key is looked up again
    role: ClassVar[str] = ""  # in errors, after the broker's name: the reason why the request goes to this broker
    lane: ClassVar[Lane | None] = None  # the connection, if it is not the question's `lane`

    def begin(self, keys: Iterable[K]) -> None:
        """Prepare for requests about `keys`."""

    def end(self) -> None:
        """Release the resources that `begin` took, because all keys are settled or dropped."""

    def outcome(self, now: float, key: K) -> Any:
        """The outcome of a key, maybe an error, if it is known without a request; None if a request is needed."""
        return None

    @abstractmethod
    def node(self, key: K) -> int | None:
        """The broker of `key`, ANY or CONTROLLER; None while the broker is not known."""

    def find(self, now: float, key: K) -> None:
        """Begin to find the broker of `key`, for which `node` has returned None."""

    def look_up_again(self, now: float, key: K, node: int, reason: KafkaError) -> None:
        """Look up the broker of `key` again, after the error `reason` of a request to `node`."""

    def why(self, key: K) -> str:
        """The reason why the broker of `key` is not known; empty if the broker is known, or the reason is not."""
        return ""

    def is_of(self, group: str) -> bool:
        """Whether the requests about all keys go to the coordinator of `group`."""
        return False


@attrs.frozen(eq=False)
class RunContext:
    """The objects that all question runs of one machine share. `lanes` are connections to each broker, by `Lane`."""

    config: ClientConfig
    random: Random
    lanes: tuple[int, int, int]
    outbox: Outbox
    why_unreachable: Callable[[], str]


@attrs.define(eq=False)
class KeyState:
    """At `due` the next request about the key may be sent; at `check_at` a poll checks the key."""

    due: float = -INFINITY
    check_at: float = INFINITY
    is_sent: bool = False  # a broker may have the last request about the key
    in_flight: Request | None = None  # the last request, until any request about the key has an outcome
    is_lost: bool = False  # the response to a request about the key was lost
    is_undecided: bool = False  # a response was lost, or had an error that leaves open whether the request was carried out
    backoff: Backoff | None = None
    last_error: KafkaError | None = None
    missing_since: float | None = None


@attrs.define(eq=False)
class QuestionInFlight(Request):
    run: QuestionRun[Any, Any] = attrs.field(kw_only=True)
    asked_node: int = attrs.field(kw_only=True)  # `node` without its lane
    keys: list[Any] = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.run.answered(now, self.asked_node, self.keys, outcome)


class QuestionRun(Generic[K, V]):
    """`settled(key, outcome)` is called on the loop thread when a key gets its outcome; then the key can be added again."""

    def __init__(
        self,
        context: RunContext,
        question: Question[K, V],
        choice: BrokerChoice[K],
        settled: Callable[[K, V | KafkaError], None],
        deadline: float = INFINITY,
        seconds: float = INFINITY,
    ) -> None:
        """`seconds` is the caller's timeout, for the message at the `deadline`."""
        self._context, self._question, self._choice, self._settled = context, question, choice, settled
        self._deadline, self._seconds = deadline, seconds
        self._most = question.most
        self._entries: dict[K, KeyState] = {}
        self._changed: dict[K, None] = {}  # keys that the next poll checks
        self._all = False  # the next poll checks all keys
        self._looks: list[tuple[float, int, K]] = []  # a heap of times at which polls check keys; the number orders equal times
        self._numbers = count()

    @property
    def open(self) -> bool:
        return bool(self._entries)

    def add(self, keys: Iterable[K]) -> None:
        new = [key for key in keys if key not in self._entries]
        self._choice.begin(new)
        for key in new:
            self._entries[key] = KeyState()
            self._changed[key] = None

    def drop(self) -> None:
        """Forget the keys, because no caller waits. Responses to requests in flight are ignored, except for keys that are added again."""
        self._entries.clear()
        self._changed.clear()
        self._looks.clear()
        self._choice.end()

    def check_all(self) -> None:
        self._all = True

    def placed(self, group: str) -> None:
        """Have the next poll check the keys that wait for the coordinator of `group`, because its lookup has ended."""
        if self._choice.is_of(group):
            self._all = True
        else:
            self._changed.update((key, None) for key in (group,) if key in self._entries)

    def refused_by(self, broker: int, error: KafkaError) -> None:
        """Settle the keys that wait for `broker` (ANY: for any broker), which refuses this client: they would wait for the deadline."""
        for key in [key for key in self._entries if broker in (ANY, self._choice.node(key))]:
            if (entry := self._entries.get(key)) is None:  # the outcome of an earlier key has dropped the question
                return
            is_with_broker = entry.in_flight is not None and entry.in_flight.taker is not None
            self._settle(key, self._doubted(error) if is_with_broker or entry.is_undecided else error)

    def last_error(self, key: K) -> KafkaError | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.last_error

    def why(self, key: K) -> str:
        """The reason why `key` has no outcome: the last error, or the broker that has not answered; empty if neither is known."""
        entry = self._entries.get(key)
        if entry is None:
            return ""
        if entry.last_error is not None:
            return f"last error: {entry.last_error}"
        whom = self._from_whom(entry)
        return whom and f"{self._question.what(key)}: {self._question.api}: no answer{whom}"

    @property
    def wake_at(self) -> float:
        if not self._entries:
            return INFINITY
        if self._all or self._changed:
            return -INFINITY
        return min(self._deadline, self._looks[0][0]) if self._looks else self._deadline

    def poll(self, now: float) -> float:
        if now >= self._deadline:
            self._time_out()
        elif now >= self.wake_at:
            self._serve(now, self._with_news(now))
        return self.wake_at

    def _with_news(self, now: float) -> list[K]:
        changed, self._changed = self._changed, {}
        while self._looks and self._looks[0][0] <= now:
            _, _, key = heappop(self._looks)
            changed[key] = None
            if key in self._entries:
                self._entries[key].check_at = INFINITY
        every, self._all = self._all, False
        return list(self._entries) if every else [key for key in changed if key in self._entries]

    def _schedule_check(self, key: K, at: float) -> None:
        entry = self._entries[key]
        if at < entry.check_at:
            entry.check_at = at
            heappush(self._looks, (at, next(self._numbers), key))

    def _serve(self, now: float, keys: list[K]) -> None:
        asked: dict[int, list[K]] = {}
        for key in keys:
            known = self._choice.outcome(now, key)
            if known is not None:
                self._settle(key, known)
            elif (node := self._choice.node(key)) is None:  # the broker is looked up during the backoff
                self._choice.find(now, key)
                self._schedule_check(key, now + CHECK_S)
            elif now < self._entries[key].due:
                self._schedule_check(key, self._entries[key].due)
            else:
                asked.setdefault(node, []).append(key)
        for node, keys in asked.items():
            for first in range(0, len(keys), self._most):
                self._ask(now, node, keys[first : first + self._most])

    def _ask(self, now: float, node: int, keys: list[K]) -> None:
        # Another broker may answer sooner than a frozen one, so after OTHER_BROKER_S the request is sent again, if possible to another.
        again = now + OTHER_BROKER_S if node == ANY and self._question.repeatable else INFINITY
        question, timeout = self._question, self._context.config.request_timeout_ms / 1000 + self._question.wait_s
        lane = question.lane if self._choice.lane is None else self._choice.lane
        address = node if node == ANY else via(self._context.lanes[lane], node)
        message, version = question.message(keys), question.max_version
        request = QuestionInFlight(
            address,
            message,
            now + timeout,
            version,
            question.fit,
            expects_reply=question.expects_reply,
            run=self,
            asked_node=node,
            keys=keys,
        )
        for key in keys:
            entry = self._entries[key]
            entry.due, entry.is_sent, entry.in_flight = again, True, request
            self._schedule_check(key, again)
        self._context.outbox.send(request)

    def answered(self, now: float, node: int, keys: list[K], outcome: Outcome) -> None:
        keys = [key for key in keys if key in self._entries]
        if not keys:  # the keys are settled already, or the question was dropped
            return
        for key in keys:
            self._changed[key], self._entries[key].in_flight = None, None
        if isinstance(outcome, Failed):
            if (settled := self._question.failed(keys, outcome.reason)) is not None:
                self._divide(now, keys, settled)
                return
            for key in keys:
                if outcome.written is Written.NO:  # no broker has the request, so none carries it out
                    self._entries[key].is_sent = False
                else:
                    self._entries[key].is_lost = self._entries[key].is_undecided = True
                if outcome.passing:
                    self._choice.look_up_again(now, key, broker_of(node), outcome.reason)
                if outcome.passing and (self._question.repeatable or outcome.written is Written.NO):
                    self._retry(now, key, outcome.reason)
                else:
                    self._settle(key, self._doubted(outcome.reason) if self._entries[key].is_undecided else outcome.reason)
            return
        found = self._question.read(keys, outcome)
        # A broker with an old version accepts one key in a request: `fit` left the first, and each other key gets a request of its own.
        too_many = outcome.version < self._question.many_from
        if too_many:
            self._most = 1
        for key in keys:
            if key in found:
                self._take(now, outcome.node, key, found[key])
            elif too_many:
                self._entries[key].due = now
            else:
                error = KafkaError(f"{self._question.what(key)}: missing in the response to {self._question.api}")
                self._retry_undecided(now, key, error)

    def _divide(self, now: float, keys: list[K], found: Mapping[K, V]) -> None:
        """Settle the keys in `found`, and ask about the other keys again, at most half as many in each request."""
        self._most = max(1, min(self._most, len(keys) // 2))
        for key in keys:
            if key in found:
                self._settle(key, found[key])
            else:
                self._entries[key].due = now

    def _take(self, now: float, node: int, key: K, found: V | Refusal) -> None:
        if found is NEXT_REQUEST:
            self._entries[key].due = now
            return
        if self._entries[key].is_lost:
            found = self._question.repeated(found)
        if not isinstance(found, Refusal):
            if (reason := self._question.wrong_broker_error(found)) is not None:
                self._choice.look_up_again(now, key, node, reason)
            self._settle(key, found)
            return
        row, error = error_code(found.code), self._question.error(key, found)
        if not row.retriable or (row.code in MISSING and self._is_missing(now, key)):
            self._settle(key, self._doubted(error) if self._entries[key].is_undecided else error)
            return
        if row.refresh is self._choice.cured_by:
            self._choice.look_up_again(now, key, node, error)
        if row.name in UNDECIDED:
            self._entries[key].is_undecided = True
            self._retry_undecided(now, key, error)
        else:
            self._entries[key].is_sent = False  # the broker has not carried it out
            self._retry(now, key, error)

    def _doubted(self, error: KafkaError) -> KafkaError:
        """Add the note that a request, which a broker may have, may have been carried out."""
        if self._question.repeatable and not self._question.changes:
            return error
        error = error.again()
        error.add_note(DOUBT if self._question.repeatable else SENT)
        return error

    def _is_missing(self, now: float, key: K) -> bool:
        entry = self._entries[key]
        if entry.missing_since is None:
            entry.missing_since = now
        patience = MISSING_S if self._question.missing_s is None else self._question.missing_s
        return now - entry.missing_since >= patience

    def _retry_undecided(self, now: float, key: K, reason: KafkaError) -> None:
        """Retry after a request that may have been carried out, or settle `key` if the request is not repeatable."""
        if self._question.repeatable:
            self._retry(now, key, reason)
        else:
            self._settle(key, self._doubted(reason))

    def _retry(self, now: float, key: K, reason: KafkaError) -> None:
        entry = self._entries[key]
        if entry.backoff is None:
            entry.backoff = Backoff.retry(self._context.config, self._context.random)
        entry.last_error, entry.due = reason, now + entry.backoff.next()

    def _settle(self, key: K, outcome: V | KafkaError) -> None:
        # `settled` can add the same key again. So the entry is deleted, and the choice released, before the call.
        del self._entries[key]
        if not self._entries:
            self._choice.end()
        self._settled(key, outcome)

    def _time_out(self) -> None:
        unreachable = self._context.why_unreachable()
        for key in list(self._entries):
            error, entry = self.last_error(key), self._entries[key]
            # If no broker can be reached, that is the reason, rather than a leader or coordinator that is not known.
            why = ("" if unreachable else self._choice.why(key)) or (unreachable if error is None else f"last error: {error}")
            because = f" ({why})" if why else ""
            seconds = round(self._seconds, 2)
            what = f"no answer within {seconds:g} s{self._from_whom(entry)}" if seconds else "not asked, because no time was left"
            late = KafkaTimeoutError(f"{self._question.late(key)}: {self._question.api}: {what}{because}")
            self._settle(key, self._doubted(late) if entry.is_sent or entry.is_undecided else late)

    def _from_whom(self, entry: KeyState) -> str:
        taker = None if entry.in_flight is None else entry.in_flight.taker
        return "" if taker is None else f" from {taker.title}{self._choice.role}"
