"""Identity: a new epoch only by way of RENEWING and settled, a new id where the old one cannot go on."""

from __future__ import annotations

from random import Random

import pytest

from pykafka4.core import Failed, Reply, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.identity import Identity, IdentityState
from pykafka4.error_table import BY_NAME, Written
from pykafka4.errors import AuthorizationError, ConnectionLost, KafkaError, UnsupportedVersion, short_name
from pykafka4.wire.messages_txn import InitProducerIdResponse


class Harness:
    def __init__(self) -> None:
        self.changed = 0
        self.doubts: list[int] = []
        self.identity = Identity(Backoff(0.1, 1.0, Random(1)), 30.0, self.note, lambda now, node: self.doubts.append(node))
        self.now = 0.0

    def note(self) -> None:
        self.changed += 1

    def ask(self) -> Request:
        request = self.identity.ask(self.now)
        assert request is not None
        return request

    def give(self, producer_id: int, epoch: int) -> Request:
        request = self.ask()
        request.on_reply(self.now, Reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch), 4, 1))
        return request

    def refuse(self, name: str) -> None:
        self.ask().on_reply(self.now, Reply(InitProducerIdResponse(error_code=BY_NAME[name].code), 4, 1))

    def fail(self, error: KafkaError) -> None:
        self.ask().on_reply(self.now, Failed(error, Written.MAYBE))


def test_an_id_is_asked_for_once() -> None:
    h = Harness()
    request = h.ask()
    assert h.identity.ask(h.now) is None
    assert (request.message.producer_id, request.message.producer_epoch) == (-1, -1)


def test_a_broker_that_is_silent_is_not_the_only_one_asked_and_one_id_is_taken() -> None:
    h = Harness()
    silent = h.ask()
    h.now = h.identity.wake_at
    h.give(8, 0)
    silent.on_reply(h.now, Reply(InitProducerIdResponse(producer_id=7, producer_epoch=0), 4, 1))
    assert (h.identity.producer_id, h.changed) == (8, 1)


def test_a_renewal_waits_until_it_is_settled_and_goes_on_from_the_old_epoch() -> None:
    h = Harness()
    h.give(7, 0)
    h.identity.renew("lost track")
    assert h.identity.ask(h.now) is None
    assert not h.identity.ready
    h.identity.settle()
    request = h.give(7, 1)
    assert (request.message.producer_id, request.message.producer_epoch) == (7, 0)
    assert (h.identity.epoch, h.changed, h.identity.ready) == (1, 2, True)


def test_settling_without_a_renewal_changes_nothing() -> None:
    h = Harness()
    h.give(7, 0)
    h.identity.settle()
    assert h.identity.state is IdentityState.READY


def test_an_exhausted_epoch_gets_a_new_id() -> None:
    h = Harness()
    h.give(7, 32_766)
    h.identity.renew("x")
    h.identity.settle()
    assert h.ask().message.producer_id == -1


def test_a_broker_that_cannot_raise_epochs_gives_a_new_id() -> None:
    h = Harness()
    h.give(7, 0)
    h.identity.renew("x")
    h.identity.settle()
    h.fail(UnsupportedVersion("producer_id needs InitProducerId 3"))
    assert h.give(8, 0).message.producer_id == -1
    assert h.identity.ready


def test_a_broker_without_producer_ids_is_fatal() -> None:
    h = Harness()
    h.fail(UnsupportedVersion("InitProducerId"))
    assert isinstance(h.identity.fatal, UnsupportedVersion)


@pytest.mark.parametrize("name", ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "UNKNOWN_SERVER_ERROR"])
def test_passing_errors_are_tried_again_after_a_pause(name: str) -> None:
    h = Harness()
    h.refuse(name)
    assert h.identity.ask(h.now) is None
    assert short_name(h.identity.trouble or KafkaError()) == name
    h.now = h.identity.wake_at
    h.give(7, 0)
    assert h.identity.ready
    assert h.identity.trouble is None


def test_a_lost_connection_is_tried_again() -> None:
    h = Harness()
    h.fail(ConnectionLost("gone"))
    h.now = h.identity.wake_at
    h.give(7, 0)
    assert h.identity.ready


def test_no_permission_is_fatal() -> None:
    h = Harness()
    h.refuse("CLUSTER_AUTHORIZATION_FAILED")
    assert isinstance(h.identity.fatal, AuthorizationError)
    assert h.identity.ask(h.now) is None


def test_an_old_epoch_begins_afresh() -> None:
    h = Harness()
    h.give(7, 3)
    h.identity.renew("x")
    h.identity.settle()
    h.refuse("INVALID_PRODUCER_EPOCH")
    h.now = h.identity.wake_at
    assert h.ask().message.producer_id == -1


def test_who_has_no_id_to_give_is_not_asked_first_again() -> None:
    """One that is cut off from the controllers gets none to give."""
    h = Harness()
    h.refuse("COORDINATOR_LOAD_IN_PROGRESS")
    assert h.doubts == [1]
