"""Options: every one once, with a clear answer to a wrong one."""

from __future__ import annotations

import enum
import logging
import pickle
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from pykafka4.assignors import RangeAssignor
from pykafka4.errors import ConfigError
from pykafka4.options import config, policies
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig, parse_servers
from pykafka4.wire.records import compression
from tools.options import describe

B = {"bootstrap_servers": "b:9092"}


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a", (("a", 9092),)),
        ("a:1,b:2", (("a", 1), ("b", 2))),
        (" a:1 , b ", (("a", 1), ("b", 9092))),
        (["a:1", ("b", 2)], (("a", 1), ("b", 2))),
        ("[::1]:9093", (("::1", 9093),)),
        ("[::1]", (("::1", 9092),)),
        ("::1", (("::1", 9092),)),
        ("fe80::1%eth0,[fe80::1%2]:9093", (("fe80::1%eth0", 9092), ("fe80::1%2", 9093))),
        ([("[::1]", 1), ("::1", 2)], (("::1", 1), ("::1", 2))),
        ("h : 9093", (("h", 9093),)),
        ("b_1.example.", (("b_1.example.", 9092),)),
    ],
)
def test_servers_are_understood(text: Any, servers: Any) -> None:
    assert parse_servers(text) == servers


@pytest.mark.parametrize("wrong", ["", " , ", "a:0", "a:65536", "a:x", ":9092", "http://a:9092", 5, [5], [], None])
def test_wrong_servers_are_named(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        parse_servers(wrong)


@pytest.mark.parametrize(
    ("option", "near"),
    [
        ("linger", "linger_ms"),
        ("batch.size", "batch_size"),
        ("bootstrap.servers", "bootstrap_servers"),
        ("compression", "compression_type"),
    ],
)
def test_an_unknown_option_gets_the_nearest_real_name(option: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{near}'"):
        ProducerConfig.parse({**B, option: 1})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "bootstrap_servers is missing"),
        ({**B, "linger_ms": -1}, "linger_ms=-1: must be a number of milliseconds from 0"),
        ({**B, "linger_ms": "5"}, "linger_ms='5'"),
        ({**B, "linger_ms": True}, "linger_ms=True"),
        ({**B, "batch_size": 1.5}, "batch_size=1.5"),
        ({**B, "acks": 2}, "acks=2: must be 'all', 1 or 0"),
        ({**B, "acks": True}, "acks=True"),
        ({**B, "acks": 1, "enable_idempotence": True}, "idempotence needs acks='all'"),
        ({**B, "max_in_flight_requests_per_connection": 6}, "use 5 or fewer"),
        ({**B, "compression_type": "brotli"}, "must be one of none, gzip, snappy, lz4, zstd"),
        ({**B, "client_id": ""}, "client_id=''"),
        ({**B, "allow_auto_create_topics": "yes"}, "must be True or False"),
        ({**B, "delivery_timeout_ms": 1, "linger_ms": 5}, "records would expire before they are sent"),
        ({**B, "delivery_timeout_ms": 10, "topic_policies": {"t": {"linger_ms": 11}}}, "is less than linger_ms=11"),
        (
            {**B, "compression_level": 5},
            "compression_level=5: compression_type='none' has no levels; omit the level, or use one of gzip, lz4, zstd",
        ),
        ({**B, "compression_type": "lz4", "compression_level": 18}, "must be from 1 to 17 with compression_type='lz4'"),
        ({**B, "compression_max_ratio": 0}, "compression_max_ratio=0: must be a number above 0, and at most 1"),
        ({**B, "topic_policies": ["t"]}, "topic_policies is of type list: must be a mapping"),
        ({**B, "topic_policies": {5: {}}}, "topic_policies: 5 must be the name of a topic"),
        ({**B, "topic_policies": {"t": 5}}, "topic_policies['t'] is of type int: must be a mapping"),
        (
            {**B, "topic_policies": {"t-*": {"acks": 1}}},
            "topic_policies['t-*']: 'acks' is not a setting of a topic; the settings are linger_ms",
        ),
        ({**B, "topic_policies": {"t": {"batch_records": 0}}}, "topic_policies['t']: batch_records=0: must be a whole number of records"),
        (
            {**B, "compression_type": "gzip", "topic_policies": {"t": {"compression_level": 11}}},
            "topic_policies['t']: compression_level=11",
        ),
        ({**B, "rate_limits": {"t": 5}}, "rate_limits['t']=5: must be (max_messages, interval_ms), such as (1000, 1000)"),
        ({**B, "rate_limits": {"t": (-1, 1000)}}, "rate_limits['t']=(-1, 1000): max_messages must be an integer from 0"),
        ({**B, "rate_limits": {"t": (True, 1000)}}, "max_messages must be an integer"),
        ({**B, "rate_limits": {"t": (5, 0.5)}}, "interval_ms must be a number of milliseconds from 1"),
        ({**B, "transactional_id": "x", "rate_limits": {"t": (5, 5)}, "on_rate_limit": "drop"}, "would be committed without the dropped"),
        ({**B, "rate_limits": {"": (5, 5)}}, "rate_limits: '' must be the name of a topic"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.parse(options)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"heartbeat_interval_ms": 50_000, "group_id": "g"}, "must be less than session_timeout_ms"),
        ({"group_instance_id": "i"}, "needs a group_id"),
        ({"group_protocol": "modern"}, "must be one of classic, consumer"),
        ({"group_remote_assignor": "range"}, "needs group_protocol='consumer'.*partition_assignment_strategy"),
        ({"group_protocol": "consumer", "session_timeout_ms": 9_000}, "session_timeout_ms with .*consumer.session.timeout.ms.*'classic'"),
        ({"group_protocol": "consumer", "heartbeat_interval_ms": 9_000}, "heartbeat_interval_ms with .*consumer.heartbeat.interval.ms"),
        ({"group_protocol": "consumer", "partition_assignment_strategy": "roundrobin"}, "group_remote_assignor names its assignor"),
        ({"partition_assignment_strategy": "stiky"}, "partition_assignment_strategy='stiky': must be one of range, .*or an assignor"),
        ({"partition_assignment_strategy": ""}, "partition_assignment_strategy='': must be one of range"),
        ({"partition_assignment_strategy": ()}, "partition_assignment_strategy is empty: must have at least one of range"),
        ({"partition_assignment_strategy": None}, "partition_assignment_strategy: None is neither a name nor an assignor"),
        ({"partition_assignment_strategy": "range, range"}, "two assignors with the name 'range'"),
        ({"partition_assignment_strategy": ["range", RangeAssignor()]}, "two assignors with the name 'range'"),
        ({"partition_assignment_strategy": RangeAssignor}, r"is a class: pass an object, RangeAssignor\(\)"),
        ({"partition_assignment_strategy": SimpleNamespace(name="x", assign=len)}, "its `cooperative` must be True or False"),
        (
            {"partition_assignment_strategy": SimpleNamespace(name="x", cooperative=False, assign=len, user_data=b"x")},
            "its `user_data` must be a method, not b'x'",
        ),
        ({"partition_assignment_strategy": SimpleNamespace(name="x", cooperative=False)}, "an assignor has name, cooperative and assign"),
        ({"auto_offset_reset": "first"}, "must be one of earliest, latest, none, by_duration:PT1H"),
        ({"auto_offset_reset": "by_duration:1h"}, "ISO 8601"),
        ({"auto_offset_reset": "by_duration:-PT1H"}, "not negative"),
        ({"auto_offset_reset": timedelta(hours=-1)}, "not negative"),
        ({"auto_offset_reset": 3600}, "or a timedelta"),
        ({"receive_message_max_bytes": 50_000}, "fetch_max_bytes=52428800 is larger than receive_message_max_bytes=50000: .* lower"),
    ],
)
def test_a_wrong_consumer_option_is_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ConsumerConfig.parse({**B, **options})


