"""The admin client on model brokers: what it finds out about groups, and what it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pykafka4 import (
    AdminClient,
    AuthorizationError,
    BrokerError,
    Client,
    ClosedError,
    ConfigError,
    GroupDescription,
    GroupLag,
    GroupNotEmpty,
    KafkaError,
    KafkaTimeoutError,
    OffsetAndMetadata,
    OffsetPlan,
    PartialFailure,
    TopicPartition,
)
from pykafka4.admin.session import Answers
from pykafka4.testing import ModelServer
from tests.admin.administering import T0, T1, T2, described, joined, lag_of
from tests.consumer.consuming import LONG, Maker, poll_until, topic
from tests.inspection import inspect

# ---- looking


def test_groups_of_all_brokers_are_listed_in_order_and_filtered(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 3)
    for number in range(20):
        admin.set_offsets(f"g{number:02}", {T0: 1})
    joined(make)
    found = admin.list_groups()
    assert [group.group_id for group in found] == ["g", *(f"g{number:02}" for number in range(20))]
    assert len({group.coordinator for group in found}) == 3
    assert not found.errors
    assert [(g.state, g.type, g.protocol_type) for g in found][:2] == [("Stable", "classic", "consumer"), ("Empty", "classic", "")]
    assert [g.group_id for g in admin.list_groups(states=["stable"])] == ["g"]
    assert [g.group_id for g in admin.list_groups(protocol_types=["consumer"], types=["Classic"])] == ["g"]
    assert len(admin.list_groups(types=["share"])) == 0


def test_a_broker_that_cannot_list_does_not_hide_the_groups_of_others(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 1)
    for number in range(20):
        admin.set_offsets(f"g{number:02}", {T0: 1})
    whole = len(admin.list_groups())
    server.fail("ListGroups", "CLUSTER_AUTHORIZATION_FAILED")
    found = admin.list_groups()
    assert 0 < len(found) < whole == 20
    ((node, error),) = found.errors.items()
    assert node in (1, 2, 3)
    assert isinstance(error, AuthorizationError)
    assert "needs DESCRIBE on the cluster" in str(error)


@pytest.mark.model(release="2.1")
def test_states_are_asked_for_where_brokers_do_not_list_them(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 1)
    admin.set_offsets("empty", {T0: 1})
    joined(make)
    assert {g.group_id: (g.state, g.type) for g in admin.list_groups()} == {"empty": ("Empty", "classic"), "g": ("Stable", "classic")}
    assert [g.group_id for g in admin.list_groups(states=["Empty"])] == ["empty"]


def test_a_group_is_described_with_its_members(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 0, 0)
    joined(make, client_id="me", group_instance_id="i")
    found = described(admin)
    assert (found.state, found.type, found.protocol_type, found.assignor) == ("Stable", "classic", "consumer", "range")
    assert found.coordinator == server.do(lambda cluster: cluster.coordinator("g"))
    assert found.coordinator_address == server.do(
        lambda cluster: f"{cluster.brokers[found.coordinator].host}:{cluster.brokers[found.coordinator].port}"
    )
    (member,) = found.members
    assert (member.client_id, member.host, member.instance_id, member.partitions) == ("me", "127.0.0.1", "i", (T0, T1))
    assert member.member_id.startswith("i-")
    assert found.owner(T1) is member
    assert found.owner(T2) is None


def test_a_group_that_does_not_exist_is_an_error_beside_the_others(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 1)
    admin.set_offsets("g", {T0: 1})
    found = admin.describe_groups(["none", "g"])
    assert [type(one) for one in found.values()] == [BrokerError, GroupDescription]
    assert "group none: GROUP_ID_NOT_FOUND" in str(found["none"])
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_group("none")


def test_a_group_of_the_consumer_protocol_is_described_and_refuses_as_a_classic_one(
    server: ModelServer, admin: AdminClient, make: Maker
) -> None:
    topic(server, 10, 5)
    consumer = make.member(group_protocol="consumer", client_id="me", enable_auto_commit=False)
    poll_until(consumer, consumer.assignment)
    consumer.commit({("t", 0): 4})
    found = lag_of(admin)
    (member,) = found.description.members
    assert (found.description.type, found.description.assignor) == ("consumer", "uniform")
    assert (member.client_id, member.partitions, member.target) == ("me", (T0, T1), (T0, T1))
    assert (member.epoch, found.description.epoch) == (1, 1)
    assert [(row.lag, row.owner) for row in found.partitions] == [(6, member), (None, member)]
    assert [group.type for group in admin.list_groups()] == ["consumer"]
    with pytest.raises(GroupNotEmpty, match="client me"):
        admin.set_offsets("g", {T0: 1})
    with pytest.raises(GroupNotEmpty, match="client me"):
        admin.delete_offsets("g", ["t"])
    with pytest.raises(GroupNotEmpty):
        admin.delete_groups(["g"])
    assert server.committed("g") == {T0: 4}


@pytest.mark.model(release="2.8")
def test_a_group_that_an_old_broker_does_not_know_does_not_exist(server: ModelServer, admin: AdminClient) -> None:
    with pytest.raises(BrokerError, match="group none: GROUP_ID_NOT_FOUND"):
        admin.describe_group("none")


@pytest.mark.parametrize("release", ["1.0", "2.8", "4.4"])
def test_a_denied_group_does_not_hide_the_others(release: str) -> None:
    with ModelServer(release=release) as server, AdminClient(bootstrap_servers=server.bootstrap_servers) as admin:
        topic(server, 5)
        names = [f"g{number}" for number in range(6)]
        for name in names:
            admin.set_offsets(name, {T0: 2})
        server.do(lambda cluster: cluster.controls.deny("group", "g3", ["DESCRIBE"]))
        for found in (admin.describe_groups(names), admin.group_offsets(names), admin.group_lag(names)):
            assert list(found) == names
            assert [name for name, one in found.items() if isinstance(one, KafkaError)] == ["g3"]
            error = found["g3"]
            assert isinstance(error, AuthorizationError)
            assert (error.operation, error.resource, error.resource_name) == ("DESCRIBE", "group", "g3")
        assert admin.group_offsets(["g1"]) == {"g1": {T0: OffsetAndMetadata(2)}}


def test_the_group_with_the_empty_id_does_not_hide_the_others(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 5)
    admin.set_offsets("g", {T0: 1})
    server.do(lambda cluster: cluster.group("").commit(T0, OffsetAndMetadata(2)))
    names = [group.group_id for group in admin.list_groups()]
    assert names == ["", "g"]
    assert {name: lag_of(admin, name).lag for name in names} == {"": 3, "g": 4}
    assert admin.group_offsets([""]) == {"": {T0: OffsetAndMetadata(2)}}
    admin.delete_groups([""])
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_group("")


class Wild(str):
    """Text whose methods are not those of text."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("on the loop")

    def lower(self) -> str:
        raise AssertionError("on the loop")


