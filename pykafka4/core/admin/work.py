"""Work. Rule: each key of a question is settled once: by a response, by an error that a retry cannot cure, or at the deadline.

Keys that go to the same broker share requests; those for different brokers are under way at the same time. A request keeps the full
`request_timeout_ms`, however short the deadline is: an earlier one would close a connection that other requests use.

A poll looks only at keys with news: with brokers that take one group in a request, there are as many responses as keys.
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
from pykafka4.core.metadata.topic import MISSING_SECONDS
from pykafka4.core.network.call import OTHER_BROKER_S
from pykafka4.core.network.endpoint import broker_of, via
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError, KafkaTimeoutError, broker_error
from pykafka4.errors.codes import Refresh, error_code
from pykafka4.options.config import ClientConfig
from pykafka4.records import Written

__all__ = ["AGAIN", "DOUBT", "Context", "Lane", "Place", "Question", "Refusal", "Work"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SENT: Final = "the request was sent and is not repeated; it may have been carried out"
LOOK_SECONDS: Final = 0.25  # between looks at keys whose broker is not known
UNDECIDED: Final = ("REQUEST_TIMED_OUT", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")  # also of what is in the log, but not replicated
DOUBT: Final = "an earlier request was not answered, or with an error that leaves it open, so it may have been carried out"


class Lane(IntEnum):
    """The connection of a question. A broker answers the requests of one connection in turn, and holds some of them back."""

    PROMPT = 0  # questions that a broker answers at once
    FETCH = 1  # a broker holds a Fetch back until there are records
    FOREIGN = 2  # messages of the application, some of which wait for a whole group


@attrs.frozen
class Refusal:
    """An error code for one key."""

    code: int
    detail: str | None = None


AGAIN: Final = Refusal(0)  # the key is asked about again at once: the response had no room for it


class Question(ABC, Generic[K, V]):
    """Requests of one kind about many keys: what is sent, and what a response says of each key."""

    api: ClassVar[str]  # Kafka's name of the request
    about: ClassVar[str]  # a key in error messages, as a format
    resource: ClassVar[str] = ""  # what a key is, if rights to it are checked: group or topic
    most: ClassVar[int] = 100  # keys in one request: a broker serves the requests of a connection in turn
    many_from: ClassVar[int] = 0  # the first version that takes more than one key
    max_version: int | None = None
    changes: ClassVar[bool] = False  # whether it changes something; then an error after DOUBT says so in a note
    missing_s: ClassVar[float | None] = None  # how long an unknown topic is asked for again; None: MISSING_SECONDS
    lane: Lane = Lane.PROMPT
    expects_reply: bool = True
    repeatable: bool = True  # whether a request whose response was lost is sent again
    wait_s: float = 0.0  # how long a broker may hold the response back, in addition to request_timeout_ms

    @abstractmethod
    def message(self, keys: Sequence[K]) -> Any:
        """The request about `keys`."""

    def fit(self, message: Any, version: int) -> None:
        """Remove from `message` what `version` cannot carry; below `many_from` all keys but the first."""

    @abstractmethod
    def read(self, keys: Sequence[K], reply: Reply) -> Mapping[K, V | Refusal]:
        """What the response says of each of `keys`; a key that it does not contain is asked for again."""

    def failed(self, keys: Sequence[K], reason: KafkaError) -> Mapping[K, V] | None:
        """Outcomes of keys whose request is in vain for `reason`, however often; smaller requests follow for the other keys.

        None: the request may be repeated.
        """
        return None

    def repeated(self, found: V | Refusal) -> V | Refusal:
        """What `found` means for a key about which a request was sent before whose response was lost."""
        return found

    def misplaced(self, found: V) -> KafkaError | None:
        """The error in `found`, a settled outcome, that another broker has to be asked next time; None if this one was right."""
        return None

    def what(self, key: K) -> str:
        """`key` in error messages: `group g`."""
        return self.about.format(key)

    def late(self, key: K) -> str:
        """What is not answered, for the error at the deadline."""
        return self.what(key)

    def error(self, key: K, refusal: Refusal) -> KafkaError:
        """The exception for an error code, with the right that may be missing."""
        resource = {self.resource: str(key)} if self.resource else {}
        return broker_error(refusal.code, self.what(key), refusal.detail, self.api, **resource)  # type: ignore[arg-type]


class Place(ABC, Generic[K]):
    """Which broker is asked about a key."""

    cured_by: ClassVar[Refresh] = Refresh.NOTHING  # error codes with this mean that another broker is to be asked
    role: ClassVar[str] = ""  # why a broker is asked, after its name in errors
    lane: ClassVar[Lane | None] = None  # the connection, in place of the question's

    def begin(self, keys: Iterable[K]) -> None:
        """Keys that will be asked about."""

    def end(self) -> None:
        """All keys are settled: release what `begin` took."""

    def outcome(self, now: float, key: K) -> Any:
        """The outcome of a key that is known without a request, an error included; None if there is none."""
        return None

    @abstractmethod
    def node(self, key: K) -> int | None:
        """The broker to ask, or ANY; None while it is not known."""

    def want(self, now: float, key: K) -> None:
        """Find the broker of `key`."""

    def lost(self, now: float, key: K, node: int, reason: KafkaError) -> None:
        """`node` did not respond, or is not the broker of `key`."""

    def why(self, key: K) -> str:
        """Why the broker of `key` is not known; empty if that is known, or nothing says so."""
        return ""

    def is_of(self, group: str) -> bool:
        """Whether all keys are asked about at the coordinator of `group`."""
        return False


@attrs.frozen(eq=False)
class Context:
    """What all work of one machine shares. `lanes` are the machine's connections to each broker, by `Lane`."""

    config: ClientConfig
    random: Random
    lanes: tuple[int, int, int]
    outbox: Outbox
    why_unreachable: Callable[[], str]


