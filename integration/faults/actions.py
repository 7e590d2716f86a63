"""Carries out the faults of the list on real brokers, on the proxies in front of them, and on group members.

Invariant: an action of the lane BROKERS returns when its fault has ended and all brokers serve again. Actions note for the
judge the records whose log was lost through no fault of the client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from integration.faults.catalog import Lane
from integration.faults.chaos_plan import ChaosPlan, Step
from integration.faults.proxied import Proxied
from integration.faults.proxy import Proxy
from integration.workload.load import Load
from integration.workload.members import Members, coordinator
from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest
from pykafka4.wire.protocol.messages_configs import IncrementalAlterConfigsRequest

__all__ = ["ACTIONS", "FRAGILE", "FRAGILE_CONFIGS", "Run"]

FRAGILE: Final = 3  # partitions of the topic that is recreated, cut off and led uncleanly
FRAGILE_CONFIGS: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
ORDER_S: Final = 60.0
MOST_PARTITIONS: Final = 9
MOST_MEMBERS: Final = 4
TOPIC, SET = 2, 0  # in IncrementalAlterConfigs: the type of resource, the operation
INSYNC: Final = "2"  # min.insync.replicas of the topics


@attrs.define(eq=False)
class Run:
    cluster: Proxied
    plan: ChaosPlan
    main: Load  # idempotent, acks=all, read by the group
    fragile: Load  # the same producer, to a topic that loses records
    members: Members
    story: list[str] = attrs.Factory(list)
    done: dict[str, int] = attrs.Factory(dict)  # fault -> how many times it happened
    errors: list[BaseException] = attrs.Factory(list)
    began: float = attrs.Factory(time.monotonic)

    def play(self) -> None:
        """Each lane has a thread of its own, until the plan's time has passed or an action fails."""
        threads = [threading.Thread(target=self.lane, args=(lane,), name=f"chaos-{lane.value}", daemon=True) for lane in Lane]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.plan.seconds + 4 * ORDER_S)
        if self.errors:
            raise self.errors[0]
        assert not any(thread.is_alive() for thread in threads), self.story[-5:]

    def lane(self, lane: Lane) -> None:
        try:
            for step in self.plan.steps[lane]:
                if self.errors or time.monotonic() > self.began + self.plan.seconds:
                    return
                self.note(str(step))
                ACTIONS[step.fault](self, step)
                self.done[step.fault] = self.done.get(step.fault, 0) + 1
                time.sleep(step.pause)
        except BaseException as error:  # kept for the test, which raises it
            self.note(f"{type(error).__name__}: {error}")
            self.errors.append(error)

    def note(self, what: str) -> None:
        self.story.append(f"{time.monotonic() - self.began:6.1f} {what}")

    # -- choices of steps ---------------------------------------------------------------------------------------------------

    def node(self, step: Step) -> int:
        return self.cluster.nodes[step.pick % len(self.cluster.nodes)]

    def proxy(self, step: Step) -> Proxy:
        return self.cluster.proxies[self.node(step)]

    def partition(self, step: Step) -> int:
        return step.pick % self.main.counts[0][1]

    def follower(self, topic: str, partition: int) -> int:
        leader = self.cluster.wait_leader(topic, partition)
        return next(node for node in self.cluster.partitions(topic)[partition].replicas if node != leader)

    def min_insync(self, value: str) -> None:
        """Returns when the controller has stored the value."""
        row = IncrementalAlterConfigsRequest.Resource.Config(name="min.insync.replicas", config_operation=SET, value=value)
        resource = IncrementalAlterConfigsRequest.Resource(resource_type=TOPIC, resource_name=self.main.topic, configs=[row])

        def judge(response: Any, _again: bool) -> None:
            assert not response.responses[0].error_code, response

        self.cluster.admin.order(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), judge, ORDER_S)


Action: TypeAlias = Callable[[Run, Step], None]


# ---- brokers, leaders, topics


def _away(run: Run, node: int, seconds: float) -> None:
    run.cluster.kill(node)
    time.sleep(seconds)
    run.cluster.start(node)


def _frozen(run: Run, node: int, seconds: float) -> None:
    run.cluster.freeze(node)
    try:
        time.sleep(seconds)
    finally:
        run.cluster.thaw(node)
    run.cluster.wait_full_isr([run.main.topic])


def _kill(run: Run, step: Step) -> None:
    _away(run, run.node(step), step.seconds)


