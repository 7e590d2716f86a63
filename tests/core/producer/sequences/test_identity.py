"""Identity: which queue uses which producer id and epoch, and when another id is requested."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykafka4.core import Failed, Reply, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.troubles import Troubles
from pykafka4.core.outbox import Outbox
from pykafka4.core.producer.sequences.identity import Identity, IdentityState
from pykafka4.errors import AuthorizationError, ConnectionLost, KafkaError, UnsupportedVersion, short_name
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_txn import InitProducerIdResponse


class Harness:
    def __init__(self) -> None:
        self.changed = 0
        self.avoided: list[int] = []
        self.troubles = Troubles("c")
        network: Any = self
        self.denials: list[float] = []
        self.identity = Identity(network, Backoff(0.1, 1.0, Random(1)), 30.0, self)
        self.now = self.wake_at = 0.0

    def avoid(self, now: float, node: int) -> None:
        self.avoided.append(node)

    def id_arrived(self) -> None:
        self.changed += 1

    def id_denied(self, now: float) -> None:
        self.denials.append(now)

    def poll(self) -> list[Request]:
        outbox = Outbox()
        self.wake_at = self.identity.poll(self.now, outbox)
        return outbox.requests

    def ask(self) -> Request:
        (request,) = self.poll()
        return request

    def wait(self) -> None:
        """Until the next request is due."""
        assert self.poll() == []
        self.now = self.wake_at

    def give(self, producer_id: int, epoch: int) -> Request:
        request = self.ask()
        request.on_reply(self.now, Reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch), 4, 1))
        return request

    def refuse(self, name: str) -> None:
        self.ask().on_reply(self.now, Reply(InitProducerIdResponse(error_code=BY_NAME[name].code), 4, 1))

    def fail(self, error: KafkaError) -> None:
        self.ask().on_reply(self.now, Failed(error, Written.MAYBE))


def test_a_producer_id_is_requested_once() -> None:
    h = Harness()
    request = h.ask()
    assert h.poll() == []
    assert (request.message.producer_id, request.message.producer_epoch) == (-1, -1)


def test_a_silent_broker_is_not_the_only_one_asked_and_one_producer_id_is_taken() -> None:
    h = Harness()
    silent = h.ask()
    h.wait()
    h.give(8, 0)
    silent.on_reply(h.now, Reply(InitProducerIdResponse(producer_id=7, producer_epoch=0), 4, 1))
    assert (h.identity.producer_id, h.changed) == (8, 1)


def test_a_new_queue_begins_in_the_epoch_that_the_broker_gave() -> None:
    h = Harness()
    assert h.identity.after(-1, -1, False) is None
    h.give(7, 3)
    assert h.identity.after(-1, -1, False) == (7, 3)


def test_a_producer_id_that_was_used_before_is_rejected_and_requested_again_after_a_pause() -> None:
    h = Harness()
    h.give(-1, 0)
    assert h.identity.after(-1, -1, False) is None
    h.wait()
    h.give(7, 0)
    h.identity.forget(7, 4)
    assert h.identity.after(7, 3, True) is None
    h.give(7, 0)
    assert h.identity.after(-1, -1, False) == (7, 5), "epochs that a partition may have seen are not given again"
    assert "the broker returned 7" in str(h.identity.trouble)
    h.wait()
    h.give(8, 0)
    assert h.identity.after(7, 3, True) == (8, 0)


def test_a_queue_continues_in_the_next_epoch_without_asking_a_broker() -> None:
    h = Harness()
    h.give(7, 0)
    assert h.identity.after(7, 4, False) == (7, 5)
    assert h.poll() == []


@pytest.mark.parametrize(("epoch", "spent"), [(32_767, False), (4, True)])
def test_another_producer_id_is_requested_when_the_current_one_is_invalid(epoch: int, spent: bool) -> None:
    h = Harness()
    h.give(7, 0)
    assert h.identity.after(7, epoch, spent) is None
    assert h.identity.after(-1, -1, False) == (7, 0), "other partitions can still use it"
    assert h.give(8, 0).message.producer_id == -1
    assert h.identity.after(7, epoch, spent) == (8, 0)
    assert h.changed == 2


def test_epoch_32_766_is_followed_by_the_last_one() -> None:
    h = Harness()
    h.give(7, 0)
    assert h.identity.after(7, 32_766, False) == (7, 32_767)


def test_a_queue_left_behind_on_an_older_id_takes_the_newer_one_without_asking() -> None:
    h = Harness()
    h.give(7, 0)
    h.identity.after(7, 1, True)
    h.give(8, 0)
    assert h.identity.after(7, 1, True) == (8, 0)
    assert h.poll() == []


def test_a_queue_made_after_others_were_dropped_begins_in_a_later_epoch_than_theirs() -> None:
    h = Harness()
    h.give(7, 0)
    h.identity.forget(7, 5)
    h.identity.forget(7, 2)
    assert h.identity.after(-1, -1, False) == (7, 6)
    h.identity.forget(99, 900)
    assert h.identity.after(-1, -1, False) == (7, 6), "epochs of another id do not count"


def test_an_id_whose_epochs_are_used_up_is_not_given_to_new_queues() -> None:
    h = Harness()
    h.give(7, 0)
    h.identity.forget(7, 32_767)
    assert h.identity.after(-1, -1, False) is None
    h.give(8, 0)
    assert h.identity.after(-1, -1, False) == (8, 0)


@pytest.mark.parametrize("error", [UnsupportedVersion("InitProducerId"), None])
def test_a_producer_that_has_an_id_is_not_finished_when_it_gets_no_other(error: KafkaError | None) -> None:
    h = Harness()
    h.give(7, 0)
    h.identity.after(7, 0, True)
    if error is None:
        h.refuse("CLUSTER_AUTHORIZATION_FAILED")
    else:
        h.fail(error)
    assert h.identity.fatal is None
    assert h.identity.trouble is not None
    h.wait()
    h.give(8, 0)
    assert h.identity.trouble is None


def test_a_broker_without_producer_ids_is_fatal() -> None:
    h = Harness()
    h.fail(UnsupportedVersion("InitProducerId"))
    assert isinstance(h.identity.fatal, UnsupportedVersion)


@pytest.mark.parametrize("producer_id", [0, 8])
def test_a_producer_that_has_an_id_goes_on_with_it_when_another_one_is_refused(producer_id: int) -> None:
    """Brokers number from 0."""
    h = Harness()
    h.give(producer_id, 0)
    assert h.identity.after(producer_id, 0, True) is None
    h.refuse("CLUSTER_AUTHORIZATION_FAILED")
    assert h.identity.fatal is None


@pytest.mark.parametrize("name", ["COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "UNKNOWN_SERVER_ERROR"])
def test_passing_errors_are_tried_again_after_a_pause(name: str) -> None:
    h = Harness()
    h.refuse(name)
    assert short_name(h.identity.trouble or KafkaError()) == name
    h.wait()
    h.give(7, 0)
    assert h.identity.state is IdentityState.READY
    assert h.identity.trouble is None


def test_a_lost_connection_is_tried_again() -> None:
    h = Harness()
    h.fail(ConnectionLost("gone"))
    h.wait()
    h.give(7, 0)
    assert h.identity.state is IdentityState.READY


def test_a_denied_producer_id_is_requested_again_after_a_pause() -> None:
    h = Harness()
    h.refuse("CLUSTER_AUTHORIZATION_FAILED")
    assert h.identity.fatal is None
    assert isinstance(h.identity.denied, AuthorizationError)
    assert h.denials == [h.now]
    h.wait()
    h.give(7, 0)
    assert h.identity.state is IdentityState.READY
    assert h.identity.denied is None


def test_only_a_denial_is_reported_as_one() -> None:
    h = Harness()
    h.refuse("COORDINATOR_LOAD_IN_PROGRESS")
    assert h.identity.denied is None
    h.wait()
    h.fail(UnsupportedVersion("InitProducerId"))
    assert h.denials == []


def test_a_broker_that_had_no_producer_id_is_not_asked_first_again() -> None:
    """One that is cut off from the controllers gets none to give."""
    h = Harness()
    h.refuse("COORDINATOR_LOAD_IN_PROGRESS")
    assert h.avoided == [1]