def test_assignors_are_names_or_objects_in_order_of_preference() -> None:
    mine = SimpleNamespace(name="mine", cooperative=True, assign=len)

    def parsed(value: Any) -> Any:
        return ConsumerConfig.parse({**B, "partition_assignment_strategy": value}).partition_assignment_strategy

    assert parsed("roundrobin, range") == ("roundrobin", "range")
    assert parsed([mine, "range"]) == (mine, "range")
    assert parsed(mine) == (mine,)


def test_idempotence_follows_acks() -> None:
    assert ProducerConfig.parse(B).enable_idempotence is True
    assert ProducerConfig.parse({**B, "acks": 1}).enable_idempotence is False
    assert ProducerConfig.parse({**B, "acks": "all"}).acks == -1


def test_the_cost_of_acks_is_printed_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())
    with caplog.at_level(logging.INFO, "pykafka4.config"):
        ProducerConfig.parse(B)
        ProducerConfig.parse({**B, "acks": 0, "enable_idempotence": False})
        assert not caplog.records
        for _ in range(3):
            ProducerConfig.parse({**B, "acks": 1})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "acks=1 disables enable_idempotence" in caplog.text


def test_a_partition_gets_a_quarter_of_the_memory() -> None:
    assert ProducerConfig.parse({**B, "buffer_memory": 1_048_576}).partition_bytes == 262_144


