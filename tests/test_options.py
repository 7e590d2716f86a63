"""Every option reaches the wire or the behaviour of a real producer, consumer or client. Invariant: an option without a row fails.

A row is a test of this module (`@shows`), with the client on a model cluster that keeps the requests, or the name of a test in another
module, for the timers of machines that only a fake clock can test.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from pykafka4 import BufferFull, Client, ConfigError, Consumer, DeliveryFailed, KafkaTimeoutError, Producer, RecordTooLarge
from pykafka4.core.group.encoding import group_member
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest
from pykafka4.wire.records.compression import CODECS
from pykafka4.wire.records.hot import murmur2
from tests.net.net_helpers import SECONDS, closed_port, until
from tests.net.proxy_servers import SERVERS

TLS_HANDSHAKE = b"\x16"  # the type of the first record of a connection
# The test of each option that needs more than a model cluster, wherever that test is.
ELSEWHERE = {
    "ssl_cafile": "test_authorities_come_from_a_file_or_a_text",
    "ssl_ca_pem": "test_authorities_come_from_a_file_or_a_text",
    "ssl_certfile": "test_a_client_certificate_is_taken_in_every_form",
    "ssl_cert_pem": "test_a_client_certificate_is_taken_in_every_form",
    "ssl_keyfile": "test_a_client_certificate_is_taken_in_every_form",
    "ssl_key_pem": "test_a_client_certificate_is_taken_in_every_form",
    "ssl_password": "test_what_is_wrong_with_a_password_is_said",
    "ssl_check_hostname": "test_options_reach_the_context",
    "ssl_ciphers": "test_options_reach_the_context",
    "ssl_context": "test_a_given_context_is_used_as_it_is",
    "enable_metrics_push": "test_a_share_consumer_pushes_and_the_option_turns_pushes_off",
    "sasl_mechanism": "test_the_nonces_of_two_connections_differ",
    "sasl_username": "test_both_callables_are_asked_for_each_connection_and_their_answers_are_used_together",
    "sasl_password": "test_both_callables_are_asked_for_each_connection_and_their_answers_are_used_together",
    "sasl_delegation_token": "test_the_credentials_of_a_delegation_token_are_named_as_such",
    "sasl_oauth_token": "test_a_token_is_used_again_until_four_fifths_of_its_life_are_over",
    "sasl_kerberos_service_name": "test_the_options_say_whose_ticket_for_which_service",
    "sasl_kerberos_principal": "test_the_options_say_whose_ticket_for_which_service",
    "sasl_kerberos_keytab": "test_with_a_keytab_the_library_gets_the_tickets_and_keeps_them_in_memory",
    "retry_backoff_ms": "test_a_refused_batch_goes_out_again_after_a_pause_that_grows_and_that_an_acknowledgement_resets",
    "retry_backoff_max_ms": "test_the_pause_before_another_try_grows_to_its_maximum",
    "reconnect_backoff_ms": "test_a_wanted_connection_is_retried_with_a_growing_back_off",
    "reconnect_backoff_max_ms": "test_a_wanted_connection_is_retried_with_a_growing_back_off",
    "socket_connection_setup_timeout_ms": "test_a_silent_address_is_given_up_at_the_setup_timeout_which_grows_to_its_maximum",
    "socket_connection_setup_timeout_max_ms": "test_a_silent_address_is_given_up_at_the_setup_timeout_which_grows_to_its_maximum",
    "connections_max_idle_ms": "test_an_unused_connection_is_closed_and_one_in_use_is_not",
    "metadata_max_age_ms": "test_metadata_is_refreshed_before_its_maximum_age_and_not_in_step_with_other_clients",
    "metadata_max_idle_ms": "test_topics_unused_for_long_are_dropped_and_can_be_used_again",
    "retries": "test_without_retries_a_lost_connection_fails_the_batch_as_maybe_written_and_the_next_record_goes_on",
    "max_failed_attempts": "test_max_failed_attempts_counts_error_responses_and_not_lost_connections",
    "receive_message_max_bytes": "test_a_batch_over_the_fetch_limit_is_reported_and_delays_no_other_partition",
    "max_decompressed_bytes": "test_a_batch_that_unpacks_to_too_much_is_refused_by_name_and_can_be_passed",
    "prefetch_bytes": "test_one_answer_is_asked_to_fit_into_the_room_that_is_left",
    "heartbeat_interval_ms": "test_heartbeats_follow_each_other_at_their_interval",
}
ROWS: dict[str, Callable[[Wire], None]] = {}


class Wire:
    """A model cluster with topic `t` of one partition, and every request that it was sent."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.calls: list[tuple[str, str, Any]] = []  # (api, client id, message)
        self.open = contextlib.ExitStack()

        def install(cluster: Any) -> None:
            seen = cluster.seen

            def record(call: Any, fault: Any) -> None:
                self.calls.append((call.name, call.client_id, call.message))
                seen(call, fault)

            cluster.seen = record

        server.do(install)

    def producer(self, **options: Any) -> Producer:
        made = Producer(bootstrap_servers=self.server.bootstrap_servers, **options)
        self.open.callback(made.close, 0)
        return made

    def consumer(self, **options: Any) -> Consumer:
        made = Consumer(bootstrap_servers=self.server.bootstrap_servers, **options)
        self.open.callback(made.close, 1)
        return made

    def sent(self, api: str) -> list[Any]:
        """The requests of that name, once there is one."""
        until(lambda: [name for name, _, _ in self.calls if name == api], f"a request {api}")
        return [message for name, _, message in list(self.calls) if name == api]

    def produce(self, **options: Any) -> Any:
        """The Produce request of a producer with these options."""
        self.producer(**options).send("t", b"v").result(SECONDS)
        return self.sent("Produce")[-1]

    def fetch(self, **options: Any) -> Any:
        """The first Fetch of a consumer with these options."""
        consumer = self.consumer(**options)
        consumer.assign([("t", 0)])
        consumer.poll(0)
        return self.sent("Fetch")[0]

    def join(self, **options: Any) -> Any:
        """The first JoinGroup of a consumer with these options; it has its partitions afterwards."""
        consumer = self.consumer(**{"group_id": "g", **options})
        consumer.subscribe(["t"])
        until(lambda: (consumer.poll(0.05), consumer.assignment())[1], "an assignment")
        self.member = consumer
        return self.sent("JoinGroup")[0]

    def no_leader(self) -> None:
        """From here on nothing is acknowledged."""
        self.server.do(lambda cluster: [cluster.stop_broker(node) for node in cluster.brokers])


