"""Streams of a consumer that is closed elsewhere, without brokers."""

from __future__ import annotations

import threading

import attrs
import pytest

from pykafka4.consumer.processing.allotment import StreamState
from pykafka4.consumer.processing.dispatcher import Dispatcher
from pykafka4.errors import ClosedError, KafkaError
from pykafka4.wire.records.hot import Record
from tests.consumer.processing.run_fakes import LIMITS, T0, Fakes

LONG_S = 30.0


def test_streams_of_a_closed_consumer_do_not_wait_for_records_in_hand(caplog: pytest.LogCaptureFixture) -> None:
    """The listener waits for them, in the thread that closes."""
    fakes, stream = Fakes(), StreamState("t", "stream 0 of t")
    dispatcher = Dispatcher(fakes, [stream], attrs.evolve(LIMITS, drain=0.0), fakes)
    dispatcher.assign([T0])
    dispatcher.add([Record("t", 0, 5, value=b"v")])
    dispatcher.next_record(stream)
    for error, late in ((ClosedError("closed"), False), (None, True)):
        thread = threading.Thread(target=dispatcher.drain, args=(error,))
        thread.start()
        thread.join(LONG_S)
        assert ("streams still have records in hand" in caplog.text) == late


def test_a_commit_that_the_application_waits_for_fails_when_the_consumer_is_closed() -> None:
    fakes, errors = Fakes(commit_async=ClosedError("closed")), list[KafkaError]()
    dispatcher = Dispatcher(fakes, [StreamState("t", "stream 0 of t")], LIMITS, fakes)

    def commit() -> None:
        try:
            dispatcher.commit(LONG_S)
        except KafkaError as error:
            errors.append(error)

    waiting = threading.Thread(target=commit)
    waiting.start()
    with pytest.raises(ClosedError):
        while waiting.is_alive():
            dispatcher.start_due(0.0)
    waiting.join(LONG_S)
    assert [type(error) for error in errors] == [ClosedError]
