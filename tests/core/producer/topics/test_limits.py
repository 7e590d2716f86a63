"""Size limits of topics: asked for when a broker refuses a batch, applied, and asked for again."""

from __future__ import annotations

from uuid import UUID

import pytest

from pykafka4.core import Failed, Reply
from pykafka4.errors import RecordTooLarge, UnsupportedVersion
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_configs import DescribeConfigsRequest, DescribeConfigsResponse
from tests.core.producer.sender_harness import LOST, SenderHarness


def refused(**options: object) -> SenderHarness:
    """A broker has refused a batch of two records as too large; their halves are acknowledged."""
    harness = SenderHarness(linger_ms=10, **options).proven()
    harness.together([b"a", b"b"])
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    for request in harness.requests:
        harness.answer(request)
    harness.requests.clear()
    return harness


def tell(harness: SenderHarness, size: int | None, error: str = "NONE") -> None:
    """Answer the question about topic t."""
    resource = DescribeConfigsResponse.Resource
    configs = [] if size is None else [resource.Config(name="max.message.bytes", value=str(size), read_only=False, is_sensitive=False)]
    result = resource(error_code=BY_NAME[error].code, error_message=None, resource_type=2, resource_name="t", configs=configs)
    request = harness.questions.pop()
    assert not harness.questions
    request.on_reply(harness.now, Reply(DescribeConfigsResponse(throttle_time_ms=0, results=[result]), 4, 1))
    harness.poll()


def test_brokers_are_asked_for_the_limit_only_after_they_refused_a_batch() -> None:
    harness = SenderHarness().proven()
    harness.batch()
    assert not harness.questions
    harness = refused()
    (request,) = harness.questions
    (resource,) = request.message.resources
    assert isinstance(request.message, DescribeConfigsRequest)
    assert (resource.resource_type, resource.resource_name, resource.configuration_keys) == (2, "t", ["max.message.bytes"])


def test_send_refuses_what_is_larger_than_the_limit_of_the_topic() -> None:
    harness = refused()
    tell(harness, 1000)
    with pytest.raises(RecordTooLarge, match=r"t: a record of \d+ bytes .* exceeds max.message.bytes of the topic=1000"):
        harness.acc.send("t", b"x" * 1000, partition=0)
    harness.batch(b"x" * 800)
    harness.answer(harness.requests.pop())


def test_batches_do_not_grow_beyond_the_limit() -> None:
    harness = refused()
    tell(harness, 1000)
    handles = harness.together([b"x" * 300] * 4)
    sizes = []
    while harness.requests:
        request = harness.requests.pop()
        sizes.append(len(bytes(request.message.topic_data[0].partition_data[0].records)))
        harness.answer(request)
        harness.settle()
    assert max(sizes) <= 1000
    assert len(sizes) == 2
    assert all(handle.done() for handle in handles)


def test_batches_grow_to_the_limit_though_half_of_a_refused_one_is_less() -> None:
    harness = refused()
    tell(harness, 5000)
    harness.together([b"x" * 300] * 10)
    (request,) = harness.requests
    assert 3000 < len(bytes(request.message.topic_data[0].partition_data[0].records)) <= 5000


def test_a_large_record_that_may_become_small_is_sent() -> None:
    harness = refused(compression_type="gzip")
    tell(harness, 1000)
    harness.batch(b"x" * 5000)
    harness.answer(harness.requests.pop())


def test_a_limit_that_was_raised_is_learned_in_time() -> None:
    harness = refused(metadata_max_age_ms=60_000)
    tell(harness, 1000)
    harness.poll(59)
    assert not harness.questions
    harness.poll(1)
    tell(harness, 9000)
    harness.batch(b"x" * 5000)
    harness.answer(harness.requests.pop())


def test_a_limit_that_was_lowered_is_asked_for_when_a_batch_that_fits_is_refused() -> None:
    harness = refused()
    tell(harness, 1000)
    harness.poll(10)
    harness.batch(b"x" * 800)
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    tell(harness, 500)
    with pytest.raises(RecordTooLarge, match="=500;"):
        harness.acc.send("t", b"x" * 800, partition=0)


def test_batches_that_were_in_flight_already_are_no_reason_to_ask_again() -> None:
    harness = refused()
    tell(harness, 1000)
    harness.batch(b"x" * 800)
    harness.answer(harness.requests.pop(), "MESSAGE_TOO_LARGE")
    harness.settle()
    assert not harness.questions


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR"])
def test_without_an_answer_nothing_is_limited_and_not_asked_again_soon(error: str) -> None:
    harness = refused()
    tell(harness, None, error)
    harness.poll(60)
    assert not harness.questions
    harness.batch(b"x" * 5000)
    harness.answer(harness.requests.pop())


def test_an_old_broker_that_cannot_be_asked_is_not_asked_again_soon() -> None:
    harness = refused()
    harness.questions.pop().on_reply(harness.now, Failed(UnsupportedVersion("DescribeConfigs"), Written.NO))
    harness.poll(60)
    assert not harness.questions


def test_the_question_is_repeated_until_it_is_answered() -> None:
    harness = refused()
    harness.questions.pop().on_reply(harness.now, Failed(LOST, Written.MAYBE))
    harness.poll(1)
    tell(harness, None, "UNKNOWN_TOPIC_OR_PARTITION")
    harness.poll(1)
    tell(harness, 1000)
    harness.poll(60)
    assert not harness.questions


def test_a_recreated_topic_has_another_limit() -> None:
    harness = refused()
    tell(harness, 1000)
    harness.cluster.id = UUID(int=8)
    harness.cluster.change()
    harness.settle()
    harness.batch(b"x" * 5000)
    harness.answer(harness.requests.pop())
