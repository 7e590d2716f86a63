"""Errors: one table, every code named, none lost."""

from __future__ import annotations

import ast
import copy
import multiprocessing
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import pykafka4
from pykafka4 import errors
from pykafka4.errors import (
    AuthorizationError,
    BrokerError,
    ClosedError,
    CorruptRecord,
    DeliveryFailed,
    DeserializationError,
    GroupError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLarge,
    broker_error,
    codes,
    short_name,
)
from pykafka4.errors.codes import BY_NAME, CODES, ProduceReaction, Refresh, error_code
from pykafka4.records import ProducerRecord, Written
from pykafka4.wire.records import hot


def test_the_table_has_every_code_up_to_the_newest() -> None:
    assert sorted(CODES) == list(range(-1, 137))
    assert len(BY_NAME) == len(CODES)


def test_the_table_lists_the_modules_that_decide_by_name() -> None:
    root = Path(pykafka4.__file__).parent
    deciding = {
        path.relative_to(root / "core").with_suffix("").as_posix().replace("/", ".")
        for path in (root / "core").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in BY_NAME and node.value != "NONE"
    }
    assert deciding == set(re.findall(r"^    ([a-z_.]+)  ", codes.__doc__ or "", re.MULTILINE))


def test_an_unknown_code_is_kept_and_taken_for_maybe_written() -> None:
    row = error_code(999)
    assert str(row) == "UNKNOWN(999)"
    assert (row.retriable, row.produce, row.written) == (False, ProduceReaction.FAIL, Written.MAYBE)
    assert "UNKNOWN(999)" in str(broker_error(999, "t-0"))


@pytest.mark.parametrize("name", ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"])
def test_too_few_replicas_is_waited_out(name: str) -> None:
    assert BY_NAME[name].produce is ProduceReaction.RESEND


def test_not_written_is_said_only_for_errors_raised_before_the_append() -> None:
    """From reading KafkaApis, ReplicaManager, DelayedProduce, LogValidator and ProducerStateManager."""
    assert {row.name for row in CODES.values() if row.written is Written.NO} == {
        "NONE",
        "CORRUPT_MESSAGE",
        "MESSAGE_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "RECORD_LIST_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",
        "INVALID_REQUIRED_ACKS",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TIMESTAMP",
        "UNSUPPORTED_VERSION",
        "INVALID_REQUEST",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "DUPLICATE_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_ID_MAPPING",
        "CONCURRENT_TRANSACTIONS",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNKNOWN_PRODUCER_ID",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "INVALID_RECORD",
        "PRODUCER_FENCED",
        "TRANSACTION_ABORTABLE",
    }


def test_every_error_without_a_leader_requests_metadata() -> None:
    for name in (
        "NOT_LEADER_OR_FOLLOWER",
        "LEADER_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "KAFKA_STORAGE_ERROR",
        "FENCED_LEADER_EPOCH",
    ):
        assert (BY_NAME[name].produce, BY_NAME[name].refresh) == (ProduceReaction.RESEND, Refresh.METADATA), name


def test_only_retriable_errors_are_resent() -> None:
    assert all(row.retriable for row in CODES.values() if row.produce is ProduceReaction.RESEND)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TOPIC_AUTHORIZATION_FAILED", AuthorizationError),
        ("UNKNOWN_MEMBER_ID", GroupError),
        ("PRODUCER_FENCED", ProducerFencedError),
        ("INVALID_RECORD", BrokerError),
    ],
)
def test_codes_have_their_class(name: str, kind: type[BrokerError]) -> None:
    error = broker_error(BY_NAME[name].code, "t-0", "because")
    assert type(error) is kind
    assert str(error) == f"t-0: {name} (because)"


def test_a_failed_delivery_names_place_reason_and_whether_it_was_written() -> None:
    cause = KafkaTimeoutError("no answer")
    assert str(DeliveryFailed("orders", 3, "NOT_ENOUGH_REPLICAS", Written.NO)) == "orders-3: NOT_ENOUGH_REPLICAS, not written"
    assert str(DeliveryFailed("orders", None, "TIMED_OUT", Written.MAYBE, cause=cause)) == "orders: TIMED_OUT, maybe written (no answer)"


