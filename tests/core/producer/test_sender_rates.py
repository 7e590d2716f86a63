"""Sender: a code that repeats costs few requests, with the default backoff; and what each code does without idempotence.

Codes that report the partition to the recovery are left out of the rates: the recovery decides when such a partition is sent to again.
"""

from __future__ import annotations

import pytest

from pykafka4.core import Reply, Request
from pykafka4.errors.codes import CODES
from pykafka4.wire.protocol.messages_produce import ProduceResponse
from tests.core.producer.sender_harness import SenderHarness, records
from tests.core.producer.test_sender_codes import ASK_FOR_METADATA, EVERY_CODE, FAILED, HALVED, MAYBE, RESENT, UNHEARD_OF, expected

MOST = 50  # requests per second
SPAN_S = 10.0  # seconds for which the code repeats
BACKOFF_MS = 100  # retry_backoff_ms by default


def give(harness: SenderHarness, request: Request, code: int) -> None:
    part = ProduceResponse.Topic.Partition(index=0, error_code=code, base_offset=-1 if code else 0)
    topic = ProduceResponse.Topic(name="t", topic_id=request.message.topic_data[0].topic_id, partition_responses=[part])
    request.on_reply(harness.now, Reply(ProduceResponse(responses=[topic]), 13, request.node))


def busiest_second(times: list[float]) -> int:
    return max((sum(start <= at < start + 1 for at in times) for start in times), default=0)


@pytest.mark.parametrize("code", [code for code in [*sorted(CODES), *UNHEARD_OF] if code not in ASK_FOR_METADATA])
@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "not idempotent"])
def test_a_code_that_repeats_costs_few_requests(code: int, idempotent: bool) -> None:
    harness = SenderHarness(enable_idempotence=idempotent, retry_backoff_ms=BACKOFF_MS, linger_ms=10)
    handles = harness.together(b"%d" % n for n in range(8))
    times: list[float] = []
    until, ids = harness.now + SPAN_S, harness.next_id
    for _ in range(2_000):
        while harness.requests:
            times += [harness.now]
            give(harness, harness.requests.pop(0), code)
        wake_at = harness.poll().wake_at
        times += [harness.now] * (harness.next_id - ids)
        ids = harness.next_id
        if not harness.requests:
            harness.now = max(harness.now, min(wake_at, until))
        if harness.now >= until:
            break
    assert harness.now >= until, "it does not turn without end"
    assert times
    assert busiest_second(times) < MOST
    if expected(code)[0] is RESENT:
        assert len(times) > SPAN_S / 2, "it is tried again and again"
        assert not handles[0].done()


@EVERY_CODE
def test_what_a_code_does_without_idempotence(code: int) -> None:
    harness = SenderHarness(enable_idempotence=False, delivery_timeout_ms=60_000)
    first = harness.together([b"a", b"b"])
    second = harness.batch(b"c")
    (request,) = harness.requests
    harness.requests.clear()
    log: list[bytes | None] = [] if code not in (0, 46) else records(request)
    give(harness, request, code)
    what, written = expected(code)
    for _ in range(20):
        harness.poll(1)
        while harness.requests:
            log += records(harness.requests[0])
            give(harness, harness.requests.pop(0), 0)
    error = first[0].exception(0)
    if code == 0:
        assert error is None
    elif what in (RESENT, HALVED):
        assert error is None
        assert log == [b"a", b"b", b"c"]
        assert first[0].result(0).maybe_repeated == (what is RESENT and written is MAYBE)
    elif what is FAILED:
        assert (error.code, error.written) == (str(CODES.get(code, f"UNKNOWN({code})")), written)
        assert log == [b"c"]
    assert second.exception(0) is None, "what is behind it is delivered, whatever came of it"