@pytest.fixture
def wire() -> Iterator[Wire]:
    with ModelServer() as server:
        server.create_topic("t", 1)
        it = Wire(server)
        with it.open:
            yield it


def shows(*options: str) -> Callable[[Callable[[Wire], None]], Callable[[Wire], None]]:
    def note(row: Callable[[Wire], None]) -> Callable[[Wire], None]:
        ROWS.update(dict.fromkeys(options, row))
        return row

    return note


# -- every client


@shows("bootstrap_servers")
def _(wire: Wire) -> None:
    port = closed_port()
    with Client(bootstrap_servers=[f"127.0.0.1:{port}"]) as client, pytest.raises(KafkaTimeoutError, match=str(port)):
        client.refresh_metadata(timeout=0.3)


@shows("proxy_url")
def _(wire: Wire) -> None:
    proxy = SERVERS["socks5"]({}, ("anna", "word"))
    wire.open.callback(proxy.stop)
    wire.produce(proxy_url=f"socks5://anna:word@127.0.0.1:{proxy.port}")
    assert {f"{host}:{port}" for host, port in proxy.asked} <= set(wire.server.bootstrap_servers.split(","))
    assert proxy.asked
    refused(Producer, "proxy_url", "ftp://127.0.0.1:21", shown="proxy_url: the scheme 'ftp' is none of socks5, socks5h, http")


@shows("allowed_hosts")
def _(wire: Wire) -> None:
    assert wire.produce(allowed_hosts="127.0.0.0/8,example.com")
    producer = wire.producer(allowed_hosts=["example.com"], delivery_timeout_ms=500)
    wire.server.do(lambda cluster: [cluster.move_address(node, "localhost", broker.port) for node, broker in cluster.brokers.items()])
    with pytest.raises(DeliveryFailed, match="not in allowed_hosts"):
        producer.send("t", b"v").result(SECONDS)