def _freeze(run: Run, step: Step) -> None:
    _frozen(run, run.node(step), step.seconds)


def _restart(run: Run, step: Step) -> None:
    run.cluster.restart(run.node(step))


def _move_leader(run: Run, step: Step) -> None:
    run.cluster.move_leader(run.main.topic, run.partition(step), run.follower(run.main.topic, run.partition(step)))


def _leaderless(run: Run, step: Step) -> None:
    """Crash the broker of partitions with one replica, which then have no leader, and start it again."""
    _away(run, run.cluster.wait_leader(run.fragile.topic, step.pick % FRAGILE), step.seconds)
    topic = run.fragile.topic
    run.cluster.wait(lambda: all(row.leader >= 0 for row in run.cluster.partitions(topic).values()), ORDER_S, f"all leaders of {topic}")


def _more_partitions(run: Run, _step: Step) -> None:
    count = run.main.counts[-1][1]
    if count < MOST_PARTITIONS:
        run.cluster.add_partitions(run.main.topic, count + 1)
        run.main.grow(count + 1)


def _refused_before_append(run: Run, step: Step) -> None:
    """Leave fewer replicas in sync than the topic demands: the leader refuses records with NOT_ENOUGH_REPLICAS."""
    node = run.node(step)
    run.cluster.freeze(node)
    try:
        run.cluster.wait_fenced(node)
        run.min_insync("3")
        time.sleep(step.seconds)
    finally:
        run.cluster.thaw(node)
        run.min_insync(INSYNC)
    run.cluster.wait_full_isr([run.main.topic])


def _refused_after_append(run: Run, step: Step) -> None:
    """Let replicas leave the in-sync set after an append: the records are not acknowledged until the set is complete again."""
    run.min_insync("3")
    try:
        _frozen(run, run.node(step), step.seconds)
    finally:
        run.min_insync(INSYNC)


def _demote(run: Run, step: Step) -> None:
    """Change the leader while records wait for a frozen follower: they are appended, and refused as NOT_LEADER_OR_FOLLOWER."""
    topic, partition = run.main.topic, run.partition(step)
    leader = run.cluster.wait_leader(topic, partition)
    slow, successor = (node for node in run.cluster.nodes if node != leader)
    run.cluster.prefer(topic, partition, (successor, leader, slow), ORDER_S)
    run.cluster.freeze(slow)
    try:
        time.sleep(step.seconds)
        run.cluster.admin.elect(topic, partition, ORDER_S)
    finally:
        run.cluster.thaw(slow)
    run.cluster.wait_full_isr([topic])


def _shrink(run: Run, step: Step) -> None:
    _frozen(run, run.follower(run.main.topic, run.partition(step)), step.seconds)


def _unclean(run: Run, step: Step) -> None:
    """Let a replica that lacks acknowledged records lead: kill the only replica in sync before the other one is back."""
    topic, partition = run.fragile.topic, step.pick % FRAGILE
    leader, behind = run.cluster.wait_leader(topic, partition), run.follower(topic, partition)
    run.cluster.freeze(behind)
    try:
        run.cluster.wait_fenced(behind)
        time.sleep(step.seconds)
        lost = {p for p, row in run.cluster.partitions(topic).items() if set(row.isr) == {leader}}
        run.fragile.shaken |= lost
        run.cluster.kill(leader)
        run.fragile.excuse(lambda n: run.fragile.partition(n) in lost)
    finally:
        run.cluster.thaw(behind)
    for p in lost:
        run.cluster.wait_leader(topic, p, other_than=leader)
    run.cluster.start(leader)
    run.cluster.wait_full_isr([topic])


def _recreate(run: Run, _step: Step) -> None:
    run.cluster.delete_topic(run.fragile.topic)
    run.cluster.create_topic(run.fragile.topic, FRAGILE, run.plan.fragile_replicas, FRAGILE_CONFIGS)
    run.fragile.excuse(lambda _n: True)


def _retention(run: Run, step: Step) -> None:
    topic, partition = run.fragile.topic, step.pick % FRAGILE
    first, end = run.cluster.offsets(topic)[partition]
    row = DeleteRecordsRequest.Topic.Partition(partition_index=partition, offset=(first + end) // 2)
    message = DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[row])], timeout_ms=10_000)

    def deleted() -> bool:
        answer = run.cluster.admin.ask(run.cluster.wait_leader(topic, partition), message)
        return bool(answer.topics[0].partitions[0].error_code == 0)

    run.cluster.wait(deleted, ORDER_S, f"records of {topic}-{partition} to be deleted")
    run.fragile.excuse(lambda n: run.fragile.partition(n) == partition and run.fragile.offsets[n] < row.offset)


