"""What a test gives to the model is checked when it is given: the message names the argument, its value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.errors.codes import CODES
from pykafka4.testing import Fault, ModelCluster, ModelServer
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.wire.protocol.messages_admin import CreateTopicsRequest
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.records.batch import WireRecord
from tests.testing.model_client import ModelClient


class Number:
    """An integer of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.fixture
def cluster() -> ModelCluster:
    made = ModelCluster(2)
    made.create_topic("t", 2)
    return made


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"max_message_bytes": "x"}, "max_message_bytes='x' is not an int"),
    ({"max_message_bytes": -1}, "max_message_bytes=-1 must be from 0"),
    ({"before_max_ms": "x"}, "before_max_ms='x' is not an int"),
    ({"after_max_ms": math.nan}, "after_max_ms=nan is not an int"),
    ({"refuse": 5}, "refuse=5 is not a function"),
    ({"remembered": "x"}, "remembered='x' is not an int"),
    ({"remembered": 0}, "remembered=0 must be from 1"),
    ({"duplicate_answer": "x"}, "duplicate_answer='x' is not a DuplicateAnswer"),
    ({"unknown_producer": "x"}, "unknown_producer='x' is not a UnknownProducer"),
    ({"unclean": "yes"}, "unclean='yes' is not a bool"),
    ({"append_time": 1}, "append_time=1 is not a bool"),
    ({"compacted": None}, "compacted=None is not a bool"),
    ({"min_in_sync": 0}, "min_in_sync=0 must be from 1"),
    ({"replicas": 0}, "replicas=0 must be from 1 to 2"),
    ({"replicas": [1]}, r"replicas=\[1\] is not an int"),
    ({"leaders": [1, 9]}, r"leaders\[1\]=9: the brokers are 1, 2"),
    ({"leaders": 5}, "leaders=5 is not a list of brokers"),
    ({"leaders": {0: 1}}, "leaders={0: 1} is not a list of brokers"),
    ({"min_isr": 1}, r"'min_isr' is not a setting of a topic \(.*min_in_sync.*\)"),
]