@shows("client_id")
def _(wire: Wire) -> None:
    wire.produce(client_id="billing-7")
    assert {client for _, client, _ in wire.calls} == {"billing-7"}


@shows("request_timeout_ms")
def _(wire: Wire) -> None:
    assert wire.produce(request_timeout_ms=7_654).timeout_ms == int(7_654 * 0.8)


@shows("allow_auto_create_topics")
def _(wire: Wire) -> None:
    with pytest.raises(DeliveryFailed):
        wire.producer(allow_auto_create_topics=False, unknown_topic_timeout_ms=100).send("absent", b"v").result(SECONDS)
    assert not any(message.allow_auto_topic_creation for message in wire.sent("Metadata"))
    wire.producer().send("absent", b"v").result(SECONDS)
    assert any(message.allow_auto_topic_creation for message in wire.sent("Metadata"))


@shows("unknown_topic_timeout_ms")
def _(wire: Wire) -> None:
    delivery = wire.producer(allow_auto_create_topics=False, unknown_topic_timeout_ms=300).send("absent", b"v")
    with pytest.raises(DeliveryFailed, match="UNKNOWN_TOPIC_OR_PARTITION"):
        delivery.result(SECONDS)


@shows("security_protocol")
def _(wire: Wire) -> None:
    with socket.create_server(("127.0.0.1", 0)) as peer:
        servers = f"127.0.0.1:{peer.getsockname()[1]}"
        with Client(bootstrap_servers=servers, client_id="in-clear", security_protocol="PLAINTEXT") as client:
            with pytest.raises(KafkaTimeoutError):
                client.refresh_metadata(timeout=0.3)
            peer.settimeout(SECONDS)
            connection, _ = peer.accept()
            with connection:
                sent = connection.recv(1_000)
    _, api, _, _, length = struct.unpack_from(">ihhih", sent)
    assert (api, sent[14 : 14 + length]) == (ApiVersionsRequest.api_key, b"in-clear")
    with socket.create_server(("127.0.0.1", 0)) as peer:
        servers = f"127.0.0.1:{peer.getsockname()[1]}"
        with Client(bootstrap_servers=servers, security_protocol="SSL") as client:
            with pytest.raises(KafkaTimeoutError):
                client.refresh_metadata(timeout=0.3)
            peer.settimeout(SECONDS)
            connection, _ = peer.accept()
            with connection:
                assert connection.recv(1) == TLS_HANDSHAKE
    refused(Producer, "security_protocol", "TLS")


def refused(kind: type[Producer] | type[Consumer], option: str, value: str, shown: str = "") -> None:
    """A value that is not implemented is refused by name, and not taken in silence."""
    with pytest.raises(ConfigError, match=f"^{shown or f'{option}={value!r}: must be'}"):
        kind(**{"bootstrap_servers": "127.0.0.1:9", option: value})  # type: ignore[arg-type]


# -- producers


@shows("acks")
def _(wire: Wire) -> None:
    assert [wire.produce(acks=acks).acks for acks in ("all", 1)] == [-1, 1]


@shows("enable_idempotence")
def _(wire: Wire) -> None:
    wire.produce(enable_idempotence=False)
    assert "InitProducerId" not in {name for name, _, _ in wire.calls}
    wire.produce(enable_idempotence=True)
    assert wire.sent("InitProducerId")


@shows("transactional_id")
def _(wire: Wire) -> None:
    producer = wire.producer(transactional_id="invoices-1")
    producer.init_transactions(SECONDS)
    with producer.transaction():
        producer.send("t", b"v")
    assert [request.transactional_id for request in (*wire.sent("InitProducerId"), *wire.sent("Produce"))] == ["invoices-1"] * 2
    refused(Producer, "transactional_id", "")
    for name, value in {"acks": 1, "enable_idempotence": False}.items():
        with pytest.raises(ConfigError, match=f"^{name}=.* with transactional_id='t': transactions need acks='all' and idempotence"):
            Producer(bootstrap_servers="127.0.0.1:9", transactional_id="t", **{name: value})  # type: ignore[arg-type]


@shows("transaction_timeout_ms")
def _(wire: Wire) -> None:
    wire.producer(transactional_id="invoices-1", transaction_timeout_ms=1_234).init_transactions(SECONDS)
    assert wire.sent("InitProducerId")[0].transaction_timeout_ms == 1_234
    refused(Producer, "transaction_timeout_ms", 0)


