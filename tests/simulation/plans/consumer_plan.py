"""Plans of consumers' schedules. Rule: as in `producer_plan`: everything follows from the seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from integration.faults.catalog import CONSUMERS as LASTS
from pykafka4.testing.faults.controls import Fault
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, MetadataRequest
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.simulation.judge.handed import GROUP_ITSELF
from tests.simulation.plans.consumer_features import MODERN, TOPIC_FAULTS, with_consumer_features
from tests.simulation.world import trouble
from tests.simulation.world.crashes import CRASHES
from tests.simulation.world.weather import Climate

if TYPE_CHECKING:
    from tests.simulation.plans.consumers import ConsumerSimulation
    from tests.simulation.users.members import Member

__all__ = ["CONSUMER_FAULTS", "COOPERATIVE", "EAGER", "GROUP", "RECOVERING", "ConsumerPlan", "draw_consumers", "draw_plain_consumers"]

GROUP: Final = "g"
EAGER: Final = ("range", "cooperative-sticky")  # the default
COOPERATIVE: Final = ("cooperative-sticky",)
# All members alike, or one of the two steps of an upgrade: first the new assignor is added, then the old one removed.
STRATEGIES: Final = ((EAGER,), (EAGER, ("range",)), (COOPERATIVE,), (COOPERATIVE,), (COOPERATIVE, ("cooperative-sticky", "range")))
LONGEST_JOIN_S: Final = 10.0  # seconds that a member may wait for an answer to JoinGroup that never comes


@attrs.frozen(kw_only=True)
class ConsumerPlan:
    """One schedule of consumers."""

    seed: int
    options: dict[str, Any]
    release: str
    topics: dict[str, int]
    members: int
    records: int  # per partition
    trouble: float
    fault_interval: float
    faults: tuple[str, ...]
    climate: Climate
    restarts: float  # how likely a member that ends comes again
    static: bool  # members have a group_instance_id
    protocol: str = "classic"  # of the members; "both": of some this, of others that
    iterate: float  # how likely a member uses a `for` loop
    calls: float  # how likely a member does something else between two polls
    preempt: float  # how likely a thread that asks for a lock lets another go first
    replication: float = 0.0  # seconds that followers take to copy, and so the high watermark to follow the end of the log
    crash: str = ""  # what of one member's client raises in the middle of the trouble, see `crashes`
    companion: bool = False  # the first member's client has another consumer, which reads without a group
    aim: str = ""  # faults come while a member is in this state, not at any time
    sick: bool = False  # everything goes wrong at one broker or partition, so that all others have to go on
    fetch_sessions: int = 1000  # that a broker has room for
    strategies: tuple[tuple[str, ...], ...] = (EAGER,)  # the assignors of the members, in turn
    features: tuple[str, ...] = ()  # see `consumer_features`

    def __attrs_post_init__(self) -> None:
        if self.protocol != "classic" and self.release not in MODERN:
            raise ValueError(
                f"brokers of release {self.release} have no consumer protocol: a plan that sets the release also sets the protocol"
            )


def draw_consumers(seed: int) -> ConsumerPlan:
    """The plan of `seed`: two of three have features, see `consumer_features`."""
    return with_consumer_features(draw_plain_consumers(seed))


def draw_plain_consumers(seed: int) -> ConsumerPlan:
    """The same without features."""
    r = Random(seed)
    first = [name for name in PLAIN if name not in (*LATER, "partition is gone")]
    names = [name for name in first if r.random() < 0.4] or [r.choice(sorted(first))]
    if seed % 7 == 3:
        names += LATER
    options = _options(r)
    release = r.choice(("4.4", "4.4", "4.0", "3.9", "2.8", "2.1", "0.11"))
    static = r.random() < 0.2 and release not in ("2.1", "0.11")
    plan = ConsumerPlan(
        seed=seed,
        options=options,
        release=release,
        topics={"t": r.choice((1, 2, 4)), **({"u": r.choice((1, 3))} if r.random() < 0.5 else {})},
        members=r.choice((1, 1, 2, 3)),
        records=r.choice((20, 60, 150)),
        trouble=r.choice((3.0, 8.0, 20.0)),
        fault_interval=r.choice((0.2, 0.6, 2.0)),
        faults=tuple(sorted(names)) or ("move leader",),
        climate=Climate(
            delay=r.choice(((0.0002, 0.002), (0.001, 0.02), (0.0, 0.1))),
            refused=r.choice((0.0, 0.0, 0.2)),
            unanswered=r.choice((0.0, 0.0, 0.05)),
            leak=r.choice((0.0, 0.9)),
        ),
        restarts=r.choice((0.0, 1.0)),
        static=static,
        iterate=r.choice((0.0, 0.0, 0.5)),
        calls=r.choice((0.0, 0.02, 0.2)),
        preempt=r.choice((0.0, 0.02, 0.2)),
    )
    return _with_protocol(_without_growth(_of_a_kind(plan, Random(seed ^ 0xC0DE))), Random(seed ^ 0x848))


def _with_protocol(plan: ConsumerPlan, r: Random) -> ConsumerPlan:
    """Where brokers have it, half of the groups use the consumer protocol (KIP-848)."""
    if plan.release not in MODERN or r.random() < 0.5:
        return plan
    aim = "revoking" if plan.aim == "syncing" else plan.aim
    return attrs.evolve(plan, protocol="consumer", aim=aim)


def _without_growth(plan: ConsumerPlan) -> ConsumerPlan:
    """Before Kafka 3.2 a static leader that rejoins does not learn that it leads (KAFKA-13435).

    So partitions that were added meanwhile, or those of a topic that was hidden, stay unassigned until the next rebalance. It is the same
    with Java's consumer.
    """
    if not plan.static or plan.release != "2.8":
        return plan
    faults = [name for name in plan.faults if name not in ("more partitions", "topic is hidden")]
    return attrs.evolve(plan, faults=tuple(faults) or ("connection is cut",))


def _of_a_kind(plan: ConsumerPlan, r: Random) -> ConsumerPlan:
    """`plan` with what only some schedules have: few faults with calm between them, everything at one place, a crash."""
    kind, options = r.choice(("", "", "aimed", "calm", "calm", "sick", "crash")), dict(plan.options)
    if r.random() < 0.2:
        options["auto_offset_reset"] = "none"
    if Random(plan.seed ^ 0x4AC5).random() < 0.25:  # followers serve, and each of them fails in its turn
        options["client_rack"] = "rack-1"
    changes: dict[str, Any] = {"options": options, "replication": r.choice((0.0, 0.0, 0.02, 0.3)), "companion": r.random() < 0.1}
    changes["strategies"] = Random(plan.seed ^ 0xC00B).choice(STRATEGIES)
    changes["fetch_sessions"] = Random(plan.seed ^ 0x5E55).choice((0, 1, 1000, 1000, 1000))
    if kind in ("calm", "sick"):
        options.update(fetch_max_wait_ms=500, heartbeat_interval_ms=1_000)
        changes["climate"] = attrs.evolve(plan.climate, refused=0.0, unanswered=0.0)
    if kind == "calm":
        changes.update(trouble=45.0, fault_interval=20.0)
    elif kind == "sick":
        changes.update(trouble=20.0, fault_interval=2.0, faults=tuple(sorted(r.sample(SICKNESS, 3))), sick=True)
    elif kind == "aimed":
        # Members have to come and go for that, and clients have to lose their coordinator.
        names = r.sample(sorted(PLAIN), 6)
        moving = ("coordinator moves", "member closes", "member joins")
        changes.update(aim=r.choice(AIMS), faults=tuple(sorted({*names, *moving})), restarts=1.0, fault_interval=0.1, trouble=8.0)
    elif kind == "crash":
        changes.update(crash=r.choice(sorted(CRASHES)), companion=r.random() < 0.5)
    return attrs.evolve(plan, **changes)


RECOVERING: Final[dict[str, Any]] = {  # what recovers within seconds
    "request_timeout_ms": 2_000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_ms": 20,
    "metadata_max_age_ms": 3_000,
    "socket_connection_setup_timeout_ms": 1_000,
    "socket_connection_setup_timeout_max_ms": 2_000,
}


def _options(r: Random) -> dict[str, Any]:
    return {
        "group_id": GROUP,
        "auto_offset_reset": r.choice(("earliest", "earliest", "earliest", "latest")),
        "enable_auto_commit": r.random() < 0.6,
        "auto_commit_interval_ms": r.choice((100, 1_000)),
        "session_timeout_ms": r.choice((3_000, 10_000)),
        "heartbeat_interval_ms": r.choice((200, 1_000)),
        "max_poll_interval_ms": r.choice((4_000, 300_000)),
        "fetch_max_wait_ms": r.choice((50, 500)),
        "max_partition_fetch_bytes": r.choice((300, 2_000, 1_000_000)),
        "fetch_max_bytes": r.choice((1_000, 1_000_000)),
        "prefetch_bytes": r.choice((1_000, 1_000_000)),
        "max_poll_records": r.choice((1, 7, 500)),
        **RECOVERING,
    }


# ---- what goes wrong


def _fetch_fault(sim: ConsumerSimulation) -> None:
    fault = sim.random.choice((Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.DROP_MIDWAY, Fault.SWALLOW, Fault.DELAY_REPLY))
    sim.note(f"the next Fetch: {fault.value}")
    node = None if sim.sick is None else sim.sick[1]
    sim.cluster.inject(FetchRequest, fault, seconds=sim.random.uniform(*LASTS["fetch fault"]), node=node)


FETCH_ERRORS: Final = (
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
    "KAFKA_STORAGE_ERROR",
    "REPLICA_NOT_AVAILABLE",
    "UNKNOWN_SERVER_ERROR",
)
COORDINATOR_ERRORS: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
MEMBER_ERRORS: Final = (*COORDINATOR_ERRORS, "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
GROUP_ERRORS: Final[dict[Any, tuple[str, ...]]] = {
    FindCoordinatorRequest: ("COORDINATOR_NOT_AVAILABLE",),
    JoinGroupRequest: (*COORDINATOR_ERRORS, "UNKNOWN_MEMBER_ID"),
    SyncGroupRequest: MEMBER_ERRORS,
    HeartbeatRequest: MEMBER_ERRORS,
    OffsetCommitRequest: (*MEMBER_ERRORS, "REQUEST_TIMED_OUT"),
    OffsetFetchRequest: COORDINATOR_ERRORS,
    LeaveGroupRequest: COORDINATOR_ERRORS,
}
MODERN_ERRORS: Final[dict[Any, tuple[str, ...]]] = {  # of groups that use the consumer protocol
    FindCoordinatorRequest: ("COORDINATOR_NOT_AVAILABLE",),
    ConsumerGroupHeartbeatRequest: (*COORDINATOR_ERRORS, "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"),
    OffsetCommitRequest: (*COORDINATOR_ERRORS, "UNKNOWN_MEMBER_ID", "STALE_MEMBER_EPOCH", "REQUEST_TIMED_OUT"),
    OffsetFetchRequest: (*COORDINATOR_ERRORS, "STALE_MEMBER_EPOCH"),
}


BOTH_ERRORS: Final[dict[Any, tuple[str, ...]]] = {  # what both kinds of members may be told
    api: tuple(error for error in errors if error in MODERN_ERRORS.get(api, errors))
    for api, errors in {**MODERN_ERRORS, **GROUP_ERRORS}.items()
}


def _group_errors(sim: ConsumerSimulation) -> dict[Any, tuple[str, ...]]:
    if sim.plan.protocol == "both":
        return BOTH_ERRORS
    return MODERN_ERRORS if sim.plan.protocol == "consumer" else GROUP_ERRORS


def _fetch_error(sim: ConsumerSimulation) -> None:
    tp, error = sim.some_partition(), sim.random.choice(FETCH_ERRORS)
    sim.note(f"{tp} answers {error}")
    sim.cluster.push_error(FetchRequest, error, topic=tp.topic, partition=tp.partition, times=sim.random.choice((1, 3)))


def _offsets_error(sim: ConsumerSimulation) -> None:
    tp, error = sim.some_partition(), sim.random.choice(("LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"))
    sim.note(f"ListOffsets of {tp} answers {error}")
    sim.cluster.push_error(ListOffsetsRequest, error, topic=tp.topic, partition=tp.partition)


def _group_error(sim: ConsumerSimulation) -> None:
    api = sim.random.choice(list(_group_errors(sim)))
    error = sim.random.choice(_group_errors(sim)[api])
    sim.note(f"the next {api.__name__} is answered {error}")
    sim.cluster.push_error(api, error)


def _group_fault(sim: ConsumerSimulation) -> None:
    api = sim.random.choice(list(_group_errors(sim)))
    fault = sim.random.choice((Fault.DROP_BEFORE, Fault.DROP_AFTER, Fault.SWALLOW, Fault.DELAY, Fault.DELAY_REPLY))
    if api is JoinGroupRequest and fault is Fault.SWALLOW and sim.plan.options["max_poll_interval_ms"] > 1_000 * LONGEST_JOIN_S:
        # A group may take max_poll_interval_ms to gather: as long, nothing tells a member that its answer was lost on a living connection.
        fault = Fault.DROP_AFTER
    sim.note(f"the next {api.__name__}: {fault.value}")
    sim.cluster.inject(api, fault, seconds=sim.random.uniform(*LASTS["group fault"]))


def _metadata_fault(sim: ConsumerSimulation) -> None:
    sim.note("the next Metadata goes wrong")
    sim.cluster.inject(MetadataRequest, sim.random.choice((Fault.DROP_BEFORE, Fault.SWALLOW)))


def _damage(sim: ConsumerSimulation) -> None:
    api = sim.random.choice((FetchRequest, ListOffsetsRequest, MetadataRequest, *_group_errors(sim)))
    sim.note(f"the answer to the next {api.__name__} is damaged")
    sim.cluster.inject(api, Fault.GARBAGE)


def _move_coordinator(sim: ConsumerSimulation) -> None:
    loading = sim.random.choice((0.0, 0.5))
    sim.disturb(loading, GROUP_ITSELF)
    sim.note(f"the coordinator moves to {sim.cluster.move_coordinator(GROUP, loading=loading)}")


def _retention(sim: ConsumerSimulation) -> None:
    tp = sim.some_partition()
    log = sim.ledger.log(tp)
    to = (log.start_offset + log.end_offset) // 2
    sim.note(f"{tp} is cut: it begins at {to}")
    sim.cluster.delete_records(*tp, to)
    sim.ledger.high(tp)  # which notes where it begins


def _unclean(sim: ConsumerSimulation) -> None:
    """A replica that lacks the last batches leads: records that were read may be lost."""
    tp, lost = sim.some_partition(), sim.random.choice((1, 1, 3))
    sim.note(f"{tp}: unclean election, the last {lost} batches are gone")
    sim.disturb(0.0, tp)
    sim.cluster.unclean_election(*tp, lost=lost)


def _shrink(sim: ConsumerSimulation) -> None:
    tp, seconds = sim.some_partition(), sim.random.uniform(*LASTS["in-sync replicas shrink"])
    sim.note(f"{tp}: one replica is in sync")
    sim.cluster.shrink_isr(*tp, seconds)


def _slow_follower(sim: ConsumerSimulation) -> None:
    """The high watermark stands behind the end of the log until this broker has copied it."""
    node, seconds = sim.some_node(), sim.random.uniform(*LASTS["follower is slow"])
    sim.note(f"broker {node} copies nothing")
    sim.cluster.pause_replication(node, seconds)


def _create(sim: ConsumerSimulation) -> None:
    """A topic that the pattern selects, or one that is excluded."""
    if len(sim.cluster.topics) < 6:
        sim.new_topic(excluded=sim.random.random() < 0.3)


def _delete(sim: ConsumerSimulation) -> None:
    names = sorted(name for name in sim.cluster.topics if name != "t")
    if names:
        sim.drop_topic(sim.random.choice(names))


def _evict(sim: ConsumerSimulation) -> None:
    node = sim.some_node()
    sim.note(f"broker {node} forgets its fetch sessions")
    sim.cluster.forget_fetch_sessions(node)


def _join(sim: ConsumerSimulation) -> None:
    if len(sim.living()) < 4 and len(sim.members) < 10:
        sim.join()


def _close(sim: ConsumerSimulation) -> None:
    _end(sim, lambda member: member.close())


def _die(sim: ConsumerSimulation) -> None:
    _end(sim, lambda member: member.die())


def _end(sim: ConsumerSimulation, how: Callable[[Member], None]) -> None:
    living = sim.living()
    if living:
        how(sim.random.choice(living))
        if sim.random.random() < sim.plan.restarts and len(sim.members) < 10:
            sim.timeline.after(sim.random.uniform(0.0, 2.0), sim.join)


CONSUMER_FAULTS: Final[dict[str, Callable[[ConsumerSimulation], None]]] = {
    "move leader": trouble.move_leader,
    "no leader": trouble.orphan(LASTS["no leader"]),
    "broker stops": trouble.stop_broker(LASTS["broker stops"], failover=1.5),
    "broker freezes": trouble.freeze_broker(LASTS["broker freezes"]),
    "broker is slow": trouble.slow_broker(LASTS["broker is slow"], each=0.3),
    "connection is cut": trouble.cut_connection,
    "all connections are cut": trouble.cut_all,
    "network is dark": trouble.dark_node(LASTS["network is dark"]),
    "metadata is stale": trouble.stale_metadata(LASTS["metadata is stale"]),
    "topic is hidden": trouble.hide_topic(LASTS["topic is hidden"]),
    "fetch fault": _fetch_fault,
    "fetch error": _fetch_error,
    "offsets error": _offsets_error,
    "group error": _group_error,
    "group fault": _group_fault,
    "metadata fault": _metadata_fault,
    "coordinator moves": _move_coordinator,
    "more partitions": trouble.more_partitions(6),
    "retention": _retention,
    "leadership lost after append": trouble.lose_leadership,
    "unclean election": _unclean,
    "in-sync replicas shrink": _shrink,
    "follower is slow": _slow_follower,
    "member joins": _join,
    "member closes": _close,
    "member dies": _die,
    "answer damaged": _damage,
    "broker is deaf": trouble.deafen_broker(LASTS["broker is deaf"]),
    "partition is gone": trouble.orphan(LASTS["partition is gone"]),
    "fetch sessions evicted": _evict,
    "topic is created": _create,
    "topic is deleted": _delete,
}
PLAIN: Final = tuple(name for name in CONSUMER_FAULTS if name not in TOPIC_FAULTS)
SICKNESS: Final = (
    "partition is gone",
    "broker freezes",
    "broker is slow",
    "network is dark",
    "fetch fault",
    "fetch error",
    "offsets error",
    "leadership lost after append",
    "follower is slow",
)
AIMS: Final = ("starting", "unjoined", "joining", "syncing", "revoking", "rejoining", "leaving", "nobody")
LATER: Final = (
    "answer damaged",
    "broker is deaf",
    "fetch sessions evicted",
)  # only some seeds have it, so that the traces of all others stay the same