def test_every_error_has_a_short_name() -> None:
    assert short_name(broker_error(6, "x")) == "NOT_LEADER_OR_FOLLOWER"
    assert short_name(ClosedError("x")) == "CLOSED"
    assert short_name(KafkaError("x")) == "CLIENT_ERROR"
    assert short_name(MemoryError()) == "MemoryError"


def examples() -> list[KafkaError]:
    """One of every class, with every attribute set."""
    cause = KafkaTimeoutError("no answer")
    record = ProducerRecord("t", b"v", b"k", (("h", None),), 3, 5, Written.MAYBE)
    made: dict[type[KafkaError], KafkaError] = {
        BrokerError: broker_error(BY_NAME["INVALID_RECORD"].code, "t-0", "because"),
        CorruptRecord: CorruptRecord("t", 1, 7, "bad checksum", 9),
        DeserializationError: DeserializationError(hot.Record("t", 1, 7), "value", "no JSON"),
        DeliveryFailed: DeliveryFailed("t", 3, "TIMED_OUT", Written.MAYBE, record, cause),
        RecordTooLarge: RecordTooLarge.fetched("t", 1, 7, "too large", 9),
    }
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, KafkaError)]
    for kind in classes:
        if kind not in made:
            made[kind] = kind(BY_NAME["UNKNOWN_MEMBER_ID"], "g", "detail") if issubclass(kind, BrokerError) else kind("what happened")
    return list(made.values())


@pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy, lambda e: e.again()])
@pytest.mark.parametrize("error", examples(), ids=lambda e: type(e).__name__)
def test_every_error_survives_pickling_with_all_it_says(error: KafkaError, again: Callable[[KafkaError], KafkaError]) -> None:
    error.add_note("a note")
    error.__cause__ = ClosedError("the cause")
    other = again(error)
    assert type(other) is type(error)
    assert other is not error
    assert (str(other), repr(other), other.args) == (str(error), repr(error), error.args)
    assert set(vars(other)) == set(vars(error))
    for name, value in vars(error).items():
        mine = getattr(other, name)
        assert (type(mine), str(mine)) == (type(value), str(value)), name
    assert str(other.__cause__) == "the cause"
    assert other.__traceback__ is None
    if isinstance(error, OSError):
        assert isinstance(other, OSError)


def test_errors_come_back_from_a_worker_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(DeliveryFailed) as failed:
            pool.apply(
                raise_it, (DeliveryFailed("t", 3, "TIMED_OUT", Written.MAYBE, ProducerRecord("t", b"v"), KafkaTimeoutError("late")),)
            )
        with pytest.raises(GroupError) as refused:
            pool.apply(raise_it, (broker_error(BY_NAME["UNKNOWN_MEMBER_ID"].code, "group g"),))
    assert failed.value.record == ProducerRecord("t", b"v")
    assert failed.value.written is Written.MAYBE
    assert refused.value.code == BY_NAME["UNKNOWN_MEMBER_ID"]


def raise_it(error: BaseException) -> None:
    raise error


def test_the_traceback_of_an_error_raised_again_is_that_of_one_raise() -> None:
    stored = ClosedError("closed")
    stored.__cause__ = ValueError("the cause")
    for _ in range(3):
        with pytest.raises(ClosedError) as caught:
            raise stored.again()
        assert caught.value.__traceback__ is not None
        assert caught.value.__traceback__.tb_next is None
        assert caught.value.__cause__ is stored.__cause__
    assert stored.__traceback__ is None


def test_notes_of_an_error_raised_again_are_its_own() -> None:
    error = KafkaError("broken")
    error.add_note("first")
    again = error.again()
    again.add_note("second")
    assert error.__notes__ == ["first"]
    assert again.__notes__ == ["first", "second"]


def test_an_error_of_a_broker_says_whether_another_try_can_help() -> None:
    assert BrokerError(6, "t-0").retriable
    assert not BrokerError(29, "t").retriable


@pytest.mark.parametrize("code", [6, 29, 12345])
def test_the_number_of_a_brokers_error_is_kept(code: int) -> None:
    assert BrokerError(code, "t-0").code.code == code


@pytest.mark.parametrize("name", ["FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"])
def test_codes_about_membership_are_group_errors(name: str) -> None:
    assert type(broker_error(BY_NAME[name].code, "commit")) is GroupError