def batches(wire: Wire) -> list[Any]:
    return wire.server.do(lambda cluster: list(cluster.log("t", 0).batches))


@shows("batch_size")
def _(wire: Wire) -> None:
    producer = wire.producer(batch_size=2_048, linger_ms=200)
    for _ in range(20):
        producer.send("t", bytes(500))
    producer.flush(SECONDS)
    assert len(batches(wire)) >= 5


@shows("linger_ms")
def _(wire: Wire) -> None:
    producer = wire.producer(linger_ms=60_000)
    producer.partitions_for("t", SECONDS)
    delivery = producer.send("t", b"v")
    with pytest.raises(KafkaTimeoutError):
        delivery.result(0.3)
    wire.producer(linger_ms=0).send("t", b"v").result(SECONDS)
    assert not delivery.done()


@shows("compression_type")
def _(wire: Wire) -> None:
    for codec in CODECS:
        wire.producer(compression_type=codec).send("t", bytes(10_000)).result(SECONDS)
    assert [batch.header.attributes & 7 for batch in batches(wire)] == list(CODECS.values()) == [0, 1, 2, 3, 4]
    refused(Producer, "compression_type", "brotli")


@shows("partitioner", "partitioner_ignore_keys")
def _(wire: Wire) -> None:
    wire.server.create_topic("wide", 5)

    def partitions(**options: Any) -> list[int]:
        producer = wire.producer(**options)
        return [producer.send("wide", b"v", key=key).result(SECONDS).partition for key in (b"abc", b"key 1", b"abc")]

    assert partitions() == [(murmur2(key) & 0x7FFFFFFF) % 5 for key in (b"abc", b"key 1", b"abc")]
    assert partitions(partitioner="consistent_random") == [zlib.crc32(key) % 5 for key in (b"abc", b"key 1", b"abc")]
    assert partitions(partitioner=lambda topic, key, partitions, available: len(key) - 1) == [2, 4, 2]
    deaf = wire.producer(partitioner_ignore_keys=True)  # each record is a batch, and each batch has another partition
    assert len({deaf.send("wide", b"v", key=b"abc").result(SECONDS).partition for _ in range(12)}) > 1
    refused(Producer, "partitioner", "murmur3")


@shows("partitioner_adaptive_partitioning_enable")
def _(wire: Wire) -> None:
    """A partition whose broker does not respond gets less, or as much as the other one."""
    wire.server.create_topic("pair", 2)
    slow = wire.server.do(lambda cluster: cluster.topics["pair"].partitions[0].leader)
    assert slow != wire.server.do(lambda cluster: cluster.topics["pair"].partitions[1].leader)

    def share(adaptive: bool) -> float:
        producer = wire.producer(partitioner_adaptive_partitioning_enable=adaptive, batch_size=1024, linger_ms=0)
        for partition in (0, 1):
            producer.send("pair", b"first", partition=partition).result(SECONDS)
        wire.server.delay("Produce", 1.0, broker=slow, times=200)
        chosen = []
        for _ in range(400):
            delivery = producer.send("pair", bytes(1_000))
            chosen.append(delivery.partition)
            if delivery.partition == 1:
                delivery.result(SECONDS)
        wire.server.do(lambda cluster: cluster.heal())
        return chosen.count(0) / len(chosen)

    assert share(True) < 0.25
    assert 0.45 < share(False) < 0.55


@shows("batch_records", "batch_bytes")
def _(wire: Wire) -> None:
    """A batch that is complete does not wait for its linger."""
    for name, value in (("batch_records", 3), ("batch_bytes", 25)):
        producer = wire.producer(linger_ms=60_000, **{name: value})
        handles = [producer.send("t", b"1234567890") for _ in range(4)]
        assert [handle.result(SECONDS) for handle in handles[:3]]
        assert not handles[3].done()
    assert [batch.header.records for batch in batches(wire)] == [3, 3]


@shows("batching")
def _(wire: Wire) -> None:
    """Combined, records of all topics count."""
    producer = wire.producer(linger_ms=60_000, batch_records=3, batching="combined")
    handles = [producer.send(topic, b"v") for topic in ("t", "pair", "t", "pair")]
    assert [handle.result(SECONDS) for handle in handles[:3]]