@pytest.mark.model(release="2.4")
def test_subclasses_of_text_are_taken_as_text(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 5)
    admin.set_offsets("g", {T0: 1})
    assert admin.describe_group(Wild("g")).state == "Empty"
    assert [type(name) for name in admin.describe_groups([Wild("g")])] == [str]
    assert [group.group_id for group in admin.list_groups(types=[Wild("classic")], states=[Wild("empty")])] == ["g"]


def test_many_groups_share_requests_to_their_coordinators(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 5)
    names = [f"g{number}" for number in range(250)]

    def commit(cluster: object) -> None:
        for name in names:
            cluster.group(name).commit(T0, OffsetAndMetadata(3))  # type: ignore[attr-defined]

    server.do(commit)
    found = admin.group_lag(names)
    assert all(isinstance(one, GroupLag) and one.lag == 2 for one in found.values())
    counted = server.do(lambda cluster: dict(cluster.requests))
    assert counted["FindCoordinator"] == 3
    assert 3 <= counted["DescribeGroups"] <= 9  # one to each coordinator for each part of the lookup
    assert 3 <= counted["OffsetFetch"] <= 9
    assert 1 <= counted["ListOffsets"] <= 9  # after each turn in which offsets came


@pytest.mark.model(release="2.1")
def test_old_brokers_get_a_request_for_each_group(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 5)
    names = [f"g{number}" for number in range(30)]
    for name in names:
        admin.set_offsets(name, {T0: 1})
    assert admin.group_offsets(names) == {name: {T0: OffsetAndMetadata(1)} for name in names}
    found = admin.group_lag(names)
    assert all(isinstance(one, GroupLag) and one.lag == 4 for one in found.values())


