"""Secret filter: the texts in responses are filtered where they are decoded, whatever the message."""

from __future__ import annotations

import attrs
import pytest

from pykafka4.core.network.connection import Connection
from pykafka4.core.network.secret_filter import SecretFilter
from pykafka4.errors.peer_text import UNSHOWN
from pykafka4.wire.protocol import declared  # noqa: F401  # importing it fills REQUESTS
from pykafka4.wire.protocol.fields import array, spec_of
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka4.wire.protocol.messages_sasl import SaslAuthenticateResponse
from pykafka4.wire.protocol.schema import REQUESTS
from tests.core.network.sasl_harness import SECRET, Broker
from tests.core.scripted_brokers import config, frame, read, request, versions

FORGED = "no\x1b[2J\n2026-01-01 CRITICAL forged " + "x" * 32_000


def fields_of(cls: type) -> list[tuple[str, bool]]:
    found = []
    for field in attrs.fields(cls):
        kind = spec_of(field).type
        while isinstance(kind, array):
            kind = kind.of
        found += fields_of(kind) if attrs.has(kind) and "wire" in attrs.fields(kind)[0].metadata else []  # type: ignore[arg-type]
        found.append((f"{cls.__qualname__}.{field.name}", spec_of(field).words))
    return found


def test_every_error_message_of_a_response_is_filtered_as_it_is_decoded() -> None:
    """But that of SaslAuthenticate, which its mechanism filters: only the mechanism knows all secrets of the exchange."""
    ours = [cls for cls in REQUESTS.values() if cls.__module__.startswith("pykafka4.")]  # other tests declare messages of their own
    responses = [cls.response for cls in ours if cls.response is not SaslAuthenticateResponse]
    fields = [field for response in responses for field in fields_of(response)]
    assert sum(words for _, words in fields) > 15
    assert [name for name, words in fields if name.endswith("error_message") and not words] == []


def test_control_characters_and_length_are_gone_before_anything_sees_the_message() -> None:
    connection = Connection(1, 7, config(), 10.0, "b1:9092")
    connection.connected(0.0)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(versions(), header.version, header.correlation_id))
    asked, _ = request(message=FindCoordinatorRequest(key="g"), max_version=3)
    connection.submit(0.0, asked)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(FindCoordinatorResponse(error_code=15, error_message=FORGED), header.version, header.correlation_id))
    ((_, outcome),) = connection.answers
    assert outcome.message.error_message.startswith(r"no\x1b[2J\n2026")
    assert outcome.message.error_message.isprintable()
    assert len(outcome.message.error_message) < 300


@pytest.mark.parametrize(("said", "shown"), [(f"wrong: {SECRET}", UNSHOWN), ("me, go away", "<hidden>, go away")])
def test_secrets_of_the_exchange_are_left_out_of_later_responses(said: str, shown: str) -> None:
    broker = Broker().ready()
    answers = broker.submit(message=FindCoordinatorRequest(key="g"), max_version=3)
    broker.written()
    broker.answer(FindCoordinatorResponse(error_code=15, error_message=said))
    broker.settle()
    assert answers.reply.message.error_message == shown


def test_an_old_password_is_known_for_a_while_and_then_forgotten() -> None:
    secrets = SecretFilter(config())
    secrets.learn(("old-password",), "me")
    for _ in range(5):
        secrets.learn(("new-password",), "me")
    assert secrets.filter("old-password") == UNSHOWN, "connections of before may still repeat it"
    for number in range(4):
        secrets.learn((f"password-{number}",), "me")
    assert secrets.filter("new-password") == "new-password"


def test_an_advertised_host_that_repeats_a_secret_is_withheld() -> None:
    secrets = SecretFilter(config(bootstrap_servers="kafka-production:9092"))
    secrets.learn(("kafka-production", "long-password"), "kafka")
    assert secrets.host("long-password.evil.example") == UNSHOWN
    assert secrets.host("kafka-production") == "kafka-production", "a bad password, and no secret"
    assert secrets.host("kafka-production-2.example") == "kafka-production-2.example"


def test_a_bootstrap_host_is_shown_although_a_password_begins_with_it() -> None:
    secrets = SecretFilter(config(bootstrap_servers="kafka-production:9092"))
    secrets.learn(("kafka-production-2026",), "me")
    assert secrets.host("kafka-production") == "kafka-production"
    assert secrets.host("kafka-production-2") == UNSHOWN
