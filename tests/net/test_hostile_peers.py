"""Something else where a broker should be. The whole client says soon what it is and where, takes little memory, and later works again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("trustme")

from pykafka4 import AuthenticationError, Client, Consumer, DeliveryFailed, KafkaError, KafkaTimeoutError, Producer
from pykafka4.core.network import refusals
from pykafka4.testing import ModelServer
from tests.core.sasl.sasl_peer import PASSWORD, hostile
from tests.net.hostile_peers import PEERS, PROTOCOLS, Place, options
from tests.net.net_helpers import SECONDS
from tests.wire.hostile_bytes import edited
from tests.wire.memory_meter import peak_memory

T = TypeVar("T")
few = settings(hostile, max_examples=max(20, hostile.max_examples // 10))
PATIENCE_S = 2.0  # seconds of the delivery timeout, and of each call
SOON_S = 10.0  # seconds in which the client must have said it
NO_TLS = "does not speak TLS: use its TLS port, or a security_protocol without SSL"
SPEAKS_TLS = "the broker speaks TLS: set security_protocol to SSL or SASL_SSL"
SAID = {  # what is said of it without TLS, and over TLS; what has an asterisk is no AuthenticationError
    "HTTP": ("*the peer speaks HTTP", "the peer speaks HTTP"),
    "SSH": ("*the peer speaks SSH", "the peer speaks SSH"),
    "SMTP": ("*the peer speaks SMTP or FTP", "the peer speaks SMTP"),
    "alert": (SPEAKS_TLS, "no TLS version or cipher in common"),
    "TLS": ("*its listener may demand TLS: set security_protocol to SSL or SASL_SSL", "*has not responded yet"),
    "garbage": ("*the peer does not speak Kafka; is the port right?", NO_TLS),
    "frames": ("*is it a Kafka broker?", NO_TLS),
    "large": ("*is it a Kafka broker?", NO_TLS),
    "drip": ("*has not responded yet", NO_TLS),
    "drip of TLS": (SPEAKS_TLS, "*has not responded yet"),
    "silence": ("*has not responded yet", "*has not responded yet"),
}


class Case:
    """A peer, and a client that takes it for a broker."""

    def __init__(self, stack: ExitStack, protocol: str, name: str) -> None:
        words = SAID[name][protocol.endswith("SSL")]
        self.words, self.kind = words.lstrip("*"), KafkaTimeoutError if words[0] == "*" else AuthenticationError
        self.model = stack.enter_context(ModelServer(brokers=1))
        self.place = Place(self.model, protocol, PEERS[name])
        stack.callback(self.place.stop)
        setup = {"socket_connection_setup_timeout_ms": 1_500 * PATIENCE_S}  # no peer is given up before the calls are
        client = stack.enter_context(Client(bootstrap_servers=self.place.address, **setup, **options(protocol)))
        self.client, self.producer = (
            client,
            stack.enter_context(Producer(client=client, delivery_timeout_ms=PATIENCE_S * 1000, linger_ms=0)),
        )
        self.consumer = stack.enter_context(Consumer(client=client, auto_offset_reset="earliest"))
        self.consumer.assign([("t", 0)])

    def is_told(self) -> None:
        began = time.monotonic()
        delivery = self.producer.send("t", b"lost", partition=0)
        self.check(raised(lambda: self.client.partitions_for("t", PATIENCE_S)))
        failed = raised(lambda: delivery.result(SOON_S))
        assert isinstance(failed, DeliveryFailed)
        self.check(failed.cause)
        if self.kind is AuthenticationError:
            self.check(raised(lambda: self.consumer.poll(PATIENCE_S)))
        else:
            assert self.consumer.poll(0.1) == [], "a broker may be there later"
        assert time.monotonic() - began < SOON_S

    def check(self, error: Any) -> None:
        assert type(error) is self.kind, repr(error)
        check(error, self.place.address, self.words)

    def works_again(self) -> None:
        self.place.become(None)
        found = until_taken(lambda: self.producer.send("t", b"found", partition=0).result(SECONDS))
        assert found.offset == 0
        assert self.client.partitions_for("t", SECONDS)
        records = until_taken(lambda: self.consumer.poll(SECONDS))
        assert [record.value for record in records] == [record.value for record in self.model.records("t")] == [b"found"]


def until_taken(call: Callable[[], T]) -> T:
    """Its result, once there is one: what was refused before may still be told, and the backoff is longer than the delivery timeout."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return call()
        except (AuthenticationError, DeliveryFailed):
            assert time.monotonic() < deadline


def check(error: BaseException, *words: str) -> None:
    """It says this, not too much, and no secret."""
    for word in words:
        assert word in str(error)
    assert len(str(error)) < 1000
    assert PASSWORD not in f"{error!r} {error.__cause__!r} {error.__context__!r}"


def raised(call: Callable[[], object]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value


@pytest.mark.filterwarnings("ignore:security_protocol=SASL_PLAINTEXT")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_no_broker_is_named_soon_and_a_broker_in_its_place_is_used(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes seconds: a silent peer is named when the delivery timeout is over, all kinds of peers at once."""
    monkeypatch.setattr(refusals, "LONGEST_PAUSE_S", 0.5)  # the broker in its place is found soon
    with ExitStack() as stack, ThreadPoolExecutor(len(PEERS)) as at_once:
        cases = [Case(stack, protocol, name) for name in PEERS]
        with peak_memory():
            for told in [at_once.submit(case.is_told) for case in cases]:
                told.result(3 * SECONDS)
        for works in [at_once.submit(case.works_again) for case in cases]:
            works.result(3 * SECONDS)


# -- a broker whose words are damaged until the client is authenticated

EDITS = st.lists(st.tuples(st.integers(0, 150), st.sampled_from([0, 1, 1, 4, 300]), st.binary(max_size=4)), min_size=1, max_size=3)


class Damage:
    """What happens to the frame of this number; the others stay."""

    def __init__(self, number: int, edits: list[tuple[int, int, bytes]]) -> None:
        self.number, self.edits, self.seen = number, edits, 0

    def __call__(self, frame: bytes) -> bytes:
        self.seen += 1
        return edited(frame, self.edits) if self.seen % FRAMES == self.number else frame


FRAMES = 4  # ApiVersions, SaslHandshake, and two of SCRAM


@pytest.fixture(scope="module")
def shaky() -> Iterator[tuple[Place, Client]]:
    with ModelServer(brokers=1) as model, pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "FIRST_PAUSE_S", 0.01)
        patch.setattr(refusals, "LONGEST_PAUSE_S", 0.01)
        place = Place(model, "SASL_SSL")
        with Client(bootstrap_servers=place.address, **options("SASL_SSL"), **QUICK) as client:
            yield place, client
        place.stop()


QUICK = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 10, "socket_connection_setup_timeout_ms": 300}


@given(number=st.integers(0, FRAMES - 1), edits=EDITS)
@few
def test_a_broker_with_damaged_words_is_refused_or_taken_and_the_client_goes_on(
    shaky: tuple[Place, Client], number: int, edits: list[tuple[int, int, bytes]]
) -> None:
    """Takes seconds: a client that is only kept waiting does so for 0.3 s in each example."""
    place, client = shaky
    place.become(None)  # nobody is connected
    place.mangle = Damage(number, edits)
    try:
        client.refresh_metadata(timeout=0.3)
    except (AuthenticationError, KafkaTimeoutError) as error:
        check(error, place.address if "reachable" in str(error) or isinstance(error, AuthenticationError) else "")  # else it is only slow
    place.mangle = bytes
    until_taken(lambda: client.refresh_metadata(timeout=SECONDS))