def _move_coordinator(run: Run, step: Step) -> None:
    _away(run, coordinator(run.cluster, run.members.group), step.seconds)


# ---- the network


def _proxied(begin: Callable[[Proxy, Step], object], end: Callable[[Proxy], object] = Proxy.heal) -> Action:
    """The action of a fault that the connections to one broker have for a while."""

    def action(run: Run, step: Step) -> None:
        proxy = run.proxy(step)
        begin(proxy, step)
        try:
            time.sleep(step.seconds)
        finally:
            end(proxy)

    return action


def _cut_all(run: Run, _step: Step) -> None:
    for proxy in run.cluster.proxies.values():
        proxy.drop_connections()


def _midway(run: Run, step: Step) -> None:
    run.proxy(step).cut_responses_after(step.pick % 3_000 + 1)


def _refusal(run: Run, _step: Step) -> None:
    run.main.refuse = True


def _fault_of_a_group(run: Run, step: Step) -> None:
    proxy = run.cluster.proxies[coordinator(run.cluster, run.members.group)]
    (proxy.swallow_responses if step.pick % 2 else proxy.hold_responses)()
    try:
        time.sleep(step.seconds)
    finally:
        proxy.heal()


# ---- members


def _join(run: Run, _step: Step) -> None:
    living = run.members.living()
    if len(living) < MOST_MEMBERS:
        taken = {member.instance for member in living}
        names = [f"s{n}" for n in range(MOST_MEMBERS) if f"s{n}" not in taken]
        run.members.join("ours", names[0] if run.plan.static else None)


def _end(how: Callable[[Members, int], None]) -> Action:
    def action(run: Run, step: Step) -> None:
        living = run.members.living()
        if living:
            how(run.members, step.pick % len(living))
        if len(living) <= 1:
            _join(run, step)

    return action


def _freeze_member(run: Run, step: Step) -> None:
    living = run.members.living()
    if living:
        member = living[step.pick % len(living)]
        member.freeze()
        time.sleep(step.seconds)
        member.thaw()


ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "move leader": _move_leader,
        "no leader": _leaderless,
        "partition is gone": _leaderless,
        "broker stops": _kill,
        "broker is gone": _kill,
        "broker restarts": _restart,
        "broker freezes": _freeze,
        "more partitions": _more_partitions,
        "error before append": _refused_before_append,
        "error after append": _refused_after_append,
        "leadership lost after append": _demote,
        "in-sync replicas shrink": _shrink,
        "follower is slow": _shrink,
        "unclean election": _unclean,
        "topic recreated": _recreate,
        "retention": _retention,
        "coordinator moves": _move_coordinator,
        "broker is slow": _proxied(lambda proxy, step: proxy.delay(0.1 + step.pick % 10 / 10, jitter=0.1), lambda proxy: proxy.delay(0)),
        "network is dark": _proxied(lambda proxy, _: proxy.silence()),
        "connection is cut": _proxied(lambda proxy, _: proxy.drop_connections(), lambda _: None),
        "all connections are cut": _cut_all,
        "lost before append": _proxied(lambda proxy, _: proxy.swallow_requests()),
        "lost after append": _proxied(lambda proxy, _: proxy.swallow_responses()),
        "lost midway in the answer": _midway,
        "answer swallowed": _proxied(lambda proxy, _: proxy.swallow_responses()),
        "request delayed": _proxied(lambda proxy, _: proxy.hold_requests(), Proxy.release),
        "answer delayed": _proxied(lambda proxy, _: proxy.hold_responses(), Proxy.release),
        "throttled": _proxied(lambda proxy, step: proxy.bandwidth(5_000 + step.pick % 50_000), lambda proxy: proxy.bandwidth(None)),
        "refusal": _refusal,
        "fetch fault": _proxied(lambda proxy, step: (proxy.swallow_responses if step.pick % 2 else proxy.hold_responses)()),
        "group fault": _fault_of_a_group,
        "member joins": _join,
        "member closes": _end(lambda members, n: members.living()[n].ask()),
        "member dies": _end(lambda members, n: members.living()[n].kill()),
        "member freezes": _freeze_member,
    }
)