def test_lag_has_committed_and_owned_partitions(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 10, 5)
    server.create_topic("other", 1)
    admin.set_offsets("g", {T0: OffsetAndMetadata(4, metadata="m"), ("other", 0): 0})
    joined(make, max_poll_records=1, enable_auto_commit=False)
    found = lag_of(admin)
    (member,) = found.description.members
    rows = [(row.partition, row.committed and row.committed.offset, row.end, row.lag, row.owner) for row in found.partitions]
    assert rows == [(TopicPartition("other", 0), 0, 0, 0, None), (T0, 4, 10, 6, member), (T1, None, 5, None, member)]
    assert found.lag == 6
    assert found.partitions[1].committed == OffsetAndMetadata(4, metadata="m")


def test_a_deleted_topic_is_an_error_of_its_partitions_only(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 3)
    server.create_topic("gone", 1)
    admin.set_offsets("g", {T0: 1, ("gone", 0): 0})

    def drop(cluster: object) -> None:
        kept = dict(cluster.groups["g"].offsets)  # type: ignore[attr-defined]
        cluster.delete_topic("gone")  # type: ignore[attr-defined]
        cluster.groups["g"].offsets.update(kept)  # type: ignore[attr-defined]

    server.do(drop)
    gone, t = lag_of(admin).partitions
    assert (gone.end, gone.lag) == (None, None)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(gone.error)
    assert (t.lag, t.error) == (2, None)


def test_a_coordinator_that_moved_is_asked_for_again(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 3)
    admin.set_offsets("g", {T0: 1})
    before = described(admin).coordinator
    to = server.do(lambda cluster: cluster.coordinators.move("g", before % 3 + 1, loading=0.2))
    assert described(admin).coordinator == to
    assert admin.group_offsets(["g"]) == {"g": {T0: OffsetAndMetadata(1)}}


def test_a_stopped_coordinator_is_replaced(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 3)
    admin.set_offsets("g", {T0: 1})
    before = described(admin).coordinator
    server.do(lambda cluster: cluster.stop_broker(before))
    assert described(admin).coordinator != before
    assert lag_of(admin).lag == 2


def test_a_call_ends_at_its_timeout_and_names_the_last_error(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 3)
    server.fail("DescribeGroups", "COORDINATOR_LOAD_IN_PROGRESS", times=1000)
    found = admin.describe_groups(["g"], timeout=0.5)["g"]
    assert isinstance(found, KafkaTimeoutError)
    assert "group g: DescribeGroups: no answer within" in str(found)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(found)


# ---- planning


def test_a_plan_changes_nothing(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10, 4)
    admin.set_offsets("g", {T0: 7})
    plan = admin.plan_offsets("g", ["t"], to="earliest")
    assert [(row.partition, row.current, row.new, row.start, row.end, row.note) for row in plan] == [
        (T0, 7, 0, 0, 10, ""),
        (T1, None, 0, 0, 4, ""),
    ]
    assert plan.description is not None
    assert server.committed("g") == {T0: 7}
    admin.set_offsets("g", plan)
    assert server.committed("g") == {T0: 0, T1: 0}


MOMENT = datetime(1970, 1, 1, 0, 0, 1, 5_000, tzinfo=UTC)  # of record 5: see `consuming.fill`


@pytest.mark.parametrize(
    ("how", "new", "note"),
    [
        ({"to": "earliest"}, 0, ""),
        ({"to": "latest"}, 10, ""),
        ({"to": "current"}, 7, ""),
        ({"to": 3}, 3, ""),
        ({"to": 30}, 10, "30 is beyond the last offset"),
        ({"to": MOMENT}, 5, ""),
        ({"to": MOMENT - timedelta(seconds=1)}, 0, ""),
        ({"to": timedelta(seconds=1)}, 10, "no record at that time or later, so the end"),
        ({"shift": -2}, 5, ""),
        ({"shift": 2}, 9, ""),
        ({"shift": -20}, 0, "-13 is before the first offset"),
        ({"to": {("t", 0): 6}}, 6, ""),
    ],
)
def test_offsets_are_planned_each_way(server: ModelServer, admin: AdminClient, how: dict[str, object], new: int, note: str) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: 7})
    (row,) = admin.plan_offsets("g", **how)  # type: ignore[arg-type]
    assert (row.current, row.new, row.note) == (7, new, note)


