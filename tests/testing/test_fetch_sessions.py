"""Fetch sessions of the model broker, as Kafka has them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka4.errors.codes import error_code
from pykafka4.testing import ModelCluster
from pykafka4.wire.protocol.fields import MAX_INT32
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from pykafka4.wire.records.batch import WireRecord
from tests.testing.model_client import ModelClient


@pytest.fixture
def cluster() -> ModelCluster:
    cluster = ModelCluster(brokers=2)
    cluster.create_topic("t", 3, leaders=[1, 1, 1])
    return cluster


def topics(cluster: ModelCluster, offsets: dict[int, int], **more: int) -> list[FetchRequest.Topic]:
    parts = [
        FetchRequest.Topic.Partition(partition=n, fetch_offset=offset, **{"partition_max_bytes": 1 << 20, **more})
        for n, offset in offsets.items()
    ]
    return [FetchRequest.Topic(topic="t", topic_id=cluster.topics["t"].id, partitions=parts)] if parts else []


def request(cluster: ModelCluster, offsets: dict[int, int], session: int, epoch: int, forget: tuple[int, ...] = (), **more: Any) -> Any:
    forgotten = [FetchRequest.ForgottenTopic(topic="t", topic_id=cluster.topics["t"].id, partitions=list(forget))] if forget else []
    settings = {"max_wait_ms": 0, "min_bytes": 1, "session_id": session, "session_epoch": epoch, **more}
    return FetchRequest(topics=topics(cluster, offsets), forgotten_topics_data=forgotten, **settings)


def partitions_of(response: FetchResponse) -> list[int]:
    """The partitions of an answer, in their order."""
    assert response.error_code == 0
    return [p.partition_index for t in response.responses for p in t.partitions]


def error(response: FetchResponse) -> str:
    assert (response.session_id, response.responses) == (0, [])
    return error_code(response.error_code).name


def begin(cluster: ModelCluster, offsets: dict[int, int]) -> tuple[ModelClient, int]:
    client = ModelClient(cluster)
    answer = client.call(request(cluster, offsets, 0, 0))
    assert partitions_of(answer) == list(offsets)
    assert answer.session_id > 0
    return client, answer.session_id


def write(cluster: ModelCluster, *partitions: int) -> None:
    for number in partitions:
        cluster.append("t", number, [WireRecord(value=b"x" * 100)])


def test_an_answer_leaves_out_what_did_not_change(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0, 1: 0, 2: 0})
    assert partitions_of(client.call(request(cluster, {}, number, 1))) == []
    write(cluster, 1)
    assert partitions_of(client.call(request(cluster, {}, number, 2))) == [1]
    assert partitions_of(client.call(request(cluster, {1: 1}, number, 3))) == []
    cluster.delete_records("t", 1, 1)
    assert partitions_of(client.call(request(cluster, {}, number, 4))) == [1]  # it begins elsewhere
    cluster.push_error(FetchRequest, "KAFKA_STORAGE_ERROR", topic="t", partition=2)
    assert [partitions_of(client.call(request(cluster, {}, number, epoch))) for epoch in (5, 6, 7)] == [
        [2],
        [2],
        [],
    ]  # the error, and its end


def test_a_partition_stays_in_the_session_until_it_is_named_again_or_forgotten(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0, 1: 0})
    write(cluster, 0, 1, 2)
    assert partitions_of(client.call(request(cluster, {}, number, 1))) == [0, 1]
    assert partitions_of(client.call(request(cluster, {0: 1}, number, 2))) == [1]
    assert partitions_of(client.call(request(cluster, {2: 1}, number, 3, forget=(1,)))) == [2]
    assert partitions_of(client.call(request(cluster, {}, number, 4))) == []
    assert partitions_of(client.call(request(cluster, {1: 1}, number, 5))) == [1]  # new to the session: sent once
    assert partitions_of(client.call(request(cluster, {1: 1}, number, 6))) == []


def test_a_partition_that_had_records_moves_to_the_end_and_one_asked_for_again_comes_last(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0, 1: 0, 2: 0})
    write(cluster, 0, 2)
    assert partitions_of(client.call(request(cluster, {}, number, 1))) == [0, 2]
    write(cluster, 0, 1, 2)
    assert partitions_of(client.call(request(cluster, {}, number, 2))) == [1, 0, 2]
    assert partitions_of(client.call(request(cluster, {1: 0}, number, 3))) == [1, 0, 2]  # what is named again keeps its place
    assert partitions_of(client.call(request(cluster, {}, number, 4, forget=(1,)))) == [0, 2]
    assert partitions_of(client.call(request(cluster, {1: 0}, number, 5))) == [0, 2, 1]
    first = client.call(request(cluster, {}, number, 6, max_bytes=1))
    assert partitions_of(first) == [0]  # the first batch comes whole, the others wait for their turn
    assert partitions_of(client.call(request(cluster, {}, number, 7, max_bytes=1))) == [2]
    assert partitions_of(client.call(request(cluster, {}, number, 8, max_bytes=1))) == [1]


def test_what_a_broker_does_not_know_of_a_session_is_an_error(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0})
    assert error(client.call(request(cluster, {}, number + 1, 1))) == "FETCH_SESSION_ID_NOT_FOUND"
    assert error(client.call(request(cluster, {}, number, 2))) == "INVALID_FETCH_SESSION_EPOCH"
    assert error(client.call(request(cluster, {}, number, 1), 12)) == "FETCH_SESSION_TOPIC_ID_ERROR"
    assert partitions_of(client.call(request(cluster, {}, number, 1))) == []
    cluster.forget_fetch_sessions(2)
    assert partitions_of(client.call(request(cluster, {}, number, 2))) == []
    cluster.forget_fetch_sessions(1)
    assert error(client.call(request(cluster, {}, number, 3))) == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_restart_loses_the_sessions_and_no_number_comes_twice(cluster: ModelCluster) -> None:
    _, number = begin(cluster, {0: 0})
    cluster.stop_broker(1)
    cluster.start_broker(1)
    cluster.move_leader("t", 0, 1)
    assert error(ModelClient(cluster).call(request(cluster, {}, number, 1))) == "FETCH_SESSION_ID_NOT_FOUND"
    assert begin(cluster, {0: 0})[1] != number


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(cluster: ModelCluster, epoch: int) -> None:
    client, number = begin(cluster, {0: 0})
    answer = client.call(request(cluster, {0: 0, 1: 0}, number, epoch))
    assert partitions_of(answer) == [0, 1]
    assert (answer.session_id > 0) is (epoch == 0)
    assert error(client.call(request(cluster, {}, number, 1))) == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_session_without_partitions_ends(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0})
    answer = client.call(request(cluster, {}, number, 1, forget=(0,)))
    assert (partitions_of(answer), answer.session_id) == ([], 0)
    assert error(client.call(request(cluster, {}, number, 2))) == "FETCH_SESSION_ID_NOT_FOUND"


def test_epochs_go_on_at_1_after_the_largest(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0})
    session = cluster.fetch_sessions[1].find(number)
    assert session is not None
    session.epoch = MAX_INT32
    assert partitions_of(client.call(request(cluster, {}, number, MAX_INT32))) == []
    assert partitions_of(client.call(request(cluster, {}, number, 1))) == []


def test_sessions_are_limited_and_the_least_recently_used_one_is_evicted(cluster: ModelCluster) -> None:
    cluster.fetch_sessions[1].slots = 2
    (client, first), (_, second) = begin(cluster, {0: 0, 1: 0}), begin(cluster, {0: 0})
    assert ModelClient(cluster).call(request(cluster, {0: 0}, 0, 0)).session_id == 0
    cluster.timeline.now += 121
    assert partitions_of(client.call(request(cluster, {}, first, 1))) == []
    assert begin(cluster, {2: 0})[1] > second
    assert error(client.call(request(cluster, {}, second, 1))) == "FETCH_SESSION_ID_NOT_FOUND"
    assert ModelClient(cluster).call(request(cluster, {0: 0}, 0, 0)).session_id == 0  # one is larger, one is young
    begin(cluster, {0: 0, 1: 0})
    assert error(client.call(request(cluster, {}, first, 2))) == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_waiting_fetch_of_a_session_hears_of_what_it_does_not_name(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0, 1: 0})
    waiting = client.ask(request(cluster, {}, number, 1, max_wait_ms=500))
    assert waiting not in client.answers
    write(cluster, 1)
    assert partitions_of(client.answers[waiting]) == [1]


def test_a_waiting_fetch_whose_session_went_on_meanwhile_is_refused(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0})
    waiting = client.ask(request(cluster, {}, number, 1, max_wait_ms=500))
    assert partitions_of(ModelClient(cluster).call(request(cluster, {}, number, 2))) == []
    while cluster.timeline.step():
        pass
    assert error_code(client.answers[waiting].error_code).name == "INVALID_FETCH_SESSION_EPOCH"


def test_topics_of_a_session_go_by_name_in_old_versions(cluster: ModelCluster) -> None:
    client = ModelClient(cluster)
    number = client.call(request(cluster, {0: 0, 1: 0}, 0, 0), 12).session_id
    write(cluster, 0, 1)
    assert partitions_of(client.call(request(cluster, {}, number, 1, forget=(0,)), 12)) == [1]
    assert error(client.call(request(cluster, {}, number, 2))) == "FETCH_SESSION_TOPIC_ID_ERROR"


def test_a_topic_created_again_is_another_one_in_a_session(cluster: ModelCluster) -> None:
    client, number = begin(cluster, {0: 0})
    old = cluster.topics["t"].id
    cluster.delete_topic("t")
    gone = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=number, session_epoch=1, topics=[], forgotten_topics_data=[])
    (row,) = client.call(gone).responses
    assert (row.topic_id, error_code(row.partitions[0].error_code).name) == (old, "UNKNOWN_TOPIC_OR_PARTITION")
    cluster.create_topic("t", 3, leaders=[1, 1, 1])
    answer = client.call(request(cluster, {0: 0}, number, 2))
    rows = {(t.topic_id == cluster.topics["t"].id): error_code(t.partitions[0].error_code).name for t in answer.responses}
    assert rows == {False: "INCONSISTENT_TOPIC_ID", True: "NONE"}
    assert UUID(int=0) not in {t.topic_id for t in answer.responses}


def test_a_release_without_sessions_gives_none() -> None:
    cluster = ModelCluster(brokers=1, release="1.0")
    cluster.create_topic("t", 1)
    answer = ModelClient(cluster).call(request(cluster, {0: 0}, 0, 0))
    assert (partitions_of(answer), answer.session_id) == ([0], 0)
