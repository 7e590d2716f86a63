"""Calls about the cluster, replicas and transactions: results of several brokers, and refused arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka4 import (
    ActiveProducer,
    AdminClient,
    AuthorizationError,
    ConfigError,
    HangingTransaction,
    Reassignment,
    Replica,
    TopicPartition,
    TransactionDescription,
    TransactionList,
    TransactionListing,
)
from pykafka4.errors.codes import BY_NAME
from pykafka4.messages import DescribeLogDirsResponse, ListTransactionsRequest, ListTransactionsResponse
from pykafka4.testing import ModelServer

T0 = TopicPartition("t", 0)
ENDED = ActiveProducer(4, 1, 2, 1_000, None, None)
Call = Callable[[Any], object]


@pytest.mark.model(release="2.1")
def test_brokers_without_a_description_of_the_cluster_are_asked_for_metadata(admin: AdminClient) -> None:
    found = admin.describe_cluster()
    assert [(broker.id, broker.is_fenced) for broker in found.brokers] == [(1, None), (2, None), (3, None)]


def test_a_broker_that_cannot_list_transactions_does_not_hide_those_of_others(server: ModelServer, admin: AdminClient) -> None:
    kind = ListTransactionsResponse.Transaction

    def answer(call: Any) -> ListTransactionsResponse:
        number = call.broker.node
        if number == 2:
            return ListTransactionsResponse(error_code=BY_NAME["CLUSTER_AUTHORIZATION_FAILED"].code)
        row = kind(transactional_id=f"x{number}", producer_id=7, transaction_state="Ongoing")
        return ListTransactionsResponse(transaction_states=[row])

    def begin(cluster: Any) -> None:  # model brokers do not list transactions
        cluster.versions[ListTransactionsRequest.api_key] = (0, 2)
        cluster.control("ListTransactions", answer, keep=True)

    server.do(begin)
    found = admin.list_transactions()
    assert [one.transactional_id for one in found] == ["x1", "x3"]
    assert [(number, type(error)) for number, error in found.errors.items()] == [(2, AuthorizationError)]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda admin: admin.update_features({"a": -1}), "the level of a"),
        (lambda admin: admin.update_features({"a": 1}, downgrade="yes"), "must be one of no, safe, unsafe"),
        (lambda admin: admin.unregister_broker(-1), "broker"),
        (lambda admin: admin.describe_log_dirs("1"), "list of the numbers of brokers"),
        (lambda admin: admin.alter_replica_log_dirs({Replica("t", 0, 1): "d2"}), "must be an absolute path"),
        (lambda admin: admin.alter_reassignments({T0: "12"}), "list of the numbers of brokers"),
        (lambda admin: admin.list_reassignments(T0), r"list of \(topic, partition\) pairs"),
        (lambda admin: admin.elect_leaders("t"), r"list of \(topic, partition\) pairs"),
        (lambda admin: admin.list_transactions(states="Ongoing"), "list of names"),
        (lambda admin: admin.list_transactions(running_longer_than=-1), "must be a number of seconds"),
        (lambda admin: admin.describe_transactions("x"), "list of transactional ids"),
        (lambda admin: admin.describe_transactions([""]), "list of transactional ids"),
        (lambda admin: admin.find_hanging_transactions("t"), "list of names"),
        (lambda admin: admin.abort_transaction(T0, ENDED), "there is nothing to abort"),
    ],
)
def test_a_wrong_argument_is_named(admin: AdminClient, call: Call, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        call(admin)


def test_an_abort_needs_a_producer_that_was_described(admin: AdminClient) -> None:
    with pytest.raises(TypeError, match="as describe_producers returns"):
        admin.abort_transaction(T0, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Replica"):
        admin.alter_replica_log_dirs({T0: "/d"})


@pytest.mark.model(topics={"t": 1})
def test_nothing_to_ask_asks_nothing(admin: AdminClient) -> None:
    assert admin.alter_reassignments({}) == {}
    assert admin.describe_transactions([]) == {}
    assert admin.describe_producers([]) == {}


def test_a_transaction_hangs_where_its_coordinator_does_not_know_of_it(admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The producer has gone on to its next transaction, in another partition."""
    producer, t1 = ActiveProducer(4, 1, 2, 1_000, None, 7), TopicPartition("t", 1)
    known = TransactionDescription("x", "Ongoing", 1, 4, 1, 60_000, 1_000, (T0,))
    looks = {  # model brokers know none of these requests
        "_open": [(T0, producer), (t1, producer)],
        "_listed": TransactionList((TransactionListing("x", 4, "Ongoing", 1),), {}),
        "_transactions_described": {"x": known},
    }
    for name, found in looks.items():
        monkeypatch.setattr(AdminClient, name, lambda *_, found=found: found)
    assert admin.find_hanging_transactions(["t"]) == [HangingTransaction(t1, producer, "x")]


# node: the size of its replica in each log directory, and whether that is a copy which will replace the other one
SIZES = {1: [(100, False), (30, True)], 2: [(40, False)]}


def test_a_copy_in_another_log_directory_does_not_count_as_the_replica(
    server: ModelServer, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = DescribeLogDirsResponse.Result

    def answer(call: Any) -> Any:
        parts = [
            kind.Topic.Partition(partition_index=0, partition_size=size, is_future_key=future) for size, future in SIZES[call.broker.node]
        ]
        return DescribeLogDirsResponse(results=[kind(log_dir="/d", topics=[kind.Topic(name="t", partitions=[part])]) for part in parts])

    move = Reassignment(replicas=(1, 2), adding=(2,), removing=())
    monkeypatch.setattr(AdminClient, "_reassignments", lambda *_: {T0: move})  # model brokers do not move replicas
    server.do(lambda cluster: cluster.control("DescribeLogDirs", answer, keep=True))
    progress = admin.reassignment_progress()[T0]
    assert (progress.copied_bytes, progress.total_bytes) == (40, 100)