@shows("compression_level", "compression_min_bytes", "compression_max_ratio")
def _(wire: Wire) -> None:
    data = b"".join(b"%d " % (n * n) for n in range(20_000))
    cases: tuple[dict[str, Any], ...] = (
        {"compression_level": 1},
        {"compression_level": 9},
        {"compression_min_bytes": 200_000},
        {"compression_max_ratio": 0.01},
    )
    for options in cases:
        wire.producer(compression_type="gzip", **options).send("t", data).result(SECONDS)
    found = batches(wire)
    assert [batch.header.attributes & 7 for batch in found] == [1, 1, 0, 0]
    assert found[1].header.length < found[0].header.length
    with pytest.raises(ConfigError, match="compression_level=10: must be from 1 to 9 with compression_type='gzip'"):
        wire.producer(compression_type="gzip", compression_level=10)


@shows("max_message_bytes")
def _(wire: Wire) -> None:
    with pytest.raises(RecordTooLarge, match=r"t: .* max_message_bytes=3000"):
        wire.producer(max_message_bytes=3_000).send("t", bytes(3_000))


@shows("topic_policies")
def _(wire: Wire) -> None:
    producer = wire.producer(compression_type="gzip", topic_policies={"t*": {"compression_type": "zstd"}})
    producer.send("t", bytes(10_000)).result(SECONDS)
    assert [batch.header.attributes & 7 for batch in batches(wire)] == [CODECS["zstd"]]


@shows("rate_limits", "on_rate_limit")
def _(wire: Wire) -> None:
    producer = wire.producer(rate_limits={"t": (2, 60_000)}, on_rate_limit="drop")
    handles = [producer.send("t", b"v") for _ in range(3)]
    assert [handle.result(SECONDS) for handle in handles[:2]]
    with pytest.raises(DeliveryFailed, match="RATE_LIMITED"):
        handles[2].result(0)
    with pytest.raises(BufferFull, match="over its limit of 1 record in"):
        delaying = wire.producer(rate_limits={"*": (1, 60_000)}, max_block_ms=50)
        for _ in range(2):
            delaying.send("t", b"v")


@shows("max_request_size")
def _(wire: Wire) -> None:
    with pytest.raises(RecordTooLarge, match="max_request_size=3000"):
        wire.producer(max_request_size=3_000).send("t", bytes(3_000))


@shows("buffer_memory", "max_block_ms")
def _(wire: Wire) -> None:
    assert blocked(wire, buffer_memory=65_536, max_partition_bytes=2**30) < 65_536


@shows("key_serializer", "value_serializer")
def _(wire: Wire) -> None:
    wire.producer(key_serializer="str", value_serializer="json").send("t", [1, "ü"], key="k").result(SECONDS)
    (record,) = wire.server.records("t")
    assert (record.key, record.value) == (b"k", '[1,"ü"]'.encode())
    refused(Producer, "key_serializer", "avro")
    refused(Producer, "value_serializer", "avro")


@shows("key_deserializer", "value_deserializer", "on_poison")
def _(wire: Wire) -> None:
    for value in ("[1]", "x"):
        wire.producer().send("t", value, key="k").result(SECONDS)
    consumer = wire.consumer(auto_offset_reset="earliest", key_deserializer="str", value_deserializer="json", on_poison="skip")
    consumer.assign([("t", 0)])
    (record,) = consumer.poll(SECONDS)
    assert (record.key, record.value) == ("k", [1])
    until(lambda: not consumer.poll(0) and consumer.stats()["poison_records"] == 1, "a skipped record")
    refused(Consumer, "key_deserializer", "avro")
    refused(Consumer, "on_poison", "ignore")


@shows("hooks")
def _(wire: Wire) -> None:
    heard: list[Any] = []

    class Hook:
        def on_ack(self, outcome: Any) -> None:
            heard.append(outcome.offsets)

    producer = wire.producer(hooks=Hook())
    producer.send("t", b"v")
    producer.flush(SECONDS)
    assert heard == [range(1)]
    refused(Producer, "hooks", "no object", shown="hooks: 'no object' is not an object with one of the methods")


