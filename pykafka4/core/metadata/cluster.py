"""Requests the metadata of brokers and topics in use, and applies the responses.

Invariant: a response without brokers does not replace the known metadata (only REBOOTSTRAP_REQUIRED removes all brokers), an older leader
epoch replaces a newer one only in the cases below, and a single report of a missing topic removes only the topic's leaders.

Brokers learn of changes at different times, so a response can be older than the metadata. Leader epochs (per topic id) show which of the
two is newer; a response with a replaced topic id is also older. Older metadata is accepted if responses have had nothing newer for a long
time: then a topic without an id was recreated, the cluster was restored from a backup, or the id that arrived later was the older one. Any
epoch is accepted after a topic without an id has been missing.

Rule: a topic is requested at once after its first error (`refresh`), then with its backoff (`_pace`). Only a change that leaves no
trouble, or a long time without a request, resets the backoff. So machines may report errors as often as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from typing import TypeAlias

import attrs

from pykafka4.core import ANY, INFINITY, Effects, Failed, Outcome, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.brokers import Broker, changes_of
from pykafka4.core.metadata.events import EventSink, MetadataChanged
from pykafka4.core.metadata.known import KnownMetadata
from pykafka4.core.metadata.metadata_queue import ROTATES_AFTER, MetadataQueue, within_budget
from pykafka4.core.metadata.topic import Topic
from pykafka4.core.network.call import OTHER_BROKER_S
from pykafka4.core.network.network import Network
from pykafka4.errors import KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.errors.peer_text import visible
from pykafka4.logs import get_log
from pykafka4.misuse import check_topic
from pykafka4.options.config import ClientConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.messages_cluster import MetadataRequest, MetadataResponse

__all__ = ["MISSING", "Cluster", "MetadataChange", "Waiter"]

log = get_log("pykafka4.cluster")
BROKERS = ""  # stands for the list of brokers among the names of topics to request; no topic has this name
# Seconds until the next check, while no broker can be reached. The first connection causes a check at once (`Network.changes`); RECHECK_S
# is for events that do not change the network, such as the end of a backoff.
RECHECK_S = 0.5
ASKS_PER_BROKER = 4  # requests for a topic with trouble before the next request prefers another broker
# The first version of Metadata whose leader epochs are used: brokers before 2.4 return an old epoch while replicas are reassigned, and
# leaders reject requests with that epoch.
EPOCHS_FROM = 9
MOST_PARTITIONS = 1_000_000  # limit of a topic: a response with more is corrupt, and must not make the client allocate memory for them
MISSING = {BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"].code, BY_NAME["UNKNOWN_TOPIC_ID"].code}  # codes for a topic or partition that is missing
REBOOTSTRAP = BY_NAME["REBOOTSTRAP_REQUIRED"].code
Then: TypeAlias = Callable[["KafkaError | None"], None]


@attrs.frozen
class MetadataChange:
    """A change of the metadata. `topics` may include unchanged topics that brokers refuse."""

    version: int
    topics: frozenset[str]
    brokers: bool


@attrs.define(eq=False)
class Waiter:
    """A caller that waits for responses with `names`, to requests later than number `after_request`."""

    names: set[str]
    after_request: int  # the response to an earlier request may be older than the caller's call
    then: Then
    wishes: frozenset[str]  # topics that the waiter uses until the call of `then`
    named: frozenset[str]  # the topics that the caller named: `then` gets their denial


@attrs.define(eq=False)
class MetadataInFlight(Request):
    cluster: Cluster = attrs.field(kw_only=True)
    number: int = attrs.field(kw_only=True)  # of the Metadata request, in the order of sending
    sent_at: float = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.cluster.answered(now, self, outcome)


class Cluster(KnownMetadata):
    def __init__(self, config: ClientConfig, network: Network, random: Random, events: EventSink) -> None:
        super().__init__()
        self.version = 0  # incremented with each change
        self.updated_at: float | None = None  # when the last response with metadata arrived
        self.changed_at: float | None = None  # when a Metadata response last changed the metadata
        self.controller: int | None = None
        self.cluster_id: str | None = None
        self.error: KafkaError | None = None  # the failure of the last request; None after a success
        self.on_change: list[Callable[[MetadataChange], None]] = []
        self._config, self._network, self._random, self._events = config, network, random, events
        self._topics[BROKERS] = self._new_topic()
        self.on_forgotten: list[Callable[[str], None]] = []  # called with a topic that is no longer in use
        self._wanted: dict[str, dict[object, bool]] = {}  # topic -> its users, and for each whether brokers may create the topic
        self._queue = MetadataQueue(config, random)
        self._queue.put(BROKERS, -INFINITY)
        self._vanishing: dict[str, None] = {}  # topics that were known, and no longer exist according to brokers
        self._asked: dict[int, tuple[frozenset[str], float]] = {}  # requests in flight: number -> (names, since)
        # Numbers of the last request, and of the last request whose response replaced the list of brokers.
        self._number = self._brokers_from = 0
        self._updated_by: int | None = None  # the broker that sent that response
        self._request: MetadataInFlight | None = None  # the last request, until it has an outcome
        self._waiters: list[Waiter] = []
        self._retry = Backoff.retry(config, random)
        self._not_before = -INFINITY  # the end of the backoff after a failed request
        self._expires = INFINITY
        self._gone: frozenset[int] = frozenset()  # brokers that the last change removed
        self._unplaced = False  # a hint contained the address of a broker, and the network does not have the address yet
        self._networks_changes = 0
        self._wake_at = -INFINITY
        self._nothing = Effects()
        network.on_lost.append(self._lost)
        network.refusals.listeners[self._refused] = None

    @property
    def asked(self) -> int:
        """The number of the last request."""
        return self._number

    @property
    def silent(self) -> str | None:
        """The broker that owes a response to the last request; None if the request has ended or waits for a connection. For any thread."""
        request = self._request  # read once: the loop may set the field to None between two reads
        return None if request is None or request.taker is None else request.taker.title

    # -- topics in use

    @property
    def topics(self) -> list[str]:
        return list(self._wanted)

    def troubles(self, topics: Iterable[str]) -> dict[str, str]:
        """Return topic -> reason for `topics` in use that have an error, leaderless partitions, or no known partitions."""
        found = {}
        for name in topics:
            known = self._topics.get(name) if name in self._wanted else None
            if known is None:
                continue
            if known.error is not None:
                found[name] = known.error.name
            elif not known.leaders:
                found[name] = "not looked up yet"
            elif len(known.available) < len(known.leaders):
                leaderless = [str(partition) for partition, leader in enumerate(known.leaders) if leader is None]
                found[name] = f"no leader for partition {', '.join(leaderless)}"
        return found

    def want(self, topic: str, user: object, create: bool = False) -> None:
        """Keep the metadata of `topic` up to date until `forget` is called for `user`. A second call for the same user is allowed.

        With `create`, brokers may create the topic (allow_auto_create_topics) until it has existed once: a topic that is deleted later is
        not created again. Raises TypeError or ConfigError for an invalid name, because every later request with that name would fail.
        """
        if topic not in self._wanted:
            check_topic(topic)
        known = self._topic(topic)
        gone = not known.leaders or known.missing_since is not None
        users = self._wanted.setdefault(topic, {})
        # The right may have been granted since the denial. The records or the caller of a new user wait for the response, so the topic's
        # backoff, which belongs to earlier users, does not delay this request.
        hurried = known.error is not None and known.error.denied and user not in users
        users[user] = users.get(user, False) or (create and gone and self._config.allow_auto_create_topics)
        if hurried:
            self._queue.put(topic, -INFINITY)
            self._wake_at = -INFINITY
        elif not known.leaders or (known.error is not None and not known.error.retriable):
            self._ask_for(topic, known.not_before)

    def wants(self, topic: str) -> bool:
        return topic in self._wanted

    def seeks(self, topic: str) -> bool:
        """Whether `topic` is in use and incomplete: the cluster requests it again and again until its metadata is complete."""
        return topic in self._wanted and self._topics[topic].troubled

    def forget(self, topic: str, user: object) -> None:
        """Drop the topic's metadata if `user` was its last user."""
        users = self._wanted.get(topic, {})
        users.pop(user, None)
        if not users and self._wanted.pop(topic, None) is not None:
            self._drop(topic)

    def refresh(self, now: float, topics: Collection[str] | None = None) -> None:
        """Request each of `topics` that is in use (None: all topics in use, and the brokers): at once the first time, then with backoff.

        The broker that sent the current metadata may have nothing newer, so the request prefers other brokers.
        """
        self._avoid(now)
        for name in self._all() if topics is None else [t for t in topics if t in self._wanted]:
            known = self._topic(name)
            # After twice the longest backoff without a request, no backoff for this topic is running: this is a new incident. Topics in
            # rotation keep their place: thousands of them would otherwise be due at once.
            if now - known.asked_at > 2 * self._config.retry_backoff_max_ms / 1000 and not self._queue.in_rotation(name):
                known.backoff.reset()
                known.not_before = now
            self._ask_for(name, known.not_before)

    def refreshed(self, now: float, topics: Collection[str] | None, then: Then) -> Waiter:
        """Request `topics` at once (None: all in use, and the brokers; empty: the brokers). `then` is called with None, or with an error.

        Raises TypeError or ConfigError for an invalid name, before any request.
        """
        names = set(self._all() if topics is None else map(check_topic, topics)) or {BROKERS}
        self._avoid(now)
        wishes = frozenset(names - {BROKERS})
        waiter = Waiter(set(names), self._number, then, wishes, frozenset() if topics is None else wishes)
        self._waiters.append(waiter)
        for name in sorted(names):
            if name != BROKERS:
                self.want(name, waiter)
            self._ask_now(name, now)
        return waiter

    def cancel_wait(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._dismiss(waiter)

    def hint(self, tp: TopicPartition, node: int, epoch: int, endpoint: tuple[str, int] | None = None) -> None:
        """Apply the current leader of `tp` from a response (KIP-951), if its epoch is newer and the node's address is known."""
        known = self._topics.get(tp.topic)
        if known is None or not 0 <= tp.partition < len(known.leaders) or epoch <= known.epochs[tp.partition]:
            return
        told = None if endpoint is None else Broker(node, self._network.secret_filter.host(endpoint[0]), endpoint[1])
        if told is not None and self._address(node) != told.address:
            before, self.brokers = self.brokers, {**self.brokers, node: told}
            self._announce(before)
            self._unplaced, self._wake_at = True, -INFINITY
        if node not in self.brokers:
            return
        known.lead(tp.partition, node, epoch)
        known.settle()
        self._changed(frozenset((tp.topic,)), self._unplaced)

    # -- the machine

    def poll(self, now: float) -> Effects:
        if now < self._wake_at and self._networks_changes == self._network.changes:
            return self._nothing
        self._networks_changes = self._network.changes
        if self._unplaced:
            self._unplaced = False
            self._place(now)
        self._expire(now)
        request, self._wake_at = self._next(now)
        self._nothing = Effects(wake_at=self._wake_at)
        return self._nothing if request is None else Effects((request,), wake_at=self._wake_at)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        for waiter in list(self._waiters):
            self._dismiss(waiter)
            waiter.then(reason)
        return ()

    # -- the choice of topics to request

    def _avoid(self, now: float) -> None:
        if self._updated_by is not None:
            self._network.avoid(now, self._updated_by)

    def _new_topic(self) -> Topic:
        return Topic(Backoff.retry(self._config, self._random))

    def _topic(self, name: str) -> Topic:
        known = self._topics.get(name)
        if known is None:
            known = self._topics[name] = self._new_topic()
        return known

    def _drop(self, name: str) -> None:
        """Drop the topic's metadata. A response that arrives later is ignored."""
        self._queue.discard(name)
        self._vanishing.pop(name, None)
        self._network.troubles.over((self, name))
        known = self._topics.pop(name)
        for topic_id in (known.topic_id, *known.former_ids):
            if topic_id is not None:
                self._names.pop(topic_id, None)
        for listener in self.on_forgotten:
            listener(name)

    def _dismiss(self, waiter: Waiter) -> None:
        self._waiters.remove(waiter)
        for name in sorted(waiter.wishes):
            self.forget(name, waiter)

    def _all(self) -> list[str]:
        return [BROKERS, *self._wanted]

    def _ask_for(self, name: str, when: float) -> None:
        """Request `name` at `when`, or in rotation after many requests without success."""
        known = self._topic(name)
        if name != BROKERS and known.backoff.attempts >= ROTATES_AFTER:
            self._queue.put_in_rotation(name, len(known.leaders))
        else:
            self._queue.put(name, when)
        self._wake_at = -INFINITY

    def _ask_now(self, name: str, now: float) -> None:
        self._topic(name)
        self._queue.put(name, now)
        self._wake_at = -INFINITY

    def _lost(self, now: float, node: int) -> None:
        """Request all metadata: the broker's partitions may have moved, and perhaps no other request would show that.

        A lost bootstrap address matters only while no broker is connected.
        """
        if node >= 0 or not self._network.up:
            self.refresh(now)

    def _refused(self, now: float, broker: int, error: KafkaError) -> None:
        if broker == ANY:
            self.crash(error)

    def _expire(self, now: float) -> None:
        if now >= self._expires:
            self._set_expiry(now)
            self.refresh(now)
        for number, (names, since) in self._asked.items():
            if since > -INFINITY and since + OTHER_BROKER_S <= now:
                self._asked[number] = (names, -INFINITY)  # other brokers are asked from now on, but a late response is still used
                self._ask_again(names, now)
        if self._vanishing:
            self._clear_vanished(now)

    def _clear_vanished(self, now: float) -> None:
        """Drop the partitions of topics that, according to brokers, have not existed for `unknown_topic_timeout_ms`."""
        patience = self._config.unknown_topic_timeout_ms / 1000
        for name in list(self._vanishing):
            known = self._topics[name]
            if known.missing_since is None:
                del self._vanishing[name]
            elif known.was_missing(patience):
                del self._vanishing[name]
                known.leaders, known.epochs, known.available = [], [], []
                self._changed(frozenset((name,)), False)

    def _set_expiry(self, now: float) -> None:
        # Up to 20 % earlier, at random: clients that started together must not request all metadata together (see `backoff.JITTER`).
        self._expires = now + self._config.metadata_max_age_ms / 1000 * (1 - 0.2 * self._random.random())

    def _next(self, now: float) -> tuple[Request | None, float]:
        """The request to send now, and the time of the next check."""
        patient = max((since + OTHER_BROKER_S for _, since in self._asked.values()), default=-INFINITY)
        starts = max(patient, self._not_before, self._queue.due_at)
        if starts > now:
            return None, min(starts, self._expires, patient if patient > now else INFINITY)
        if not self._network.reachable(now):
            self._network.want(ANY)
            return None, now + RECHECK_S
        return self._ask(now), min(now + OTHER_BROKER_S, self._expires)

    def _ask(self, now: float) -> Request:
        """Build a request for the topics that are due now or soon, but no more than `within_budget` allows.

        Topics to create get a separate request, because the flag for creation applies to all topics of a request.
        """
        soon = now + self._config.retry_backoff_ms / 1000
        due = self._queue.due(now, soon)
        creating = [name for name in due if any(self._wanted.get(name, {}).values()) and not self._topics[name].leaders]
        names = within_budget(creating or due, self.partitions)
        self._queue.asked(names, now)
        for name in names:
            self._topics[name].asked_at, self._topics[name].creating = now, bool(creating)
        self._number += 1
        number = self._number
        self._asked[number] = (frozenset(names), now)
        message = MetadataRequest(
            topics=[MetadataRequest.Topic(name=name) for name in names if name != BROKERS],
            allow_auto_topic_creation=bool(creating),
        )
        deadline = now + self._config.request_timeout_ms / 1000
        self._request = MetadataInFlight(ANY, message, deadline, cluster=self, number=number, sent_at=now)
        return self._request

    # -- responses

    def answered(self, now: float, request: MetadataInFlight, outcome: Outcome) -> None:
        number = request.number
        names, _ = self._asked.pop(number)
        self._wake_at, self._request = -INFINITY, None if request is self._request else self._request
        if isinstance(outcome, Failed):
            self._failed(now, names, outcome.reason)
            if not outcome.passing:
                self.crash(outcome.reason)
            return
        message: MetadataResponse = outcome.message
        if message.error_code:
            if message.error_code == REBOOTSTRAP and self._set_brokers(now, {}, None):
                self._changed(self._unseat(), True)
            self._failed(now, names, broker_error(message.error_code, "Metadata"))
            return
        shown = self._network.secret_filter.host
        brokers = {b.node_id: Broker(b.node_id, shown(b.host), b.port, b.rack) for b in message.brokers if b.node_id >= 0}
        if not brokers:  # a broker that has just started has no metadata yet, and reports every topic as missing
            self._network.avoid(now, outcome.node)
            self._failed(now, names, KafkaError("Metadata: the response contains no brokers"))
            return
        self._retry.reset()
        self._not_before, self.error, self.updated_at, version = -INFINITY, None, now, self.version
        brokers_changed = number > self._brokers_from and self._apply_brokers(now, number, outcome.node, message, brokers)
        self._apply(now, request, names, message, outcome.version, brokers_changed)
        if self.version != version:
            self.changed_at = now
        self._tell_waiters(number, names)

    def _failed(self, now: float, names: frozenset[str], reason: KafkaError) -> None:
        self.error = reason
        self._not_before = now + self._retry.next()
        self._ask_again(names, self._not_before)

    def _ask_again(self, names: frozenset[str], when: float) -> None:
        for name in self._still(names):
            if name not in self._queue:
                self._ask_for(name, when)

    def _still(self, names: frozenset[str]) -> list[str]:
        """Return the names still in use, sorted: the order of a set differs between processes, and runs must be repeatable."""
        return sorted(name for name in names if name in self._topics)

    def _tell_waiters(self, number: int, names: frozenset[str]) -> None:
        for waiter in [w for w in self._waiters if w.after_request < number]:
            waiter.names -= names
            if not waiter.names:
                refusals = [refusal for name in sorted(waiter.named) if (refusal := self.refusal(name)) is not None and refusal.code.denied]
                self._dismiss(waiter)
                waiter.then(refusals[0] if refusals else None)

    def _apply_brokers(self, now: float, number: int, node: int, message: MetadataResponse, brokers: dict[int, Broker]) -> bool:
        """Apply the list of brokers. Not called for a response that the response to a later request has overtaken.

        Lists of brokers have no epoch that shows which is newer. Without the comparison of numbers: request 1 goes to a slow broker,
        request 2 after `OTHER_BROKER_S` to another. Response 2 adds broker 4; then response 1, which is older, would remove broker 4.
        """
        self._brokers_from, self._updated_by = number, node
        self._check_cluster(message.cluster_id)
        return self._set_brokers(now, brokers, message.controller_id)

    def _apply(
        self, now: float, request: MetadataInFlight, names: frozenset[str], message: MetadataResponse, version: int, brokers_changed: bool
    ) -> None:
        unseated = self._unseat() if brokers_changed else frozenset()
        if self._expires == INFINITY:
            self._set_expiry(now)
        wanted = {t.name: t for t in message.topics if t.name is not None and t.name in self._wanted}
        topics = unseated | {n for n, t in wanted.items() if self._apply_topic(now, request.sent_at, self._topics[n], t, version)}
        for name in self._still(names):
            self._topics[name].answered_request = request.number
            self._pace(now, name, name in topics or (name == BROKERS and brokers_changed))
        if topics or brokers_changed:
            self._queue.note_change()
            self._changed(topics, brokers_changed)
        if refused := frozenset(name for name in self._still(names) if self.refusal(name) is not None) - topics:
            # An unchanged refusal is not a change, but users that came after the last response have not received it.
            self._tell(MetadataChange(self.version, refused, False))

    def _pace(self, now: float, name: str, changed: bool) -> None:
        """Set the earliest time of the next request for `name`, and queue the request if the topic has trouble.

        The time is `now` after a change that leaves no trouble, otherwise the end of a backoff.
        """
        known = self._topics[name]
        if changed and not known.troubled:
            known.backoff.reset()
            known.not_before = now
        else:
            known.not_before = now + known.backoff.next()
        troubled = name in self._wanted and known.troubled
        if troubled and known.error is not None:
            self._network.troubles.note(now, (self, name), broker_error(known.error.code, f"topic {name}", topic=name))
        else:  # a missing leader is reported by the machine that needs the partition
            self._network.troubles.over((self, name))
        if troubled:
            if known.backoff.attempts % ASKS_PER_BROKER == 0:  # not every time: a missing topic must not cause connections to all brokers
                self._avoid(now)
            self._ask_for(name, known.not_before)

    def _check_cluster(self, cluster_id: str | None) -> None:
        cluster_id = None if cluster_id is None else visible(cluster_id)
        if cluster_id is None or cluster_id == self.cluster_id:
            return
        if self.cluster_id is not None:
            log.warning(
                "%s: cluster id changed from %s to %s: are the bootstrap_servers of two different clusters?",
                self._config.client_id,
                self.cluster_id,
                cluster_id,
                cluster_id=cluster_id,
            )
        self.cluster_id = cluster_id

    def _apply_topic(self, now: float, sent_at: float, known: Topic, received: MetadataResponse.Topic, version: int) -> bool:
        before = known.visible()
        if received.error_code:
            self._apply_error(now, sent_at, received.name or "", known, received.error_code)
        elif known.is_replaced(now, received.topic_id):
            return False
        else:
            # Without ids, a topic that was missing may have been recreated. The new epochs begin at 0, and would count as outdated.
            if known.missing_since is not None and received.topic_id == NO_UUID:
                known.forget_epochs(range(len(known.epochs)))
            known.error = known.missing_since = None
            self._apply_partitions(now, known, received, version)
        known.settle()
        return known.visible() != before

    def _apply_error(self, now: float, sent_at: float, name: str, known: Topic, code: int) -> None:
        known.fail(code)
        if code in MISSING and known.vanish(now, sent_at):
            self._vanishing[name] = None

    def _apply_partitions(self, now: float, known: Topic, received: MetadataResponse.Topic, version: int) -> None:
        topic_id = None if received.topic_id == NO_UUID else received.topic_id
        if topic_id is not None and topic_id != known.topic_id:
            known.start_again(topic_id)
            self._names[topic_id] = received.name or ""
        partitions = [p for p in received.partitions if 0 <= p.partition_index < MOST_PARTITIONS]
        indexes = [p.partition_index for p in partitions]
        known.resize(1 + max(indexes, default=-1))
        epochs = [p.leader_epoch for p in partitions] if version >= EPOCHS_FROM else [-1] * len(partitions)
        known.compare(now, zip(indexes, epochs, strict=True))
        if any(broker.rack is not None for broker in self.brokers.values()):
            replicas = {p.partition_index: p.replica_nodes for p in partitions}
            known.replicas = tuple(replicas.get(partition, ()) for partition in range(len(known.leaders)))
        nodes = [p.leader_id if p.leader_id in self.brokers else None for p in partitions]
        for partition, node, epoch in zip(indexes, nodes, epochs, strict=True):
            known.lead(partition, node, epoch)
        if known.leaders and received.name in self._wanted:  # the topic exists: after a deletion, only a later `want` may create it again
            self._wanted[received.name] = dict.fromkeys(self._wanted[received.name], False)

    # -- brokers

    def _address(self, node: int) -> tuple[str, int] | None:
        broker = self.brokers.get(node)
        return None if broker is None else broker.address

    def _set_brokers(self, now: float, brokers: dict[int, Broker], controller: int | None) -> bool:
        before, self.brokers = self.brokers, brokers
        self.controller = controller if controller in brokers else None
        self._network.controller = self.controller
        if before == brokers:
            return False
        self._gone = frozenset(before.keys() - brokers.keys())
        self._place(now)
        self._announce(before)
        return True

    def _announce(self, before: Mapping[int, Broker]) -> None:
        for event in changes_of(before, self.brokers):
            self._events.emit(event)

    def _unseat(self) -> frozenset[str]:
        """Remove leaders that left the cluster, and request their topics again; return these topics.

        Otherwise the partitions would wait for a connection to a removed broker.
        """
        unseated = []
        for name in self._wanted if self._gone else ():
            known = self._topics[name]
            gone = [p for p, leader in enumerate(known.leaders) if leader is not None and leader.node in self._gone]
            if gone:
                known.dismiss(gone)
                self._ask_for(name, known.not_before)
                unseated.append(name)
        return frozenset(unseated)

    def _place(self, now: float) -> None:
        self._network.set_addresses(now, {broker.node: broker.address for broker in self.brokers.values()})

    def _changed(self, topics: frozenset[str], brokers: bool) -> None:
        self.version += 1
        self._tell(MetadataChange(self.version, topics, brokers))
        self._events.emit(MetadataChanged(self.version))

    def _tell(self, change: MetadataChange) -> None:
        for listener in self.on_change:
            listener(change)
