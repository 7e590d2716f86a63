"""Leadership: what the leader of a group does in addition to what every member does."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core import INFINITY, Reply
from pykafka4.core.group import encoding
from pykafka4.core.group.encoding import assigned_partitions, assignment_bytes, subscription_bytes
from pykafka4.core.group.leading.leadership import MOST_BYTES_ON_LOOP, STEP_TOPICS, Leadership
from pykafka4.core.group.leading.strategies import Strategies
from pykafka4.core.outbox import Outbox
from pykafka4.misuse import check_topic
from pykafka4.wire.protocol.messages_group import ConsumerProtocolSubscription, DescribeGroupsResponse, JoinGroupResponse
from pykafka4.wire.protocol.schema import encode_data
from tests.core.consumer_harness import LOST, Cluster, config, tp


def answer(leader: str = "m", protocol: str | None = "range", **members: list[str]) -> JoinGroupResponse:
    rows = [JoinGroupResponse.Member(member_id=name, metadata=subscription_bytes(topics)) for name, topics in members.items()]
    return JoinGroupResponse(error_code=0, protocol_name=protocol, leader=leader, member_id="m", members=rows)


def lead(cluster: Any, **options: Any) -> Leadership:
    """The leadership of a member with these options."""
    outbox = Outbox()
    return Leadership(cluster, "c: group g", Strategies(config(**options), "c: group g", outbox), outbox)


@pytest.fixture
def cluster() -> Any:
    cluster = Cluster()
    cluster.set("t", [1, 1, 1])
    return cluster


def test_a_follower_assigns_nothing(cluster: Any) -> None:
    leadership = lead(cluster)
    assert leadership.decide(answer(leader="x"), 5.0, 9.0) is None
    assert (leadership.holds, leadership.due, leadership.outgrown()) == (False, INFINITY, False)


def test_every_member_gets_a_share(cluster: Any) -> None:
    leadership = lead(cluster)
    assert leadership.decide(answer(m=["t"], n=["t"]), 5.0, 9.0) is None
    shares = leadership.assign(0.0)
    assert shares is not None
    assert {name: assigned_partitions(share) for name, share in shares.items()} == {"m": [tp(0), tp(1)], "n": [tp(2)]}
    assert leadership.due == INFINITY


@pytest.mark.parametrize("protocol", ["roundrobin", None])
def test_an_assignor_that_is_not_known_is_named(cluster: Any, protocol: str | None) -> None:
    assert lead(cluster).decide(answer(protocol=protocol, m=["t"]), 5.0, 9.0) == (protocol or "(none)")


def test_unknown_topics_are_waited_for_until_due(cluster: Any) -> None:
    leadership = lead(cluster)
    leadership.decide(answer(m=["t", "u"]), 5.0, 9.0)
    assert leadership.assign(4.9) is None
    assert leadership.assign(5.0) is not None


def test_a_rebalance_is_needed_when_topics_are_created_deleted_or_get_partitions(cluster: Any) -> None:
    for change in ({"t": [1] * 4}, {"u": [1]}, {"t": []}):
        cluster = Cluster()
        cluster.set("t", [1, 1, 1])
        cluster.set("u", error="UNKNOWN_TOPIC_OR_PARTITION")
        leadership = lead(cluster)
        leadership.decide(answer(m=["t", "u"]), 5.0, 9.0)
        leadership.assign(0.0)
        assert not leadership.outgrown()
        cluster.set("other", [1])
        assert not leadership.outgrown()
        for topic, leaders in change.items():
            cluster.set(topic, leaders)
        assert leadership.outgrown()


@pytest.mark.parametrize("rack", [None, "a"])
def test_a_leader_with_a_rack_starts_a_rebalance_when_replicas_move_to_other_racks(cluster: Any, rack: str | None) -> None:
    cluster.in_racks["t"] = [frozenset("a"), frozenset("b"), frozenset("b")]
    leadership = lead(cluster, client_rack=rack)
    leadership.decide(answer(m=["t"]), 5.0, 9.0)
    leadership.assign(0.0)
    cluster.change("t")
    assert not leadership.outgrown()
    cluster.in_racks["t"] = [frozenset("a"), frozenset("a"), frozenset("b")]
    cluster.change("t")
    assert leadership.outgrown() is (rack is not None)


def test_topics_that_the_leader_may_not_describe_are_named_in_the_log(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Those who subscribed to them may be allowed to, and get nothing."""
    names = [f"u{n}" for n in range(7)]
    for name in names:
        cluster.set(name, error="TOPIC_AUTHORIZATION_FAILED")
    cluster.set("v", error="UNKNOWN_TOPIC_OR_PARTITION")
    leadership = lead(cluster)
    leadership.decide(answer(m=["t"], n=[*names, "v"]), 5.0, 9.0)
    leadership.assign(0.0)
    (record,) = caplog.records
    assert record.getMessage().startswith("c: group g: this member leads the group without the right to describe these topics, so nobody")
    assert record.getMessage().endswith(": u0, u1, u2, u3, u4 and 2 more")