@shows("on_full")
def _(wire: Wire) -> None:
    producer = wire.producer(on_full="raise", buffer_memory=65_536)
    wire.no_leader()
    with pytest.raises(BufferFull, match="on_full=raise"):
        for _ in range(1_000):
            producer.send("t", b"v" * 1_000)


@shows("max_partition_bytes")
def _(wire: Wire) -> None:
    assert blocked(wire, max_partition_bytes=32_768) < 32_768


def blocked(wire: Wire, **options: Any) -> int:
    """How many bytes of values a producer takes that cannot deliver, before `send` gives up."""
    producer, taken = wire.producer(max_block_ms=100, **options), 0
    producer.send("t", b"first").result(SECONDS)
    wire.no_leader()
    with pytest.raises(BufferFull, match="max_block_ms=100"):
        while taken < 2**20:
            began = time.monotonic()
            producer.send("t", bytes(2_000))
            taken += 2_000
    assert 0.1 <= time.monotonic() - began < SECONDS
    return taken


@shows("delivery_timeout_ms")
def _(wire: Wire) -> None:
    wire.no_leader()
    with pytest.raises(DeliveryFailed, match="TIMED_OUT"):
        wire.producer(delivery_timeout_ms=200).send("t", b"v").result(SECONDS)


@shows("close_timeout_ms")
def _(wire: Wire) -> None:
    """Of producers and consumers: neither `close` nor the end of a block waits for longer than that."""
    wire.join(close_timeout_ms=100)
    producer = wire.producer(close_timeout_ms=100)
    wire.no_leader()
    began = time.monotonic()
    with pytest.raises(DeliveryFailed, match="closed before"), producer:
        producer.send("t", b"v")
    wire.member.close()
    assert time.monotonic() - began < 5, "it takes 120 s and 10 s by default"


@shows("max_in_flight_requests_per_connection")
def _(wire: Wire) -> None:
    assert most_in_flight(wire, 1) == 1
    assert most_in_flight(wire, 3) == 3


def most_in_flight(wire: Wire, limit: int) -> int:
    """How many Produce requests a broker that does not answer is sent."""
    producer = wire.producer(max_in_flight_requests_per_connection=limit, linger_ms=0)
    producer.send("t", b"first").result(SECONDS)
    leader = wire.server.do(lambda cluster: cluster.topics["t"].partitions[0].leader)
    before = len(wire.sent("Produce"))
    wire.server.delay("Produce", 0.6, broker=leader, times=20)
    for _ in range(6):
        producer.send("t", b"v")
        threading.Event().wait(0.05)  # a batch of its own
    status = [broker["in_flight"] for broker in producer.status()["brokers"] if broker["node"] == leader]
    producer.flush(SECONDS * 2)
    assert len(wire.sent("Produce")) > before
    return int(max(status))


# -- consumers


@shows("group_id", "session_timeout_ms", "max_poll_interval_ms")
def _(wire: Wire) -> None:
    asked = wire.join(group_id="billing", session_timeout_ms=12_345, max_poll_interval_ms=54_321)
    assert (asked.group_id, asked.session_timeout_ms, asked.rebalance_timeout_ms) == ("billing", 12_345, 54_321)


@shows("partition_assignment_strategy")
def _(wire: Wire) -> None:
    asked = wire.join(partition_assignment_strategy=["roundrobin", "range"])
    assert [protocol.name for protocol in asked.protocols] == ["roundrobin", "range"]
    refused(Consumer, "partition_assignment_strategy", "uniform")


@shows("client_rack")
def _(wire: Wire) -> None:
    protocol, *_ = wire.join(client_rack="east").protocols
    assert group_member("m", None, protocol.metadata, "").rack == "east"


@shows("group_instance_id")
def _(wire: Wire) -> None:
    assert wire.join(group_instance_id="host-1").group_instance_id == "host-1"


@shows("group_protocol", "group_remote_assignor")
def _(wire: Wire) -> None:
    consumer = wire.consumer(group_id="g", group_protocol="consumer", group_remote_assignor="range", client_rack="north")
    consumer.subscribe(["t"])
    until(lambda: (consumer.poll(0.05), consumer.assignment())[1], "an assignment")
    asked = wire.sent("ConsumerGroupHeartbeat")[0]
    assert (asked.server_assignor, asked.rack_id) == ("range", "north")
    assert "JoinGroup" not in {name for name, _, _ in list(wire.calls)}
    refused(Consumer, "group_protocol", "modern")


