"""Plans. Rule: everything a schedule does follows from its seed, and the plan can be read before it runs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from integration.faults.catalog import PRODUCERS as LASTS
from pykafka4.testing.faults.controls import Fault, When
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest
from tests.simulation.plans.features import with_features
from tests.simulation.world import trouble
from tests.simulation.world.weather import Climate

if TYPE_CHECKING:
    from tests.simulation.plans.simulation import Simulation

__all__ = ["DOUBTFUL", "FAULTS", "LATER", "PIPELINED", "QUICK", "ProducerPlan", "draw", "draw_plain"]


@attrs.frozen(kw_only=True)
class ProducerPlan:
    """One schedule: who sends how much, for how long things go wrong, and what goes wrong how often."""

    seed: int
    options: dict[str, Any]
    release: str
    topics: dict[str, int]  # partitions
    unknown_topics: tuple[str, ...]  # created by the first send to them
    actors: int
    records: int  # per actor
    trouble: float  # seconds until everything heals
    fault_interval: float  # mean seconds between faults
    faults: tuple[str, ...]
    climate: Climate
    zombies: float
    give_up: bool  # the producer is closed in the middle of the trouble
    crash: str  # what raises in the middle of the trouble: "", "loop", "network" or "sender"
    sick: bool  # everything goes wrong at one broker or partition, so that all others have to go on
    preempt: float  # how likely a thread that asks for a lock lets another go first
    ending: str = "close"  # how the application is done with the producer: "close", "with", "raising" (out of the block) or "forgotten"
    neighbours: int = 0  # other producers on the same client, with one application each
    spaced: bool = False  # few faults, with calm times between them that are longer than recovering may take
    many: bool = False  # some records are sent by `send_many`
    disguise: str = ""  # what undoes the disguise of values: "", "serializer" or "hook"
    hooked: bool = False  # a hook counts records
    purges: bool = False  # applications purge now and then
    refuses: bool = False  # brokers name some records as bad
    called: bool = False  # callbacks of many records at once, and second ones

    @property
    def idempotent(self) -> bool:
        """Whether duplicates are forbidden."""
        return bool(self.options.get("enable_idempotence", self.options.get("acks", "all") == "all"))


QUICK: Final = {  # what recovers within few seconds
    "request_timeout_ms": 300,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_max_ms": 200,
    "socket_connection_setup_timeout_ms": 500,
    "socket_connection_setup_timeout_max_ms": 500,
}


DOUBTFUL: Final[dict[str, Any]] = {  # sequences are refused while several batches of a partition may be in the log
    "faults": ("network is dark", "all connections are cut", "sequence error"),
    "fault_interval": 0.05,
    "topics": {"t": 1},
    "unknown_topics": (),
    "actors": 3,
    "records": 80,
    "climate": Climate(delay=(0.001, 0.02), leak=0.9),
    "sick": False,
}
PIPELINED: Final[dict[str, Any]] = {
    "acks": "all",
    "enable_idempotence": True,
    "linger_ms": 0,
    "batch_size": 1024,
    "max_in_flight_requests_per_connection": 5,
    "request_timeout_ms": 300,
    "delivery_timeout_ms": 120_000,
}


def draw(seed: int) -> ProducerPlan:
    """The plan of `seed`: two of five have features, see `features`."""
    return with_features(draw_plain(seed))


def draw_plain(seed: int) -> ProducerPlan:
    """The plan of `seed`: every third has spaced faults, one of fifteen leaves batches in doubt.

    One of twenty lingers for long, where its delivery timeout allows that.
    """
    plan = _dense(seed)
    if not plan.give_up and not plan.crash:
        plan = attrs.evolve(plan, ending=Random(seed ^ 0xE4D).choice((*["close"] * 7, "with", "raising", "forgotten")))
    r = Random(seed ^ 0x2E16)
    if plan.ending == "close" and (r.random() < 0.15 or plan.crash == "sender"):
        plan = attrs.evolve(plan, neighbours=r.choice((1, 2)), actors=1)
    if seed % 15 == 8:
        return attrs.evolve(plan, options={**plan.options, **PIPELINED}, **DOUBTFUL)
    plan = _spaced(plan, Random(seed ^ 0x5CED)) if seed % 3 == 1 else plan
    linger_ms = Random(seed ^ 0x11A6).choice((1_000, 5_000, 20_000))
    if seed % 20 == 13 and linger_ms < plan.options["delivery_timeout_ms"]:
        plan = attrs.evolve(plan, options={**plan.options, "linger_ms": linger_ms})
    return plan


def _spaced(plan: ProducerPlan, r: Random) -> ProducerPlan:
    """`plan` with time to recover after each fault, which the options keep short."""
    options = {**QUICK, "request_timeout_ms": r.choice((300, 1_000)), "delivery_timeout_ms": r.choice((3_000, 10_000, 30_000))}
    climate = attrs.evolve(plan.climate, delay=r.choice(((0.0002, 0.002), (0.001, 0.02))), refused=0.0, unanswered=0.0)
    options = {**plan.options, **options}
    return attrs.evolve(plan, options=options, climate=climate, records=r.choice((40, 80)), trouble=r.choice((10.0, 20.0)), spaced=True)


def _dense(seed: int) -> ProducerPlan:
    r = Random(seed)
    first = [name for name in FAULTS if name not in (*LATER, "partition is gone", "broker is gone")]
    names = [name for name in first if r.random() < 0.5] or [r.choice(sorted(first))]
    if seed % 7 == 3:
        names += LATER
    sick = seed % 11 == 5
    if sick:
        names = r.sample(SICKNESS, 3)
    return ProducerPlan(
        seed=seed,
        options={**_options(r), **({"metadata_max_idle_ms": 200} if seed % 7 == 4 else {})},
        release=r.choice(("4.4", "4.4", "4.0", "3.9", "2.8", "2.1", "0.11")),
        topics={"t": r.choice((1, 2, 4)), "u": r.choice((1, 3))},
        unknown_topics=("new",) if r.random() < 0.2 else (),
        actors=r.choice((1, 2, 3)),
        records=r.choice((20, 40, 80)),
        trouble=r.choice((2.0, 5.0, 10.0)),
        fault_interval=r.choice((0.05, 0.2, 0.6)),
        faults=tuple(sorted(names)),
        climate=Climate(
            delay=r.choice(((0.0002, 0.002), (0.001, 0.02), (0.0, 0.2))),
            refused=0.0 if sick else r.choice((0.0, 0.0, 0.2)),
            unanswered=0.0 if sick else r.choice((0.0, 0.0, 0.05)),
            leak=r.choice((0.0, 0.5, 0.9)),
        ),
        zombies=r.choice((0.0, 0.5)),
        give_up=r.random() < 0.1,
        sick=sick,
        crash=r.choice(("loop", "network", "sender")) if r.random() < 0.06 else "",
        preempt=r.choice((0.0, 0.02, 0.2)),
    )


def _options(r: Random) -> dict[str, Any]:
    idempotent = r.random() < 0.8
    short = r.random() < 0.3
    return {
        "enable_idempotence": idempotent,
        "acks": "all" if idempotent else r.choice(("all", "1", "1", "0")),
        "linger_ms": r.choice((0, 5, 50)),
        "batch_size": r.choice((1024, 4096)),
        "buffer_memory": r.choice((64 * 1024, 256 * 1024)),
        "max_partition_bytes": r.choice((8 * 1024, 32 * 1024)),
        "max_request_size": r.choice((4096, 64 * 1024)),
        "max_in_flight_requests_per_connection": r.choice((1, 2, 5)),
        "compression_type": r.choice(("none", "none", "gzip", "lz4")),
        "delivery_timeout_ms": r.choice((500, 3_000)) if short else r.choice((30_000, 120_000)),
        "request_timeout_ms": r.choice((500, 2_000)),
        "retry_backoff_ms": r.choice((10, 100)),
        "reconnect_backoff_ms": r.choice((10, 50)),
        "unknown_topic_timeout_ms": 60_000,
        "metadata_max_age_ms": r.choice((500, 300_000)),
        "connections_max_idle_ms": r.choice((1_000, 540_000)),
        "socket_connection_setup_timeout_ms": 1_000,
        "socket_connection_setup_timeout_max_ms": 2_000,
        "max_block_ms": r.choice((50, 1_000, 20_000)),
    }


# ---- what goes wrong: each fault is a function of the simulation; it returns what it hit, for the coverage table

BY_ID: Final = 13  # Produce by topic name: what is under way lands in the new topic, which takes any sequence as the first
RESENT: Final = (
    "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NETWORK_EXCEPTION",
    "KAFKA_STORAGE_ERROR",
    "CORRUPT_MESSAGE",
    "NOT_ENOUGH_REPLICAS",
    "FENCED_LEADER_EPOCH",
)
AFTER: Final = (  # what a broker can answer although it has appended the batch
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "UNKNOWN_SERVER_ERROR",
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "KAFKA_STORAGE_ERROR",
    "REPLICA_NOT_AVAILABLE",
)


def _fault_of(fault: Fault, name: str) -> Callable[[Simulation], None]:
    def inject(sim: Simulation) -> None:
        seconds = sim.random.uniform(*LASTS[name])
        sim.note(f"the next Produce: {fault.value}")
        sim.cluster.inject(ProduceRequest, fault, seconds=seconds, times=sim.random.choice((1, 1, 3)))

    return inject


def _error_before(sim: Simulation) -> None:
    topic, partition = sim.some_partition()
    error = sim.random.choice(RESENT)
    sim.note(f"{topic}-{partition} answers {error}")
    sim.cluster.push_error(ProduceRequest, error, topic=topic, partition=partition, times=sim.random.choice((1, 1, 4)))


def _error_after(sim: Simulation) -> None:
    topic, partition = sim.some_partition()
    error = sim.random.choice(AFTER)
    sim.note(f"{topic}-{partition} appends and answers {error}")
    sim.cluster.push_error(ProduceRequest, error, topic=topic, partition=partition, when=When.AFTER)


def _error_fatal(sim: Simulation) -> None:
    topic, partition = sim.some_partition()
    error = sim.random.choice(
        ("INVALID_RECORD", "TOPIC_AUTHORIZATION_FAILED", "POLICY_VIOLATION", "MESSAGE_TOO_LARGE", "INVALID_TIMESTAMP")
    )
    sim.note(f"{topic}-{partition} refuses with {error}")
    sim.cluster.push_error(ProduceRequest, error, topic=topic, partition=partition)


def _error_sequence(sim: Simulation) -> None:
    topic, partition = sim.some_partition()
    error = sim.random.choice(("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"))
    sim.note(f"{topic}-{partition} answers {error}")
    sim.cluster.push_error(ProduceRequest, error, topic=topic, partition=partition)


def _error_metadata(sim: Simulation) -> None:
    sim.note("the next Metadata goes wrong")
    if sim.random.random() < 0.5:
        sim.cluster.inject(MetadataRequest, sim.random.choice((Fault.DROP_BEFORE, Fault.SWALLOW, Fault.DELAY)), seconds=0.7)
    else:
        sim.cluster.push_error(MetadataRequest, sim.random.choice(("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION")))


def _error_identity(sim: Simulation) -> None:
    sim.note("the next InitProducerId goes wrong")
    if sim.random.random() < 0.5:
        sim.cluster.inject(InitProducerIdRequest, sim.random.choice((Fault.DROP_AFTER, Fault.SWALLOW)))
    else:
        sim.cluster.push_error(InitProducerIdRequest, sim.random.choice(("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")))


def _damage(api: type[InitProducerIdRequest | MetadataRequest]) -> Callable[[Simulation], None]:
    def inject(sim: Simulation) -> None:
        times = sim.random.choice((1, 1, 5))
        sim.note(f"damaged answers to the next {api.__name__}: {times}")
        sim.cluster.inject(api, Fault.GARBAGE, times=times)

    return inject


def _unclean(sim: Simulation) -> None:
    """A replica that lacks the last batch leads: acknowledged records may be lost, and the producer state of the brokers with them."""
    tp = sim.some_partition()
    sim.note(f"{tp}: unclean election")
    sim.disturb(0.0, tp)
    sim.watch.truncated.add(tp)
    sim.watch.forgetful.add(tp.topic)
    sim.watch.unordered.add(tp.topic)
    sim.cluster.unclean_election(*tp)


def _shrink(sim: Simulation) -> None:
    tp, seconds = sim.some_partition(), sim.random.uniform(*LASTS["in-sync replicas shrink"])
    sim.note(f"{tp}: one replica is in sync")
    sim.disturb(seconds, tp, node=sim.cluster.topics[tp.topic].partitions[tp.partition].leader)  # it may answer nothing meanwhile
    sim.cluster.shrink_isr(*tp, seconds)


def _slow_follower(sim: Simulation) -> None:
    node, seconds = sim.some_node(), sim.random.uniform(*LASTS["follower is slow"])
    sim.note(f"broker {node} copies nothing")
    sim.disturb(seconds, misleads=sim.plan.options["acks"] != "all")  # with fewer acks no request waits for it
    sim.cluster.pause_replication(node, seconds)


def _throttle(sim: Simulation) -> None:
    sim.note("the next Produce is throttled")
    sim.cluster.throttle(ProduceRequest, sim.random.uniform(*LASTS["throttled"]))


def _recreate_topic(sim: Simulation) -> None:
    topic, _ = sim.some_partition()
    sim.note(f"{topic} is deleted and created again")
    sim.disturb(0.0, *(p.tp for p in sim.cluster.topics[topic].partitions))
    sim.cluster.recreate_topic(topic)
    if sim.cluster.versions[ProduceRequest.api_key][1] < BY_ID:
        sim.watch.unordered.add(topic)


def _forget_producers(sim: Simulation) -> None:
    sim.note("producer state is lost")
    sim.disturb(0.0)
    sim.cluster.forget_producers()
    sim.watch.forgetful.update(sim.cluster.topics)  # no broker can recognise a duplicate batch any more
    sim.watch.unordered.update(sim.cluster.topics)


FAULTS: Final[dict[str, Callable[[Simulation], None]]] = {
    "move leader": trouble.move_leader,
    "no leader": trouble.orphan(LASTS["no leader"]),
    "broker stops": trouble.stop_broker(LASTS["broker stops"], failover=1.0),
    "broker freezes": trouble.freeze_broker(LASTS["broker freezes"]),
    "broker is slow": trouble.slow_broker(LASTS["broker is slow"], each=0.5),
    "network is dark": trouble.dark_node(LASTS["network is dark"]),
    "connection is cut": trouble.cut_connection,
    "all connections are cut": trouble.cut_all,
    "metadata is stale": trouble.stale_metadata(LASTS["metadata is stale"]),
    "topic is hidden": trouble.hide_topic(LASTS["topic is hidden"]),
    "lost before append": _fault_of(Fault.DROP_BEFORE, "lost before append"),
    "lost after append": _fault_of(Fault.DROP_AFTER, "lost after append"),
    "lost midway in the answer": _fault_of(Fault.DROP_MIDWAY, "lost midway in the answer"),
    "answer swallowed": _fault_of(Fault.SWALLOW, "answer swallowed"),
    "request delayed": _fault_of(Fault.DELAY, "request delayed"),
    "answer delayed": _fault_of(Fault.DELAY_REPLY, "answer delayed"),
    "answer damaged": _fault_of(Fault.GARBAGE, "answer damaged"),
    "error before append": _error_before,
    "error after append": _error_after,
    "refusal": _error_fatal,
    "sequence error": _error_sequence,
    "metadata error": _error_metadata,
    "identity error": _error_identity,
    "throttled": _throttle,
    "topic recreated": _recreate_topic,
    "more partitions": trouble.more_partitions(8),
    "producer state lost": _forget_producers,
    "leadership lost after append": trouble.lose_leadership,
    "unclean election": _unclean,
    "in-sync replicas shrink": _shrink,
    "follower is slow": _slow_follower,
    "identity damaged": _damage(InitProducerIdRequest),
    "metadata damaged": _damage(MetadataRequest),
    "broker is deaf": trouble.deafen_broker(LASTS["broker is deaf"]),
    "partition is gone": trouble.orphan(LASTS["partition is gone"]),
    "broker is gone": trouble.stop_broker(LASTS["broker is gone"], failover=15.0),
}
# Only some seeds have these: they keep much else from happening.
LATER: Final = ("identity damaged", "metadata damaged", "broker is deaf")
SICKNESS: Final = (
    "partition is gone",
    "broker is gone",
    "broker freezes",
    "broker is slow",
    "network is dark",
    "error before append",
    "error after append",
    "refusal",
    "sequence error",
)