def test_a_change_between_the_lookup_and_the_assignment_is_noticed(cluster: Any) -> None:
    leadership = lead(cluster)
    leadership.decide(answer(m=["t"]), 5.0, 9.0)
    leadership.assign(0.0)
    assert not leadership.outgrown()
    cluster.set("t", [1] * 4)
    leadership.assign(0.0)
    assert not leadership.outgrown(), "it was dealt out as it is now"
    cluster.set("t", [1])
    assert leadership.outgrown()
    cluster.set("t", [1] * 4)
    assert not leadership.outgrown()


def watch(cluster: Any, patch: pytest.MonkeyPatch) -> list[str]:
    """The topics whose partitions are asked for from now on."""
    asked: list[str] = []
    partitions = cluster.partitions
    patch.setattr(Cluster, "partitions", lambda _, topic: asked.append(topic) or partitions(topic))
    return asked


def test_only_topics_that_changed_are_compared(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["t", *(f"u{n}" for n in range(20))]
    for name in names:
        cluster.set(name, [1])
    leadership = lead(cluster)
    leadership.decide(answer(m=names), 5.0, 9.0)
    leadership.assign(0.0)
    looked = watch(cluster, monkeypatch)
    for _ in range(3):
        assert not leadership.outgrown()
    assert not looked
    cluster.set("t", [1, 1])
    assert leadership.outgrown()
    assert looked == ["t"]


def test_while_topics_are_unknown_only_those_that_changed_are_looked_at(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["t", *(f"u{n}" for n in range(20))]
    leadership = lead(cluster)
    leadership.decide(answer(m=names), 5.0, 9.0)
    looked = watch(cluster, monkeypatch)
    assert leadership.assign(0.0) is None
    cluster.set("u1", [1])
    assert leadership.assign(0.0) is None
    assert looked == ["u1"]
    for name in names:
        cluster.set(name, [1])
    assert leadership.assign(0.0) is not None


def test_of_thousands_of_topics_a_step_looks_at_a_few_and_a_helper_reads_their_lists(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member has a list of its own: all at once, they would hold the loop for long."""
    names = [f"u{n}" for n in range(3 * STEP_TOPICS)]
    for name in names:
        cluster.set(name, [1])
    lists = {f"m{n}": [*names[n:], "t"] for n in range(10)}
    rows = answer(m=names, **lists)
    assert sum(len(row.metadata) for row in rows.members) > MOST_BYTES_ON_LOOP
    outbox = Outbox()
    leadership, jobs = Leadership(cluster, "c: group g", Strategies(config(), "c: group g", outbox), outbox), outbox.jobs
    decoded: list[str] = []
    decode = encoding.decode_data
    monkeypatch.setattr(encoding, "decode_data", lambda *given: decoded.append("") or decode(*given))
    assert leadership.decide(rows, 5.0, 9.0) is None
    assert leadership.assign(0.0) is None
    assert (decoded, cluster.wanted, leadership.due) == ([], [], INFINITY)
    (job,) = jobs
    jobs.clear()
    job.then(1.0, job.run())
    assert leadership.due == 1.0, "it goes on at once"
    for name in ("wanted", "looked"):
        seen = cluster.wanted if name == "wanted" else watch_leaders(cluster, monkeypatch)
        for step in range(1, 4):
            assert leadership.assign(1.0) is None
            assert (len(seen), leadership.due) == (step * STEP_TOPICS, 1.0)
        cluster.set("u0", [1, 1])  # after the step that looked at it
    assert leadership.assign(1.0) is None
    (job,) = jobs
    job.then(1.0, job.run())
    shares = leadership.assign(1.0)
    assert shares is not None
    assert sum(len(assigned_partitions(share)) for share in shares.values()) == 3 * STEP_TOPICS + 4
    assert leadership.outgrown() is False


def watch_leaders(cluster: Any, patch: pytest.MonkeyPatch) -> list[str]:
    """The topics whose leaders are asked for from now on."""
    asked: list[str] = []
    leaders = cluster.leaders
    patch.setattr(Cluster, "leaders", lambda _, topic: asked.append(topic) or leaders(topic))
    return asked


def test_a_join_forgets_the_topics_of_the_last_one_that_was_not_complete(cluster: Any) -> None:
    names = [f"u{n}" for n in range(2 * STEP_TOPICS)]
    leadership = lead(cluster)
    leadership.decide(answer(m=names[:300]), 5.0, 9.0)
    assert 0 < len(cluster.wanted) < 300
    leadership.decide(answer(m=["t"]), 5.0, 9.0)
    assert leadership.assign(0.0) is not None
    leadership.resign()
    assert not cluster.users


def test_changes_are_collected_only_while_a_member_leads(cluster: Any) -> None:
    leadership = lead(cluster)
    assert not cluster.on_change
    for _ in range(2):
        leadership.decide(answer(m=["t"]), 5.0, 9.0)
    assert len(cluster.on_change) == 1
    leadership.decide(answer(leader="n"), 5.0, 9.0)
    leadership.resign()
    assert not cluster.on_change


def test_only_a_leader_wants_the_topics_of_the_others_and_only_todays(cluster: Any) -> None:
    leadership = lead(cluster)
    leadership.decide(answer(m=["t"], n=["u"]), 5.0, 9.0)
    assert set(cluster.users) == {"t", "u"}
    leadership.decide(answer(m=["t"], n=["v"]), 5.0, 9.0)
    assert set(cluster.users) == {"t", "v"}
    leadership.decide(answer(leader="n"), 5.0, 9.0)
    assert not cluster.users
    leadership.decide(answer(m=["t"]), 5.0, 9.0)
    leadership.resign()
    assert not cluster.users


class StrictCluster(Cluster):
    """Takes only names that Kafka allows, as the real one."""

    def want(self, topic: str, user: object) -> None:
        check_topic(topic)
        super().want(topic, user)


def test_a_member_that_wants_topics_that_cannot_exist_does_not_keep_the_others_from_their_shares() -> None:
    """Java's consumer, for one, subscribes to any name."""
    cluster: Any = StrictCluster()
    cluster.set("t", [1, 1, 1])
    leadership = lead(cluster)
    assert leadership.decide(answer(m=["t"], n=["a b", "", "x" * 300, "t"], o=["."]), 5.0, 9.0) is None
    shares = leadership.assign(0.0)
    assert shares is not None
    assert {name: assigned_partitions(share) for name, share in shares.items()} == {"m": [tp(0), tp(1)], "n": [tp(2)], "o": []}


@pytest.mark.parametrize("data", [None, b"", b"java", bytes(200)])
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_in_any_version_with_any_user_data_is_read(cluster: Any, data: bytes | None, version: int) -> None:
    """Members whose assignors we do not have (sticky, cooperative) send what they owned, their generation, their rack."""

    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=data)
    if version >= 1:
        subscription.owned_partitions = [ConsumerProtocolSubscription.Topic(topic="t", partitions=[0, 2])]
    if version >= 2:
        subscription.generation_id = 7
    if version >= 3:
        subscription.rack_id = "b"
    foreign = answer(m=["t"], n=[])
    foreign.members[1].metadata = encode_data(subscription, version)
    leadership = lead(cluster)
    assert leadership.decide(foreign, 5.0, 9.0) is None
    shares = leadership.assign(0.0)
    assert shares is not None
    assert assigned_partitions(shares["n"]) == [tp(2)]


# ---------------------------------------------------------------- a static leader that came back


def described(*shares: list[Any], state: str = "Stable", error: int = 0) -> Reply:
    """What DescribeGroups says when each member has one of `shares`."""
    members = [
        DescribeGroupsResponse.Group.Member(member_id=f"m-{n}", member_assignment=assignment_bytes(tps)) for n, tps in enumerate(shares)
    ]
    group = DescribeGroupsResponse.Group(error_code=error, group_id="g", group_state=state, members=members)
    return Reply(DescribeGroupsResponse(groups=[group]), 5, 1)


def returned(cluster: Any, *topics: str) -> Leadership:
    """The leader of a group whose assignment stands."""
    leadership = lead(cluster)
    back = answer(m=list(topics), n=list(topics))
    back.skip_assignment = True
    leadership.decide(back, 5.0, 9.0)
    assert leadership.assign(0.0) == {}
    return leadership


def test_partitions_added_while_a_static_leader_was_away_need_a_rebalance(cluster: Any) -> None:
    leadership = returned(cluster, "t")
    assert not leadership.outgrown()
    assert leadership.ask_at <= 0.0
    assert leadership.question(0.0, "g").groups == ["g"]
    assert leadership.ask_at == INFINITY
    leadership.learn(0.0, described([tp(0)], [tp(1)]))
    assert leadership.ask_at == INFINITY
    assert leadership.outgrown()


def test_an_assignment_that_has_all_partitions_stands_until_there_are_more(cluster: Any) -> None:
    leadership = returned(cluster, "t")
    leadership.question(0.0, "g")
    leadership.learn(0.0, described([tp(0), tp(1)], [tp(2)]))
    assert not leadership.outgrown()
    cluster.set("t", [1] * 4)
    assert leadership.outgrown()
    assert leadership.outgrown(), "said until the partitions are dealt out"


def test_a_topic_that_is_not_looked_up_yet_is_compared_with_the_assignment_when_it_is(cluster: Any) -> None:
    """A rebalance because of it would be one for each static leader that restarts."""
    leadership = returned(cluster, "t", "u")
    leadership.question(0.0, "g")
    leadership.learn(0.0, described([tp(0), tp(1), tp(2)], [tp(0, "u")]))
    assert not leadership.outgrown()
    cluster.set("u", [1])
    assert not leadership.outgrown()
    cluster.set("u", [1, 1])
    assert leadership.outgrown()


@pytest.mark.parametrize("outcome", [LOST, described(state="PreparingRebalance"), described(error=15)], ids=["lost", "unstable", "refused"])
def test_the_assignment_is_requested_until_there_is_an_answer(cluster: Any, outcome: Any) -> None:
    leadership = returned(cluster, "t")
    leadership.question(0.0, "g")
    leadership.learn(2.0, outcome)
    assert 2.0 < leadership.ask_at < 10.0
    assert not leadership.outgrown()
    leadership.question(leadership.ask_at, "g")
    leadership.learn(9.0, described([tp(0), tp(1)], []))
    assert leadership.outgrown()


def test_an_assignment_that_cannot_be_read_is_taken_for_whole(cluster: Any) -> None:
    leadership = returned(cluster, "t")
    leadership.question(0.0, "g")
    broken = described([tp(0)])
    broken.message.groups[0].members[0].member_assignment = b"\0\1\xff"
    leadership.learn(0.0, broken)
    assert (leadership.ask_at, leadership.outgrown()) == (INFINITY, False)


def test_leaders_and_followers_do_not_request_an_assignment(cluster: Any) -> None:
    leadership = returned(cluster, "t")
    leadership.decide(answer(m=["t"]), 5.0, 9.0)
    assert leadership.ask_at == INFINITY
    assert leadership.assign(0.0) is not None
    assert leadership.ask_at == INFINITY
    leadership = returned(cluster, "t")
    leadership.decide(answer(leader="n"), 5.0, 9.0)
    assert leadership.ask_at == INFINITY