@shows("auto_offset_reset")
def _(wire: Wire) -> None:
    wire.server.produce("t", b"old")
    for reset, expected in (("earliest", 0), ("latest", 1)):
        consumer = wire.consumer(auto_offset_reset=reset)
        consumer.assign([("t", 0)])
        assert consumer.position(("t", 0), SECONDS) == expected


@shows("exclude_internal_topics")
def _(wire: Wire) -> None:
    wire.server.create_topic("__consumer_offsets", 1)
    for excludes, expected in ((True, {"t"}), (False, {"t", "__consumer_offsets"})):
        consumer = wire.consumer(group_id=f"group-{excludes}", exclude_internal_topics=excludes)
        consumer.subscribe("t|__.*")
        until(lambda consumer=consumer: (consumer.poll(0.05), consumer.assignment())[1], "an assignment")
        assert consumer.subscription() == expected


@shows("enable_auto_commit", "auto_commit_interval_ms")
def _(wire: Wire) -> None:
    for group, options, expected in (("auto", {"auto_commit_interval_ms": 50}, True), ("manual", {"enable_auto_commit": False}, False)):
        wire.server.produce("t", b"v")
        wire.join(group_id=group, auto_offset_reset="earliest", **options)
        until(lambda: (wire.member.poll(0.05), wire.member.position(("t", 0), SECONDS))[1], "records")
        if expected:
            until(lambda group=group: (wire.member.poll(0.05), wire.server.committed(group))[1], "an auto-commit")
        else:
            for _ in range(5):
                wire.member.poll(0.05)
            wire.member.close(SECONDS)
        assert bool(wire.server.committed(group)) is expected


@shows("isolation_level")
def _(wire: Wire) -> None:
    for level, number in (("read_uncommitted", 0), ("read_committed", 1)):
        wire.calls.clear()
        client = f"client-{number}"
        wire.fetch(isolation_level=level, client_id=client)
        levels = {(name, m.isolation_level) for name, who, m in list(wire.calls) if who == client and hasattr(m, "isolation_level")}
        assert levels == {("Fetch", number), ("ListOffsets", number)}
    refused(Consumer, "isolation_level", "serializable")


@shows("fetch_min_bytes", "fetch_max_wait_ms", "fetch_max_bytes", "max_partition_fetch_bytes")
def _(wire: Wire) -> None:
    asked = wire.fetch(fetch_min_bytes=77, fetch_max_wait_ms=123, fetch_max_bytes=54_321, max_partition_fetch_bytes=4_321)
    assert (asked.min_bytes, asked.max_wait_ms, asked.max_bytes) == (77, 123, 54_321)
    assert asked.topics[0].partitions[0].partition_max_bytes == 4_321


@shows("max_poll_records")
def _(wire: Wire) -> None:
    for _ in range(10):
        wire.server.produce("t", b"v")
    consumer = wire.consumer(max_poll_records=3, auto_offset_reset="earliest")
    consumer.assign([("t", 0)])
    lists = [consumer.poll(SECONDS) for _ in range(4)]
    assert [len(records) for records in lists] == [3, 3, 3, 1]


# -- the table


OPTIONS = [attribute.name for config in (ProducerConfig, ConsumerConfig) for attribute in attrs.fields(config)]


@pytest.mark.parametrize("option", ROWS)
def test_the_option_reaches_the_wire_or_the_behaviour(wire: Wire, option: str) -> None:
    ROWS[option](wire)


def test_every_option_has_a_row() -> None:
    assert set(OPTIONS) - set(ROWS) - set(ELSEWHERE) == set()
    assert (set(ROWS) | set(ELSEWHERE)) - set(OPTIONS) == set(), "rows for what is no option"
    assert set(ROWS) & set(ELSEWHERE) == set()
    assert {attribute.name for attribute in attrs.fields(ClientConfig)} <= set(OPTIONS)


@pytest.mark.parametrize("option", ELSEWHERE)
def test_an_option_without_a_row_has_a_test_in_another_module(option: str) -> None:
    sources = [path.read_text() for path in Path(__file__).parent.rglob("test_*.py")]
    assert any(f"def {ELSEWHERE[option]}(" in source and option in source for source in sources)