@pytest.mark.parametrize("kind", [ClientConfig, ProducerConfig, ConsumerConfig])
def test_every_option_has_unit_range_and_meaning(kind: type[ClientConfig]) -> None:
    for name, default, _unit, allowed, meaning in describe(kind):
        assert default, name
        assert allowed, name
        assert meaning.endswith("."), name


def test_configurations_pickle_and_compare() -> None:
    config = ProducerConfig.parse(B)
    assert pickle.loads(pickle.dumps(config)) == config


class Text(str):
    """A str whose own methods are of no use."""

    def __str__(self) -> str:
        raise RuntimeError("not this one")

    def encode(self, *how: Any) -> bytes:
        raise RuntimeError("not this one")

    def split(self, *how: Any) -> Any:
        raise RuntimeError("not this one")


class Whole(enum.IntEnum):
    SEVEN = 7


class Index:
    """An integer, but not an int: as those of numpy."""

    def __index__(self) -> int:
        return 7


TEXTS = ["client_id", "group_id", "group_instance_id"]


@pytest.mark.parametrize("option", TEXTS)
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("x" * 32_768, "has 32,768 bytes as UTF-8; the protocol allows at most 32,767"),
        ("\u00fc" * 16_384, "has 32,768 bytes"),
        ("a\udc80", "cannot be sent as UTF-8: surrogates not allowed at 1"),
        (b"bytes", "must be a non-empty string"),
        (5, "must be a non-empty string"),
        ("", "must be a non-empty string"),
    ],
)
def test_a_text_that_the_protocol_cannot_carry_is_refused(option: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ConsumerConfig.parse({**B, "group_id": "g", option: value})
    assert str(caught.value).startswith(f"{option}=")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("option", TEXTS)
def test_the_longest_text_and_subclasses_of_str_are_taken_as_plain_text(option: str) -> None:
    for value in ("x" * 32_767, Text("name")):
        taken = getattr(ConsumerConfig.parse({**B, "group_id": "g", option: value}), option)
        assert type(taken) is str
        assert taken == str.__str__(value)


@pytest.mark.parametrize(
    "servers",
    [
        "\udc80:9092",
        "a\x00b:9092",
        "a b:9092",
        "a..b:9092",
        "x" * 64 + ":9092",
        [("a", True)],
        [("a", "9" * 5000)],
        [(5, 9092)],
        b"a:9092",
        [b"a"],
    ],
)
def test_an_unresolvable_name_is_refused(servers: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers") as caught:
        parse_servers(servers)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("servers", "says"),
    [
        (["h1:9092,h2:9092"], "separate brokers with commas"),
        ("h1:9092;h2:9092", "separate brokers with commas"),
        (["h1,h2"], "',' cannot be in a host name; separate brokers with commas"),
        ("h1;h2", "';' cannot be in a host name; separate brokers with commas"),
        ([("h1,h2", 9092)], "',' cannot be in a host name"),
        ("[::1", r"an IPv6 address with a port is written \[::1\]:9092"),
        ("::1]", r"an IPv6 address with a port is written \[::1\]:9092"),
        ("[]:9092", r"written \[::1\]:9092"),
        ("[h]:9092", r"'\[' cannot be in a host name"),
        ("[[::1]]:9092", r"written \[::1\]:9092"),
        ("[::1]x:9092", r"written \[::1\]:9092"),
        ("a:b:c", "neither a host name nor an IPv6 address; an IPv6"),
        ("h:9092:9093", "neither a host name nor an IPv6 address; an IPv6"),
        ([("a:b", 9092)], "neither a host name nor an IPv6 address"),
        ("a/b:1", "'/' cannot be in a host name; remove the path"),
        ("h:9092/path", "port from 1 to 65535; remove the path"),
        ("user@h:1", "'@' cannot be in a host name; remove the user name"),
        ("a b:1", "' ' cannot be in a host name"),
        ("a\u3000b:1", "cannot be in a host name"),
        ("a\tb:1", "cannot be in a host name"),
        ({"h": 1}, "must be a string such as"),
    ],
)
def test_what_can_never_be_resolved_is_refused_with_the_way_out(servers: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_servers(servers)
    assert str(caught.value).startswith("bootstrap_servers=")


def test_servers_may_be_subclasses_of_str() -> None:
    assert parse_servers(Text("a:1,b")) == parse_servers([Text("a:1"), (Text("b"), Whole.SEVEN * 1000 + 2092)]) == (("a", 1), ("b", 9092))
    assert all(type(host) is str for host, _ in parse_servers([(Text("b"), 1)]))


@pytest.mark.parametrize(
    "value",
    [
        True,
        False,
        "5",
        b"5",
        float("nan"),
        float("inf"),
        -1,
        2**70,
        1j,
        [5],
        Decimal(5),
        object(),
        Fraction(10**400, 3),
        pytest.param(10**5000, id="too long to print"),
    ],
)
@pytest.mark.parametrize("option", ["linger_ms", "request_timeout_ms", "batch_size", "max_request_size"])
def test_what_is_no_number_in_range_is_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{option}="):
        ProducerConfig.parse({**B, option: value})


@pytest.mark.parametrize("value", [Whole.SEVEN, Index(), Fraction(15, 2), 7.0])
def test_numbers_of_other_types_are_taken_as_plain_ones(value: Any) -> None:
    taken = ProducerConfig.parse({**B, "linger_ms": value}).linger_ms
    assert type(taken) in (int, float)
    assert int(taken) == 7


def test_whole_numbers_take_no_fractions_but_ints_of_other_types() -> None:
    assert (
        type(ProducerConfig.parse({**B, "max_in_flight_requests_per_connection": Whole(7) - 3}).max_in_flight_requests_per_connection)
        is int
    )
    with pytest.raises(ConfigError, match=r"batch_size=2048\.0"):
        ProducerConfig.parse({**B, "batch_size": 2048.0})


def test_levels_of_codecs_are_those_of_the_codecs() -> None:
    assert policies.LEVELS == compression.LEVELS


def test_policies_and_rates_pickle_compare_and_survive_evolve() -> None:
    config = ProducerConfig(**B, topic_policies={"t": {"linger_ms": None, "batch_records": 5}}, rate_limits={"t": [5, 1000.5]})
    assert pickle.loads(pickle.dumps(config)) == config == attrs.evolve(config, client_id="pykafka4")
    assert (config.topic_policies[0].settings, config.rate_limits[0].interval_ms) == ((("linger_ms", None), ("batch_records", 5)), 1000.5)