@pytest.mark.parametrize(("settings", "told"), SETTINGS, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_a_wrong_setting_is_refused_and_no_topic_is_left(cluster: ModelCluster, settings: dict[str, Any], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        cluster.create_topic("new", 2, **settings)
    assert list(cluster.topics) == ["t"]


def test_every_setting_of_a_log_is_checked() -> None:
    from pykafka4.testing.cluster.settings import SETTINGS as CHECKED

    arguments = list(PartitionLog.__init__.__annotations__)
    own = arguments[arguments.index("max_message_bytes") : arguments.index("batches")]
    assert set(own) <= CHECKED.keys()


ORDERS: list[tuple[Callable[[ModelCluster], Any], str]] = [
    (lambda c: c.stop_broker(9), "node=9: the brokers are 1, 2"),
    (lambda c: c.stop_broker(True), "node=True is not an int"),
    (lambda c: c.stop_broker(1, failover="1"), "failover='1' is not a finite, non-negative number"),
    (lambda c: c.start_broker(9), "node=9"),
    (lambda c: c.freeze(1, "1"), "seconds='1'"),
    (lambda c: c.freeze(9, 1), "node=9"),
    (lambda c: c.slow(1, "x"), "seconds='x'"),
    (lambda c: c.slow(1, None), "seconds=None"),
    (lambda c: c.slow(1, math.nan), "seconds=nan"),
    (lambda c: c.slow_follower(9, 1), "node=9"),
    (lambda c: c.pause_replication(9, 1), "node=9"),
    (lambda c: c.drop_connections(9), "node=9"),
    (lambda c: c.deafen(9, 1), "node=9"),
    (lambda c: c.stale_metadata("1"), "seconds='1'"),
    (lambda c: c.hide_topic("t", -1), "seconds=-1"),
    (lambda c: c.move_address(9, "127.0.0.1", 1), "node=9"),
    (lambda c: c.move_coordinator("g", 9), "to=9: the brokers are 1, 2"),
    (lambda c: c.move_coordinator("g", loading="1"), "loading='1'"),
    (lambda c: c.move_leader("t", 0, to=9), "to=9"),
    (lambda c: c.move_leader("tt", 0), "topic='tt': no such topic; did you mean 't'"),
    (lambda c: c.move_leader("t", 2), "partition=2 must be less than 2, the number of partitions of topic 't'"),
    (lambda c: c.move_leader("t", -1), "partition=-1 must be from 0"),
    (lambda c: c.orphan("t", 0, "1"), "seconds='1'"),
    (lambda c: c.lose_leadership_after_append("t", 0, 9), "to=9"),
    (lambda c: c.unclean_election("t", 0, lost="1"), "lost='1'"),
    (lambda c: c.shrink_isr("t", 0, 1, to="1"), "to='1' is not an int"),
    (lambda c: c.throttle("Prodce", 1), "'Prodce' is not the name of an API; did you mean 'Produce'"),
    (lambda c: c.throttle("Produce", "1"), "seconds='1'"),
    (lambda c: c.throttle("Produce", 1, times=1.0), "times=1.0 is not an int"),
    (lambda c: c.inject("Produce", Fault.DELAY, node=9), "node=9: the brokers are 1, 2"),
    (lambda c: c.inject("Produce", Fault.DELAY, times=0), "times=0 must be from 1"),
    (lambda c: c.inject("Produce", Fault.DELAY, seconds=-1), "seconds=-1"),
    (lambda c: c.push_error("Produce", "REQUEST_TIMED_OUT", times=0), "times=0 must be from 1"),
]


@pytest.mark.parametrize(("order", "told"), ORDERS)
def test_a_wrong_order_is_refused_when_it_is_given(cluster: ModelCluster, order: Callable[[ModelCluster], Any], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        order(cluster)
    assert cluster.alive() == [1, 2]
    assert [partition.leader > 0 for partition in cluster.partitions()] == [True, True]


def test_a_leader_has_to_be_a_replica(cluster: ModelCluster) -> None:
    cluster.create_topic("one", 1, replicas=1, leaders=[1])
    with pytest.raises(ValueError, match=r"to=2: the partition's replicas are 1$"):
        cluster.move_leader("one", 0, to=2)


def test_integers_of_other_libraries_and_names_of_apis_are_taken() -> None:
    cluster: Any = ModelCluster(Number(2))  # type: ignore[arg-type]
    cluster.create_topic("t", Number(1), leaders=[Number(2)], replicas=Number(1))
    assert cluster.topics["t"].partitions[0].replicas == (2,)
    cluster.stop_broker(Number(1))
    assert cluster.alive() == [2]
    cluster.throttle("Produce", 0.5)
    assert cluster.controls.throttles == {ProduceRequest.api_key: [0.5]}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"auto_create_topics": "no"}, "auto_create_topics='no' is not a bool"),
        ({"random": 5}, "random=5 is not a Random"),
        ({"release": 3.9}, "release=3.9 must be a string"),
        ({"broker": 1}, r"'broker' is not an option of ModelServer \(.*\); did you mean 'brokers'"),
        ({"timeline": 3}, "'timeline' is not an option of ModelServer"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        ModelServer(**options)


@pytest.mark.model(brokers=1, topics={"t": 1})
def test_faults_and_waits_are_checked(server: ModelServer) -> None:
    wrong: list[tuple[Callable[[Any], Any], str]] = [
        (lambda s: s.fail("Produce", "REQUEST_TIMED_OUT", topic="bad topic"), "topic 'bad topic': a name has"),
        (lambda s: s.fail("Produce", "REQUEST_TIMED_OUT", after="x"), "after='x' is not a bool"),
        (lambda s: s.disconnect("Produce", after=1), "after=1 is not a bool"),
        (lambda s: s.disconnect("Produce", broker=True), "broker=True is not an int"),
        (lambda s: s.delay("Produce", 1, broker=[]), r"broker=\[\] is not an int"),
        (lambda s: s.wait_for(lambda cluster: False, timeout=math.nan), "timeout=nan"),
        (lambda s: s.wait_for(lambda cluster: False, timeout="1"), "timeout='1'"),
    ]
    for call, told in wrong:
        with pytest.raises((TypeError, ValueError), match=told):
            call(server)
    assert server.unmet() == []
    server.wait_for(lambda cluster: True, timeout=None)
    assert server.produce("t", "x", partition=Number(0)) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [("min.insync.replicas", "0"), ("max.message.bytes", "x")])
def test_a_client_that_creates_a_topic_with_a_wrong_config_gets_the_error(cluster: ModelCluster, config: tuple[str, str]) -> None:
    entry = CreateTopicsRequest.Topic.Config(name=config[0], value=config[1])
    wanted = CreateTopicsRequest.Topic(name="new", num_partitions=1, replication_factor=1, configs=[entry])
    answer = ModelClient(cluster).call(CreateTopicsRequest(topics=[wanted]), 5).topics[0]
    assert CODES[answer.error_code].name == "INVALID_CONFIG"
    assert list(cluster.topics) == ["t"]


def test_to_is_an_offset_where_records_are_deleted() -> None:
    cluster = ModelCluster(3)
    cluster.create_topic("t", 1)
    cluster.append("t", 0, [WireRecord(value=b"v") for _ in range(20)])
    cluster.delete_records("t", 0, 17)
    assert cluster.log("t", 0).start_offset == 17
    with pytest.raises(ValueError, match="to=-1"):
        cluster.delete_records("t", 0, -1)