def test_what_is_not_committed_cannot_be_shifted_and_current_is_its_end(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10, 4)
    admin.set_offsets("g", {T0: 7})
    with pytest.raises(PartialFailure, match=r"t-1: group g has committed no offset") as caught:
        admin.plan_offsets("g", ["t"], shift=1)
    assert list(caught.value.errors) == [T1]
    assert [(row.new, row.note) for row in admin.plan_offsets("g", ["t"], to="current")] == [
        (7, ""),
        (4, "nothing is committed, so the end"),
    ]


def test_single_partitions_can_be_named(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10, 4, 3)
    assert admin.plan_offsets("g", [("t", 1), T2], to="latest").offsets == {T1: 4, T2: 3}
    assert admin.plan_offsets("g", ["t", ("t", 1)], to={T1: 2, T2: 9}).offsets == {T1: 2, T2: 3}


def test_a_missing_topic_or_partition_is_named(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10)
    with pytest.raises(BrokerError, match="topic none: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.plan_offsets("g", ["none"], to="latest")
    with pytest.raises(PartialFailure, match=r"t-3: UNKNOWN_TOPIC_OR_PARTITION \(the topic has 1 partition\)"):
        admin.plan_offsets("g", [("t", 3)], to="latest")
    assert "none" not in server.do(lambda cluster: list(cluster.topics))


# ---- the client


def test_a_shared_client_is_used_and_stays_open(server: ModelServer, client: Client) -> None:
    topic(server, 1)
    with AdminClient(client) as admin:
        admin.set_offsets("g", {T0: 1})
        assert "AdminClient at <Client" in repr(admin)
    assert client.partitions_for("t") == [0]
    with pytest.raises(ClosedError, match="this admin client is closed"):
        admin.list_groups()


def test_closing_ends_a_call_of_another_thread(server: ModelServer, client: Client) -> None:
    topic(server, 1)
    admin = AdminClient(client)  # which stays open
    server.delay("DescribeGroups", 60)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            admin.describe_groups(["g"])
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    server.wait_for(lambda cluster: cluster.requests["DescribeGroups"])
    admin.close()
    thread.join(LONG)
    assert len(errors) == 1


@pytest.mark.parametrize("name", ["list_groups", "describe_log_dirs", "list_transactions"])
def test_closing_ends_a_call_that_waits_for_the_list_of_brokers(server: ModelServer, client: Client, name: str) -> None:
    admin = AdminClient(client)  # which stays open
    client.refresh_metadata()
    before = server.do(lambda cluster: cluster.requests["Metadata"])
    server.delay("Metadata", 60, times=100)
    errors: list[BaseException] = []

    def call() -> None:
        try:
            getattr(admin, name)()
        except KafkaError as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    server.wait_for(lambda cluster: cluster.requests["Metadata"] > before)
    admin.close()
    thread.join(LONG)
    assert [type(error) for error in errors] == [ClosedError]
    assert not inspect(admin).session.open


def test_closing_waits_no_longer_than_its_timeout_for_a_thread_that_hangs(server: ModelServer) -> None:
    admin = AdminClient(bootstrap_servers=server.bootstrap_servers)
    loop, hangs, goes_on = inspect(admin).runtime.loop, threading.Event(), threading.Event()
    loop.call(lambda now: hangs.set() or goes_on.wait(1.0))  # type: ignore[func-returns-value]
    assert hangs.wait(LONG)
    admin.close(timeout=0.0)
    assert loop.alive
    goes_on.set()


def test_closing_again_does_nothing(server: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        admin = AdminClient(client=client)
        admin.close()
        admin.close()
        client.refresh_metadata()  # behind what the second close might have begun
    assert caplog.messages == []


def test_closing_between_two_questions_of_a_call_ends_it(server: ModelServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 1)
    for name in ("offsets", "partitions", "find"):
        admin = AdminClient(client)
        real = getattr(inspect(admin).groups, name)

        def closing(*args: object, admin: AdminClient = admin, real: Callable[..., object] = real, **named: object) -> object:
            thread = threading.Thread(target=admin.close)  # another thread closes here
            thread.start()
            thread.join(LONG)
            return real(*args, **named)

        monkeypatch.setattr(inspect(admin).groups, name, closing)
        with pytest.raises(ClosedError, match="this admin client is closed"):
            admin.plan_offsets("g", ["t"], to="latest", timeout=0.2)
        assert not inspect(admin).session.open


def test_closing_while_the_brokers_are_looked_up_ends_a_list(server: ModelServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = AdminClient(client)
    real = inspect(admin).runtime.refresh_metadata

    def closing(*asked: object) -> None:
        real(*asked)
        admin.close()

    monkeypatch.setattr(inspect(admin).runtime, "refresh_metadata", closing)
    with pytest.raises(ClosedError, match="this admin client is closed"):
        admin.list_groups(timeout=0.2)


def test_a_call_that_is_interrupted_leaves_nothing(server: ModelServer, admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(server, 1)
    waits: list[object] = []
    real = Answers.wait

    def wait(self: Answers[Any, Any]) -> Any:
        waits.append(self)
        if len(waits) == 3:  # the first of those of ListOffsets
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(Answers, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        admin.plan_offsets("g", ["t"], to="latest")
    assert inspect(admin).loop.ask(lambda now: len(inspect(admin).machine._runs), LONG) == 0  # behind what the loop was about to finish
    assert not inspect(admin).session.open


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda a: a.describe_groups("g"), "takes a list of group ids"),
        (lambda a: a.set_offsets("", {T0: 1}), "must not be empty"),
        (lambda a: a.create_group("", ["t"]), "must not be empty"),
        (lambda a: a.describe_groups(["g", "\udcff"]), r"group id '\\udcff': cannot be encoded as UTF-8"),
        (lambda a: a.group_offsets(["g", "x" * 32_768]), "32,768 bytes as UTF-8; the longest that a request can carry has 32,767"),
        (lambda a: a.create_group("ß" * 20_000, ["t"]), "40,000 bytes"),
        (lambda a: a.create_group("g", start={}), "start={}: has no offsets"),
        (lambda a: a.create_group("g", ["t"], start="foo"), "start='foo': must be earliest, latest, current"),
        (lambda a: a.create_group("g", ["t"], start=None), "start=None: must be earliest, latest, current"),
        (lambda a: a.create_group("g", ["t"], start=-1), "start=, as an offset, must be from 0"),
        (lambda a: a.create_group("g", ["t"], start=datetime(1960, 1, 1, tzinfo=UTC)), r"start=datetime.*: is before 1970"),
        (lambda a: a.plan_offsets("g", ["t"], to={}), "has no offsets"),
        (lambda a: a.plan_offsets("g", ["t"], to=timedelta.max), "is before 1970; 'earliest' moves"),
        (lambda a: a.describe_group(7), "a group id must be a str"),
        (lambda a: a.list_groups(states="Stable"), "takes a list of names"),
        (lambda a: a.plan_offsets("g", ["t"]), "give either to= .* or shift="),
        (lambda a: a.plan_offsets("g", ["t"], to="first"), "must be earliest, latest, current"),
        (lambda a: a.plan_offsets("g", ["t"], to="latest", shift=1), "give either"),
        (lambda a: a.plan_offsets("g", "t", to="latest"), "takes a list of topic names"),
        (lambda a: a.plan_offsets("g", [], to="latest"), "give at least one topic"),
        (lambda a: a.delete_offsets("g", []), "give at least one topic"),
        (lambda a: a.plan_offsets("g", ["t"], to=datetime(2026, 1, 1)), "has no time zone"),
        (lambda a: a.plan_offsets("g", ["t"], to=timedelta(-1)), "must not be negative"),
        (lambda a: a.plan_offsets("g", ["t"], to=datetime(1960, 1, 1, tzinfo=UTC)), "before 1970"),
        (lambda a: a.plan_offsets("g", ["t"], to=-1), "must be from 0"),
        (lambda a: a.plan_offsets("g", ["t"], shift=1.5), "shift must be an int"),
        (lambda a: a.set_offsets("g", {T0: -1}), "the offset of t-0 must be from 0"),
        (lambda a: a.set_offsets("h", plan_of("g")), "the plan is for group 'g', not 'h'"),
        (lambda a: a.list_consumer_groups(), "use 'list_groups'"),
    ],
)
def test_wrong_calls_are_refused_with_the_right_one(admin: AdminClient, call: object, says: str) -> None:
    with pytest.raises((ConfigError, TypeError, AttributeError), match=says):
        call(admin)  # type: ignore[operator]


def plan_of(group: str) -> OffsetPlan:
    return OffsetPlan(group, (), None)
