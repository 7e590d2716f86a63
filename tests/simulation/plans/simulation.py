"""The producer's schedules. Everything derives from the seed; a schedule that fails once fails every time.

A real `Producer`, with its client, its loop and its threads, runs against a model cluster under a virtual clock:

    Simulation(seed).run()          # raises Broken, which names the promise and the seed
    Simulation.replay(seed)         # the same, with its trace printed
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final

import attrs

from pykafka4 import Client
from pykafka4.core import Outcome, Owner, Reply, Request
from pykafka4.errors import BufferFull, DeliveryFailed, KafkaTimeoutError
from pykafka4.errors.codes import CODES
from pykafka4.options.config import ClientConfig, ProducerConfig
from pykafka4.producer import Producer
from pykafka4.records import ProducerRecord, TopicPartition, Written
from pykafka4.testing.storage.batch import Appended, parse_header
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.records.batch import batches as record_batches
from pykafka4.wire.records.batch import records_of
from pykafka4.wire.records.hot import Batch
from tests.inspection import inspect
from tests.simulation.judge.invariants import FINAL_CODES, Broken, Truth, Watch
from tests.simulation.judge.special import forbidden
from tests.simulation.plans.features import Counting, drawn, longest_linger
from tests.simulation.plans.producer_plan import FAULTS, ProducerPlan, draw
from tests.simulation.plans.schedule import Schedule
from tests.simulation.users.applications import Application, judge_time, timed
from tests.simulation.users.neighbour import Neighbour, Party
from tests.simulation.world.weather import VirtualTransport, Weather

__all__ = ["Report", "Simulation"]

QUIET: Final = 3.0  # what comes so long after the end is still looked at
SHORT: Final = 12.0  # what `close` may take beside its timeout
CLIENT_OPTIONS: Final = frozenset(attrs.fields_dict(ClientConfig))
REQUESTS_PER_SECOND: Final = {"Metadata": 25, "ApiVersions": 90, "InitProducerId": 25}


@attrs.frozen(kw_only=True)
class Report:
    """What a schedule came to."""

    seed: int
    plan: ProducerPlan
    accepted: int
    acked: int
    failed: int
    maybe: int
    seconds: float
    turns: int
    requests: Counter[str]
    coverage: Counter[tuple[str, str]]
    codes: dict[str, int]
    features: Counter[str]  # those of the plan, and how often the promise of each was looked at


def values_in(data: Any) -> list[bytes]:
    """The values in an encoded batch."""
    return [record.value or b"" for batch in record_batches(bytes(data)) for record in records_of(batch)]


class Failing(Exception):
    """What an application raises in its block."""


class Crash(RuntimeError):
    """An exception where the client expects none."""


@attrs.frozen
class Observed:
    """An owner of requests, and a function that sees the outcomes before it."""

    owner: Owner
    see: Callable[[Outcome], None]

    def pass_on(self, now: float, request: Request, outcome: Outcome) -> None:
        """See `core.Owner`."""
        self.see(outcome)
        self.owner.pass_on(now, request, outcome)


class Simulation(Schedule[ProducerPlan, Report]):
    """One schedule of a producer."""

    all_faults = FAULTS

    def __init__(self, seed: int, *, plan: ProducerPlan | None = None, trace: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, plan or draw(seed), trace)
        self.hook = Counting(undoes=self.plan.disguise == "hook")
        if self.plan.hooked:
            self.plan = attrs.evolve(self.plan, options={**self.plan.options, "hooks": self.hook})
        self.config = config = ProducerConfig.parse({"bootstrap_servers": self.servers, **self.plan.options})
        self.closing = False
        self._ready = self._sending = self._ended = False
        self._crash_at = 0.0
        self._closer_done = True
        if self.plan.sick:
            partition = self.cluster.topics["t"].partitions[0]
            self.sick = partition.tp, partition.leader
        self.refusals: tuple[type[Exception], ...] = (BufferFull,)  # of `send` while the producer is open
        if callable(config.partitioner):  # it waits for the topic's partitions
            self.refusals += (KafkaTimeoutError,)
        self.max_block = config.max_block_ms / 1000
        self.cluster.zombies = self.plan.zombies
        self.cluster.on_batch = self._saw_batch
        self._note_leaders(self.cluster.replication)
        self._note_throttling()
        self.sharp = "metadata_max_idle_ms" not in self.plan.options  # a topic that is learned again depends on everything
        self.weather = Weather(self.timeline, self.random, self.cluster, self.plan.climate, self.note)
        self.weather.users += self.plan.neighbours
        self.weather.on_failed = lambda node: self.disturb(0.0, node=node)
        self.watch = self._new_watch()
        self.truth = self.watch.truth
        early = Random(seed ^ 0xEA2)
        self.neighbours = [
            Neighbour(self, n + 1, self._new_watch(), early=early.random() < 0.5)
            for n in range(self.plan.neighbours if self.plan.ending == "close" else 0)
        ]
        if self.plan.refuses:
            self._refuse_some()
        self.watch.special.partitions.update(self.plan.topics)
        self.parties: list[Party] = [self, *self.neighbours]
        for one in self.neighbours:
            one.watch.share(self.watch)
        for party in self.parties:
            party.watch.others = [other.watch for other in self.parties if other is not party]

    def _new_watch(self) -> Watch:
        config, senders = self.config, self.plan.actors + self.plan.neighbours
        watch = Watch(
            Truth(self.cluster),
            self.disturbances,
            lambda: self.timeline.now,
            idempotent=self.plan.idempotent,
            partitions_late=self.plan.options.get("partitioner") == "late",
            acks=config.acks,
            buffer_memory=config.buffer_memory,
            delivery_timeout=config.delivery_timeout_ms / 1000,
            linger=longest_linger(self.plan.options),
            drain=senders * self.plan.records * 2 * self.plan.climate.delay[1],
        )
        watch.keys_ignored = config.partitioner_ignore_keys
        watch.once = config.retries == 0
        watch.most_attempts = config.max_failed_attempts
        return watch

    def _refuse_some(self) -> None:
        """Brokers name some records as bad, now and after a topic was created again."""
        for topic in self.cluster.topics.values():
            topic.settings["refuse"] = forbidden
            for copy in (copy for partition in topic.partitions for copy in partition.copies.values()):
                copy.log.refuse = forbidden

    def watch_purges(self, watch: Watch, sender: Any) -> None:
        """Look at each purge of a producer while it happens, on the loop."""
        original = sender.purge

        def purge(now: float, reason: Any, in_flight: bool) -> int:
            try:
                return watch.special.purge(original, now, reason, in_flight)
            except Broken as broken:
                self.world.fail(broken)
                return 0

        sender.purge = purge

    def _note_leaders(self, replication: Any) -> None:
        """With acks=1 records may be lost with the leader that had them."""
        lead = replication.lead

        def led(partition: Any, node: int) -> None:
            self.watch.led_anew.add(partition.tp)
            self.disturb(0.0, partition.tp)
            lead(partition, node)

        replication.lead = led

    def _note_throttling(self) -> None:
        """A throttled answer keeps all waiting that goes to its broker."""
        use_throttle = self.cluster.use_throttle

        def throttled(call: Any) -> float:
            seconds = use_throttle(call)
            if seconds:
                self.disturb(seconds, node=call.broker.node)
            return seconds

        self.cluster.use_throttle = throttled  # type: ignore[method-assign]

    # ---- how long things take

    def patience(self) -> tuple[float, float]:
        """Normal are some round trips; after a fault a request, an attempt to connect and the pauses between attempts have to end."""
        seconds = {name: value / 1000 for name, value in self.plan.options.items() if name.endswith("_ms")}
        linger = longest_linger(self.plan.options)
        trip = 2 * self.plan.climate.delay[1]
        pauses = seconds.get("reconnect_backoff_max_ms", 1.0) + 2 * seconds.get("retry_backoff_max_ms", 1.0)
        attempts = seconds.get("request_timeout_ms", 30.0) + seconds.get("socket_connection_setup_timeout_max_ms", 30.0)
        base = 1.0 + linger + 8 * trip
        return base, attempts + 1.2 * pauses + 8 * trip + 0.2

    def _leader(self, tp: TopicPartition) -> int:
        return -1  # `_note_leaders` reports each change

    def pause(self) -> float:
        """As `Schedule.pause`; spaced faults leave time to recover, and for work without any fault."""
        if self.plan.spaced:
            return (sum(self.patience()) + 1.0) * self.random.uniform(1.0, 1.5)
        return super().pause()

    # ---- the client

    def transport(self, max_frame: int, helper: Any, post: Any, *security: Any) -> VirtualTransport:
        """The sockets of the producer's client."""
        self._transport = VirtualTransport(self.world, self.weather, max_frame, self._look)
        return self._transport

    def _main(self) -> None:
        """The application's main thread."""
        client = None
        if self.neighbours:
            shared = {name: value for name, value in self.plan.options.items() if name in CLIENT_OPTIONS}
            own = {name: value for name, value in self.plan.options.items() if name not in CLIENT_OPTIONS}
            client = Client(bootstrap_servers=self.servers, **shared)
            self.producer = Producer(client=client, **own)
        else:
            self.producer = Producer(bootstrap_servers=self.servers, **self.plan.options)
        session = inspect(self.producer).session
        self.sender, self.acc, self.engine = session.machine, session.acc, session.runtime.engine
        self._observe(self.engine.network)
        self.watch_purges(self.watch, self.sender)
        if not self.sharp:
            self.sender.cluster.on_forgotten.append(self._forgot)
        if client is not None:
            for neighbour in self.neighbours:
                neighbour.start(client, own)
        self._ready = self._sending = True
        if self.plan.ending in ("with", "raising"):
            self._use_a_block()
        else:
            self._use()
            if self.plan.ending == "forgotten":
                self._forget()
        while not self._finished():
            self.world.park(0.05)
        for party in self.parties:
            self._conclude(party)
        if client is not None:
            with timed(self, "close of the client", SHORT):
                client.close()
        self._ended = True

    def _use(self) -> None:
        applications = [Application(self, number) for number in range(self.plan.actors)]
        threads = [self.world.spawn(app.run, f"application {app.number}") for app in applications]
        for thread in threads:
            thread.join()
        self._sending = False

    def _use_a_block(self) -> None:
        """A `with` block delivers, and raises what failed in it; one that fails itself lets its own error out soon."""
        session, raising = inspect(self.producer).session, self.plan.ending == "raising"
        problem, told, began = Failing("the application fails"), False, 0.0
        try:
            with self.producer:
                self._use()
                self.closing, self.watch.closed = True, raising
                began = self.timeline.now
                if raising:
                    raise problem
        except Failing:
            judge_time(self, "leaving the block", began, session.exit_seconds + SHORT)
        except DeliveryFailed:
            told = True
        except KafkaTimeoutError as error:
            raise Broken("progress", f"the end of the block raised {error!r}") from error
        unheard = [sent.value for sent in self.watch.sent if sent.unheard]
        if (unheard and not told and not raising) or (told and not self.acc.failed):
            raise Broken(
                "a block tells what failed", f"it raised {'something' if told else 'nothing'}; failed and not looked at: {unheard[:3]}"
            )

    def _forget(self) -> None:
        """The last handle of the producer is dropped: it delivers its records, and closes."""
        runtime = inspect(self.producer).runtime
        self.note("the application forgets the producer")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del self.producer
        while runtime.loop.alive:  # `_run` bounds it
            self.world.park(0.05)
        self.closing = True

    def _conclude(self, party: Party) -> None:
        """Everything has its outcome: it is true, and `close` finds nothing left."""
        watch = party.watch
        if self.plan.ending != "close" and not watch.crashed:
            watch.conclude()
        elif not party.closing:
            watch.conclude()
            party.closing = True
            for record in self._close(party, None):
                sent = watch.by_value[record.value or b""]
                if not sent.dropped or sent.called:
                    raise Broken("progress", f"close gives {record.value!r} back, which had its outcome")
        elif watch.crashed:
            self._close(party, None)

    def _close(self, party: Party, limit: float | None) -> list[ProducerRecord]:
        """Close a producer; what it gives back. None: there is nothing to wait for."""
        try:
            with timed(self, "close", (limit or 0.0) + SHORT):
                return party.producer.close(limit)
        except KafkaTimeoutError as error:
            raise Broken("progress", f"close raised {error!r}") from error

    def _forgot(self, topic: str) -> None:
        """The client dropped an idle topic; `metadata_max_idle_ms` is so short that it is soon needed again."""
        self.note(f"the client forgets {topic}")
        for party in self.parties:
            party.watch.forgot(topic)

    def _observe(self, network: Any) -> None:
        """See the produce requests on their way, and what came of them."""
        submit = network.submit

        def observed(now: float, request: Request) -> None:
            submit(now, self._watched(request) if isinstance(request.message, ProduceRequest) else request)

        network.submit = observed

    def _watched(self, request: Request) -> Request:
        batches: list[Batch] = [part.records for topic in request.message.topic_data for part in topic.partition_data]
        tps = [TopicPartition(batch.topic, batch.partition) for batch in batches]
        names = {topic.topic_id: topic.partition_data[0].records.topic for topic in request.message.topic_data}  # for answers by id
        written = [bytes(batch) for batch in batches]  # copied, as its memory may have another use when the answer comes
        party = self._sender_of(batches[0])
        watch, sender = party.watch, party.sender
        leaders = [(sender.cluster.topic_id(tp.topic), sender.cluster.leader(tp)) for tp in tps]
        terms = [(found, -1 if it is None else it.epoch) for found, it in leaders] if sender.config.enable_idempotence else None
        values = [value for data in written for value in values_in(data)] if self.plan.purges else []
        for tp, data in zip(tps, written, strict=True):
            if watch.is_elsewhere(tp, request.node):  # sent again before the leader that was replaced has answered
                watch.unsafe.update(values_in(data))
        try:
            watch.departed(tps, request.node, terms)
            watch.special.flying.update(values)
        except Broken as broken:
            self.world.fail(broken)

        def returned(outcome: Outcome) -> None:
            watch.returned(tps, request.node)
            watch.special.flying.subtract(values)
            self._note_unsafe(tps, names, written, outcome)

        assert request.owner is not None
        request.owner = Observed(request.owner, returned)
        return request

    def _sender_of(self, batch: Batch) -> Party:
        """Whose batch it is."""
        tp = TopicPartition(batch.topic, batch.partition)
        for neighbour in self.neighbours:
            if neighbour.started and (queue := neighbour.sender.queues.get(tp)) and any(other is batch for other in queue.batches):
                return neighbour
        return self

    def _note_unsafe(self, tps: list[TopicPartition], names: dict[Any, str], written: list[bytes], outcome: Outcome) -> None:
        """The requests after which a record may be in the log without an acknowledgement."""
        answers: dict[tuple[str, int], int] = {}
        if isinstance(outcome, Reply) and outcome.message is not None:
            responses = [(t.name or names[t.topic_id], p) for t in outcome.message.responses for p in t.partition_responses]
            answers = {(name, p.index): p.error_code for name, p in responses}
        for tp, data in zip(tps, written, strict=True):
            code = answers.get(tp)
            if code:
                self.watch.errors.update(values_in(data))
            known = CODES.get(code) if code is not None else None
            if known is None or known.written is Written.MAYBE or known.name in MAYBE_WRITTEN:
                self.watch.unsafe.update(values_in(data))

    # ---- running

    def _look(self, transport: VirtualTransport) -> None:
        if self._ready:
            try:
                if self._crash_at and self.timeline.now >= self._crash_at and not self.watch.crashed:
                    self._crash()
                if not self.watch.crashed:
                    self.watch.look(self.sender, self.acc)
                for neighbour in self.neighbours:
                    neighbour.look()
            except Broken as broken:
                self.world.fail(broken)

    def _run(self) -> None:
        start = self.timeline.now
        self.world.spawn(self._main, "main")
        self._next_fault(start + self.plan.trouble)
        self.timeline.at(start + self.plan.trouble, self._heal)
        if self.plan.give_up:
            self._closer_done = False
            self.timeline.after(self.random.uniform(0.2, self.plan.trouble), lambda: self.world.spawn(self._give_up, "closer"))
        if self.plan.crash:
            self._crash_at = self.timeline.now + self.random.uniform(0.05, self.plan.trouble)
        limit = start + self.plan.trouble + self.most_seconds()
        while not self._ended and self.timeline.next_at < max(limit, self.watch.misled_until + self.most_seconds()):
            self.world.step()
        if not self._ended:
            left = [sent for party in self.parties for sent in party.watch.open_records()]
            senders = [self.sender, *(one.sender for one in self.neighbours if one.started)] if self._ready else []
            state = [(str(q.tp), len(q.batches), q.in_flight) for sender in senders for q in sender.queues.values() if q.batches]
            raise Broken("progress", f"{len(left)} records have no outcome; queues (batches, in flight): {state}")
        quiet = self.timeline.now + QUIET
        while self.timeline.next_at < quiet:
            self.world.step()
        for party in self.parties:
            party.watch.conclude()
        self._check_hook()
        self._check_requests(start)

    def most_seconds(self) -> float:
        """Virtual seconds after healing in which everything must have its outcome: recovery, the linger, and what is left to be sent."""
        _, aftermath = self.patience()
        linger = longest_linger(self.plan.options)
        return aftermath + 20.0 + linger + self.plan.records * (self.plan.actors + self.plan.neighbours) * self.plan.climate.delay[1]

    def _finished(self) -> bool:
        done = self.healed and not self._sending and not self.watch.open_records() and self._closer_done
        return done and all(neighbour.finished for neighbour in self.neighbours)

    def _give_up(self) -> None:
        """The application closes the producer during the faults."""
        while not self._ready:
            self.world.park(0.05)
        if not self.closing:
            self.close_early(self, "the producer")
        self._closer_done = True

    def close_early(self, party: Party, name: str) -> None:
        """Close a producer that has work: all of it has its outcome then, and what failed is given back."""
        limit = self.random.choice((0.0, 0.0, 0.5))
        self.note(f"the application closes {name} within {limit} s")
        party.closing = party.watch.closed = True
        before = [sent for sent in party.watch.sent if sent.delivery is not None and not sent.delivery.done()]
        undelivered = {record.value for record in self._close(party, limit)}
        for sent in before:
            if sent.delivery is None or not sent.delivery.done():
                raise Broken("progress", f"close returned and {sent.value[:40]!r} has no outcome")
            failed = sent.delivery.exception(0) is not None
            if failed != (sent.value in undelivered):
                raise Broken("failed records come back", f"{sent.value[:40]!r}: failed: {failed}, given back by close: {not failed}")

    def _crash(self) -> None:
        """The loop raises, or the network, which all machines share, or the producer's own machine."""
        self.note(f"the {self.plan.crash} crashes")
        for party in [self] if self.plan.crash == "sender" else self.parties:
            party.closing = party.watch.closed = party.watch.crashed = True
        if self.plan.crash == "loop":
            raise Crash("injected")

        def poll(now: float) -> Any:
            raise Crash("injected")

        machine: Any = self.sender if self.plan.crash == "sender" else self.engine.network
        machine.poll = poll

    # ---- faults

    def met(self, error: str, topic: str | None, partition: int | None) -> None:
        """A broker gave an error that was ordered."""
        if error in FINAL_CODES and topic is not None and partition is not None:
            self.watch.refused[error].add(TopicPartition(topic, partition))

    def grown(self, tp: TopicPartition) -> None:
        """Metadata will tell."""

    def weathers(self) -> list[Weather]:
        """There is one process."""
        return [self.weather]

    def states(self) -> set[str]:
        """What the client is in the middle of: the other side of the coverage table."""
        if not self._ready:
            return {"no connection"}
        found = {f"identity {self.sender.identity.state.value}"}
        for queue in self.sender.queues.values():
            if queue.stale and self.plan.idempotent:
                found.add("epoch ends")
            if queue.in_flight:
                found.add("batch in flight" if queue.in_flight == 1 else "batches pipelined")
            if any(b.written and not b.in_flight for b in queue.batches):
                found.add("batch maybe written, waiting")
            if queue.due is not None or any(not b.in_flight and not b.written for b in queue.batches):
                found.add("batch queued")
        if self.acc.parked_records:
            found.add("records parked")
        if self.engine.recovery.offline:
            found.add("partition offline")
        links = len(self.weather.paths)
        found.add("no connection" if not links else "connected" if self.weather.open_paths() else "connecting")
        return found

    def _saw_batch(self, where: str, data: Any, result: Appended) -> None:
        if result.record_errors:
            topic, _, partition = where.rpartition("-")
            tp = TopicPartition(topic, int(partition))
            self.disturb(0.0, tp)
            self.watch.special.refused(tp, values_in(data), [error.index for error in result.record_errors])
        elif result.error in FINAL_CODES:
            topic, _, partition = where.rpartition("-")
            self.watch.refused[result.error].add(TopicPartition(topic, int(partition)))
        if result.unchecked:
            topic, _, partition = where.rpartition("-")
            self.watch.unchecked.add(TopicPartition(topic, int(partition)))
        if (result.error == "DUPLICATE_SEQUENCE_NUMBER" or result.duplicate) and result.base_offset < 0:
            self.watch.unnumbered.update(values_in(data))
        if self._trace is not None and (header := parse_header(bytes(data))) is not None:
            first = header.base_sequence
            identity = f"{header.producer_id}/{header.producer_epoch} {first}…{header.last_sequence}" if first >= 0 else "no identity"
            again = " again" if result.duplicate else ""
            self.note(f"    {where} ({identity}): {result.error} {result.base_offset}{again}")

    def _check_hook(self) -> None:
        """A hook was told of each record that was accepted, and of its end."""
        if not self.plan.hooked or any(party.watch.crashed for party in self.parties):
            return
        accepted, shed = (sum(getattr(party.watch, name) for party in self.parties) for name in ("accepted", "shed"))
        if self.hook.enqueued - shed != accepted:
            raise Broken("hooks are told", f"{self.hook.enqueued} records were announced, {accepted} accepted and {shed} dropped")
        if self.hook.ended != accepted:
            raise Broken("hooks are told", f"the end of {self.hook.ended} records was told, {accepted} were accepted")

    # ---- heat

    def _check_requests(self, start: float) -> None:
        seconds = self.timeline.now - start
        for name, limit in REQUESTS_PER_SECOND.items():
            if self.cluster.requests[name] > 20 + limit * seconds:
                raise Broken("no hot loop", f"{self.cluster.requests[name]} {name} requests in {seconds:.3f} s")

    def _report(self) -> Report:
        return Report(
            seed=self.plan.seed,
            plan=self.plan,
            accepted=self.watch.accepted,
            acked=self.acc.acked,
            failed=self.acc.failed,
            maybe=self.watch.maybe,
            seconds=self.seconds,
            turns=self._transport.turns,
            requests=self.cluster.requests,
            coverage=self.coverage,
            codes=dict(self.watch.codes),
            features=self._features(),
        )

    def _features(self) -> Counter[str]:
        watch, hooked = self.watch, self.plan.hooked
        special = {"announced to a hook": self.hook.enqueued * hooked, "ended before a hook": self.hook.ended * hooked}
        special["acknowledged at most once"] = self.acc.acked * watch.once
        special["acknowledged with a late partition"] = self.acc.acked * watch.partitions_late
        return watch.special.counts + Counter(special) + Counter(drawn(self.plan))


MAYBE_WRITTEN: Final = {"NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR", "REPLICA_NOT_AVAILABLE"}