@attrs.define(eq=False)
class Entry:
    """A key that is not settled. `due`: when it may be sent, again if a request is in flight. `look_at`: when it is to be looked at."""

    due: float = -INFINITY
    look_at: float = INFINITY
    is_sent: bool = False  # whether the last request about it may be on its way
    in_flight: Request | None = None  # that request, until it has an outcome
    is_lost: bool = False  # whether a request about it was sent, and the response was lost
    is_undecided: bool = False  # the same, or the error in the response leaves open what was done
    backoff: Backoff | None = None
    last_error: KafkaError | None = None
    missing_since: float | None = None


@attrs.define(eq=False)
class QuestionInFlight(Request):
    """A question to one broker about some of its keys."""

    work: Work[Any, Any] = attrs.field(kw_only=True)
    place: int = attrs.field(kw_only=True)  # the node, without its lane
    keys: list[Any] = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """See `Request`."""
        self.work.answered(now, self.place, self.keys, outcome)


class Work(Generic[K, V]):
    """One question under way. `settled(key, outcome)` is called once for each key, on the loop thread."""

    def __init__(
        self,
        context: Context,
        question: Question[K, V],
        place: Place[K],
        settled: Callable[[K, V | KafkaError], None],
        deadline: float = INFINITY,
        seconds: float = INFINITY,
    ) -> None:
        """`seconds` is the time that the caller gave, for the message at the `deadline`."""
        self._context, self._question, self._place, self._settled = context, question, place, settled
        self._deadline, self._seconds = deadline, seconds
        self._most = question.most
        self._entries: dict[K, Entry] = {}
        self._changed: dict[K, None] = {}  # to be looked at in the next poll
        self._all = False  # whether all are
        self._looks: list[tuple[float, int, K]] = []  # a heap of times, for keys that are looked at later; the number orders equal times
        self._numbers = count()

    @property
    def open(self) -> bool:
        """Whether there are keys that are not settled."""
        return bool(self._entries)

    def add(self, keys: Iterable[K]) -> None:
        """Ask about `keys` as well."""
        new = [key for key in keys if key not in self._entries]
        self._place.begin(new)
        for key in new:
            self._entries[key] = Entry()
            self._changed[key] = None

    def drop(self) -> None:
        """Nobody waits any more: forget the keys. Responses in flight are ignored."""
        self._entries.clear()
        self._changed.clear()
        self._looks.clear()
        self._place.end()

    def stir(self) -> None:
        """The metadata changed: look at all keys in the next poll."""
        self._all = True

    def placed(self, group: str) -> None:
        """The coordinator of `group` is known, or why it is not: look at the keys that wait for it."""
        if self._place.is_of(group):
            self._all = True
        else:
            self._changed.update((key, None) for key in (group,) if key in self._entries)

    def last_error(self, key: K) -> KafkaError | None:
        """The error after which `key` is asked about again, if there was one."""
        entry = self._entries.get(key)
        return None if entry is None else entry.last_error

    def why(self, key: K) -> str:
        """Why there is no answer about `key`: the last error, or the broker that has not answered; empty if neither is known."""
        entry = self._entries.get(key)
        if entry is None:
            return ""
        if entry.last_error is not None:
            return f"last error: {entry.last_error}"
        whom = self._from_whom(entry)
        return whom and f"{self._question.what(key)}: {self._question.api}: no answer{whom}"

    @property
    def wake_at(self) -> float:
        """When to be polled again."""
        if not self._entries:
            return INFINITY
        if self._all or self._changed:
            return -INFINITY
        return min(self._deadline, self._looks[0][0]) if self._looks else self._deadline

    def poll(self, now: float) -> float:
        """Send what is due; returns when to be polled again."""
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
                self._entries[key].look_at = INFINITY
        every, self._all = self._all, False
        return list(self._entries) if every else [key for key in changed if key in self._entries]

    def _look(self, key: K, at: float) -> None:
        entry = self._entries[key]
        if at < entry.look_at:
            entry.look_at = at
            heappush(self._looks, (at, next(self._numbers), key))

    def _serve(self, now: float, keys: list[K]) -> None:
        asked: dict[int, list[K]] = {}
        for key in keys:
            known = self._place.outcome(now, key)
            if known is not None:
                self._settle(key, known)
            elif (node := self._place.node(key)) is None:  # found during the back-off
                self._place.want(now, key)
                self._look(key, now + LOOK_SECONDS)
            elif now < self._entries[key].due:
                self._look(key, self._entries[key].due)
            else:
                asked.setdefault(node, []).append(key)
        for node, keys in asked.items():
            for first in range(0, len(keys), self._most):
                self._ask(now, node, keys[first : first + self._most])

    def _ask(self, now: float, node: int, keys: list[K]) -> None:
        # Any other broker may answer sooner than a frozen one.
        again = now + OTHER_BROKER_S if node == ANY and self._question.repeatable else INFINITY
        question, timeout = self._question, self._context.config.request_timeout_ms / 1000 + self._question.wait_s
        lane = question.lane if self._place.lane is None else self._place.lane
        address = node if node == ANY else via(self._context.lanes[lane], node)
        message, version = question.message(keys), question.max_version
        request = QuestionInFlight(
            address,
            message,
            now + timeout,
            version,
            question.fit,
            expects_reply=question.expects_reply,
            work=self,
            place=node,
            keys=keys,
        )
        for key in keys:
            entry = self._entries[key]
            entry.due, entry.is_sent, entry.in_flight = again, True, request
            self._look(key, again)
        self._context.outbox.send(request)

    def answered(self, now: float, node: int, keys: list[K], outcome: Outcome) -> None:
        """The question about `keys` to `node` has its outcome."""
        keys = [key for key in keys if key in self._entries]
        if not keys:  # nobody waits any more
            return
        for key in keys:
            self._changed[key], self._entries[key].in_flight = None, None
        if isinstance(outcome, Failed):
            if keys and (settled := self._question.failed(keys, outcome.reason)) is not None:
                self._divide(now, keys, settled)
                return
            for key in keys:
                if outcome.written is Written.NO:
                    self._entries[key].is_sent = False
                else:
                    self._entries[key].is_lost = self._entries[key].is_undecided = True
                if outcome.passing:
                    self._place.lost(now, key, broker_of(node), outcome.reason)
                if outcome.passing and (self._question.repeatable or outcome.written is Written.NO):
                    self._retry(now, key, outcome.reason)
                else:
                    self._settle(key, outcome.reason if outcome.written is Written.NO else self._doubted(outcome.reason))
            return
        found = self._question.read(keys, outcome)
        too_many = outcome.version < self._question.many_from
        if too_many:
            self._most = 1
        for key in keys:
            if key in found:
                self._take(now, outcome.node, key, found[key])
            elif too_many:
                self._entries[key].due = now
            else:
                self._retry(now, key, KafkaError(f"{self._question.what(key)}: missing in the response to {self._question.api}"))

    def _divide(self, now: float, keys: list[K], found: Mapping[K, V]) -> None:
        self._most = max(1, min(self._most, len(keys) // 2))
        for key in keys:
            if key in found:
                self._settle(key, found[key])
            else:
                self._entries[key].due = now

    def _take(self, now: float, node: int, key: K, found: V | Refusal) -> None:
        if found is AGAIN:
            self._entries[key].due = now
            return
        if self._entries[key].is_lost:
            found = self._question.repeated(found)
        if not isinstance(found, Refusal):
            if (reason := self._question.misplaced(found)) is not None:
                self._place.lost(now, key, node, reason)
            self._settle(key, found)
            return
        row, error = error_code(found.code), self._question.error(key, found)
        if not row.retriable or (row.code in MISSING and self._is_missing(now, key)):
            if self._question.changes and self._entries[key].is_undecided:
                error.add_note(DOUBT)
            self._settle(key, error)
            return
        self._entries[key].is_undecided |= row.name in UNDECIDED
        if row.refresh is self._place.cured_by:
            self._place.lost(now, key, node, error)
        self._retry(now, key, error)

    def _doubted(self, error: KafkaError) -> KafkaError:
        """`error` of a request that a broker may have got, with a note if the request is not sent again."""
        if self._question.repeatable:
            return error
        error = error.again()
        error.add_note(SENT)
        return error

    def _is_missing(self, now: float, key: K) -> bool:
        entry = self._entries[key]
        if entry.missing_since is None:
            entry.missing_since = now
        patience = MISSING_SECONDS if self._question.missing_s is None else self._question.missing_s
        return now - entry.missing_since >= patience

    def _retry(self, now: float, key: K, reason: KafkaError) -> None:
        entry = self._entries[key]
        if entry.backoff is None:
            entry.backoff = Backoff.retry(self._context.config, self._context.random)
        entry.last_error, entry.due = reason, now + entry.backoff.next()

    def _settle(self, key: K, outcome: V | KafkaError) -> None:
        del self._entries[key]
        if not self._entries:
            self._place.end()
        self._settled(key, outcome)

    def _time_out(self) -> None:
        unreachable = self._context.why_unreachable()
        for key in list(self._entries):
            error, entry = self.last_error(key), self._entries[key]
            why = ("" if unreachable else self._place.why(key)) or (unreachable if error is None else f"last error: {error}")
            because = f" ({why})" if why else ""
            seconds = round(self._seconds, 2)
            what = f"no answer within {seconds:g} s{self._from_whom(entry)}" if seconds else "not asked, as the time of the call was over"
            late = KafkaTimeoutError(f"{self._question.late(key)}: {self._question.api}: {what}{because}")
            if self._question.changes and self._question.repeatable and (entry.is_sent or entry.is_undecided):
                late.add_note(DOUBT)
            self._settle(key, self._doubted(late) if entry.is_sent else late)

    def _from_whom(self, entry: Entry) -> str:
        taker = None if entry.in_flight is None else entry.in_flight.taker
        return "" if taker is None else f" from {taker.title}{self._place.role}"
