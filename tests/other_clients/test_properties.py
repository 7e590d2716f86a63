"""Properties of other clients: every option can be set, and nothing is dropped silently."""

from __future__ import annotations

import contextlib
import logging
import re
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4 import Client, ConfigError, Consumer, Producer
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.other_clients.source import LARGEST_FILE, read
from pykafka4.other_clients.tables import AS_HERE, OPTIONS, UNITS, Ignorable, NoCounterpart
from tests.inspection import inspect
from tests.other_clients.translated import options, refused

LISTS = Path(__file__).parent
CONFIGS = (ClientConfig, ProducerConfig, ConsumerConfig)
SERVERS = {"bootstrap.servers": "localhost:1"}
SECRET = "s3cret-0f-mine"
SECURITY = re.compile("ssl_|sasl_|security_|proxy_")
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def file_of(folder: Path, content: str | bytes) -> Path:
    path = folder / "client.properties"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- files


def test_a_file_is_read_as_java_reads_it_and_each_property_knows_its_line(tmp_path: Path) -> None:
    content = "\n".join(
        [
            "# a comment",
            "! another \\",  # comments are not continued
            "a=1",
            "  b : 2  ",
            "c 3",
            "d",
            "",
            "list = one, \\",
            "       two",
            r"e\=\:\ f = \t=\u00fc\\",
            "ü=ö",
            "a=last",
        ]
    )
    found = {item.name: (item.value, item.where.rpartition(" ")[2]) for item in read(file_of(tmp_path, content))}
    assert found == {
        "a": ("last", "12"),
        "b": ("2", "4"),
        "c": ("3", "5"),
        "d": ("", "6"),
        "list": ("one, two", "8"),
        "e=: f": ("=ü\\", "10"),
        "ü": ("ö", "11"),
    }


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa=\xc3\xbc", b"a=\xc3\xbc", b"a=\xfc", b"a=\\u00FC"])
def test_a_file_may_be_utf_8_or_iso_8859_1(tmp_path: Path, data: bytes) -> None:
    assert [(item.name, item.value) for item in read(file_of(tmp_path, data))] == [("a", "ü")]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_are_counted_whatever_ends_them(tmp_path: Path, end: str) -> None:
    path = file_of(tmp_path, end.join(["# one", "", "a=1,\\", "  2", "b=3"]))
    assert [(item.name, item.value, item.where) for item in read(path)] == [
        ("a", "1,2", f"{path}, line 3"),
        ("b", "3", f"{path}, line 5"),
    ]


def escaped(text: str, random: Random) -> str:
    """`text` as a key or value, in one of the ways in which a file may spell it."""
    out = []
    for position, character in enumerate(text):
        ways = [f"\\u{ord(character):04x}" if ord(character) < 0x10000 else _pair(character)]
        if character in "\t\n\f\r":
            ways.append({"\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}[character])
        elif character in " =:#!\\" or not character.isalnum():
            ways.append(f"\\{character}" if character != "\\" else "\\\\")
        else:
            ways.append(character)
        if position and random.random() < 0.1:
            out.append("\\" + random.choice(["\n", "\r\n", "\r"]) + random.choice(["", "  ", "\t"]))
        out.append(random.choice(ways))
    return "".join(out)


def _pair(character: str) -> str:
    high, low = divmod(ord(character) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


# Without surrogates, which are no text.
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(TEXT.filter(bool), TEXT.map(str.strip), max_size=5), st.integers(0, 2**32))
def test_whatever_is_escaped_is_read_back(tmp_path_factory: pytest.TempPathFactory, expected: dict[str, str], seed: int) -> None:
    random = Random(seed)
    lines = ["# a comment, 100 % \\u of nothing"]
    for name, value in expected.items():
        separator = random.choice(["=", ":", " = ", "\t:  "])
        lines.append(escaped(name, random) + separator + escaped(value, random))
        lines.append(random.choice(["", "   ", "! a comment", "\t# = :"]))
    path = tmp_path_factory.mktemp("escapes") / "p"
    path.write_bytes("\n".join(lines).encode())
    assert {item.name: item.value for item in read(path)} == expected


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_the_line(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "p"
    path.write_bytes(data)
    with contextlib.suppress(ConfigError):
        assert all(isinstance(item.value, str) and f"{path}, line " in item.where for item in read(path))


def test_a_wrong_escape_is_named_with_its_line_but_not_with_the_value(tmp_path: Path) -> None:
    path = file_of(tmp_path, f"a=1\nsasl.password={SECRET}\\u{SECRET}\n")
    said = refused(path)
    assert said == f"{path}, line 2: \\u needs four hexadecimal digits; write \\\\ for a backslash"


def test_a_file_that_is_too_large_is_refused_and_the_largest_is_read(tmp_path: Path) -> None:
    assert options(file_of(tmp_path, "client.id=x\n#" + " " * (LARGEST_FILE - 13))) == {"client_id": "x"}
    assert "larger than 1,048,576 bytes" in refused(file_of(tmp_path, "client.id=x\n#" + " " * (LARGEST_FILE - 12)))


def test_a_file_that_is_not_there_is_an_oserror() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.properties"):
        Producer.from_properties("nowhere.properties")


@pytest.mark.parametrize("wrong", [None, 5, b"client.properties", [("client.id", SECRET)]])
def test_what_is_neither_a_path_nor_a_mapping_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"expected the path of a \.properties file, or a mapping") as caught:
        Producer.from_properties(wrong)
    assert SECRET not in str(caught.value)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="a name must be a str, not 5"):
        options({5: 5})


# -- options


def sample(field: attrs.Attribute[Any]) -> tuple[str, Any]:
    """A value of that option as text, and as the option has it."""
    unit, span = field.metadata["unit"], field.metadata["range"]
    if span == "True, False":
        return "true", True
    if unit in ("ms", "ratio"):
        return ("1234.5", 1234.5) if unit == "ms" else ("0.5", 0.5)
    if unit:
        low = span.split()[0].replace(",", "")
        return low, int(low)
    text = {
        "bootstrap_servers": "a:1,b:2",
        "acks": "all",
        "proxy_url": "socks5://a:1",
        "partitioner": "late",
        "allowed_hosts": "example.com",
    }.get(field.name) or ("some text" if span == "text" else span.split(", ")[0])
    return text, text


OWN_TESTS = ("topic_policies", "rate_limits", "compression_level", "hooks")
CASES = [
    (kind, field) for kind in CONFIGS for field in attrs.fields(kind) if not SECURITY.match(field.name) and field.name not in OWN_TESTS
]


@pytest.mark.parametrize(("kind", "field"), CASES, ids=[f"{kind.__name__}-{field.name}" for kind, field in CASES])
def test_every_option_can_be_set_by_its_name_with_dots(kind: Any, field: attrs.Attribute[Any], tmp_path: Path) -> None:
    name = field.name.replace("_", ".")
    text, expected = sample(field)
    found = options(file_of(tmp_path, f"{name} = {text}\n"), kind)
    assert found == {field.name: expected}
    assert type(found[field.name]) is type(expected)
    assert options({name: expected}, kind) == {field.name: expected}
    assert options({name: None}, kind) == options({name: " "}, kind) == {}


def test_what_topics_have_of_their_own_is_a_mapping_and_no_text() -> None:
    own = {"topic.policies": {"t-*": {"batch_records": 5}}, "rate.limits": {"t": (5, 1000)}}
    assert options(own, ProducerConfig) == {"topic_policies": own["topic.policies"], "rate_limits": own["rate.limits"]}
    assert "topic_policies is of type str: must be a mapping" in refused({"topic.policies": "t-*=5"}, ProducerConfig)


@pytest.mark.parametrize(
    ("given", "level"),
    [
        ({"compression.type": "gzip", "compression.gzip.level": "9", "compression.zstd.level": "19"}, 9),  # Java's
        ({"compression.zstd.level": 19, "compression.type": "zstd"}, 19),
        ({"compression.type": "zstd", "compression.zstd.level": "-1"}, -1),
        ({"compression.type": "gzip", "compression.gzip.level": "-1"}, None),  # the default, in both clients
        ({"compression.codec": "lz4", "compression.level": "12"}, 12),  # librdkafka's
        ({"compression.codec": "zstd", "compression.level": "-1"}, None),
        ({"compression.codec": "snappy", "compression.level": "5"}, None),
        ({"compression.lz4.level": "5"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": ""}, None),
    ],
)
def test_a_level_is_that_of_the_codec_that_is_used(given: dict[str, Any], level: int | None) -> None:
    assert options(given, ProducerConfig).get("compression_level") == level


def test_a_level_of_another_codec_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        options({"compression.type": "gzip", "compression.zstd.level": 19}, ProducerConfig)
    assert "compression.zstd.level (compression_type is 'gzip')" in caplog.text


def test_the_level_of_the_codec_that_the_application_passes_counts() -> None:
    given = {"compression.type": "gzip", "compression.zstd.level": 19}
    assert options(given, ProducerConfig, compression_type="zstd") == {"compression_level": 19}


RENAMED = [(name, target) for name, target in OPTIONS.items() if not isinstance(target, NoCounterpart)]


@pytest.mark.parametrize(("name", "option"), RENAMED)
def test_every_other_name_of_an_option_sets_it(name: str, option: str) -> None:
    kind = next(kind for kind in CONFIGS if option in attrs.fields_dict(kind))
    text, expected = sample(attrs.fields_dict(kind)[option])
    if name in UNITS:
        text, expected = "65536", 65536 * 1024
    assert options({name.replace("_", "."): text}, kind) == {option: expected}


@pytest.mark.parametrize(
    ("kind", "properties", "expected"),
    [
        (ProducerConfig, {"queue.buffering.max.kbytes": 1024}, {"buffer_memory": 2**20}),
        (ProducerConfig, {"batch.num.messages": "100"}, {"batch_records": 100}),
        (ConsumerConfig, {"queued.max.messages.kbytes": "64"}, {"prefetch_bytes": 65_536}),
        (ProducerConfig, {"message.send.max.retries": "0"}, {"retries": 0}),
        (ProducerConfig, {"retries": "2147483647"}, {"retries": 2**31 - 1}),
        (ProducerConfig, {"linger.ms": "0.5"}, {"linger_ms": 0.5}),
        (ProducerConfig, {"linger.ms": " +5 "}, {"linger_ms": 5}),
        (ProducerConfig, {"acks": -1}, {"acks": "-1"}),
        (ProducerConfig, {"acks": "0"}, {"acks": "0"}),
        (ProducerConfig, {"compression.codec": "lz4"}, {"compression_type": "lz4"}),
        (ProducerConfig, {"enable.idempotence": "False"}, {"enable_idempotence": False}),
        (ConsumerConfig, {"enable.auto.commit": 0}, {"enable_auto_commit": False}),
        (ConsumerConfig, {"enable.auto.commit": "t"}, {"enable_auto_commit": True}),
        *(
            (ConsumerConfig, {"auto.offset.reset": word}, {"auto_offset_reset": "earliest"})
            for word in ("smallest", "beginning", "Earliest")
        ),
        *((ConsumerConfig, {"auto.offset.reset": word}, {"auto_offset_reset": "latest"}) for word in ("largest", "end", "latest")),
        (ConsumerConfig, {"auto.offset.reset": "by_duration:PT1H"}, {"auto_offset_reset": "by_duration:pt1h"}),
        *((ConsumerConfig, {"auto.offset.reset": word}, {"auto_offset_reset": "none"}) for word in ("error", "none")),
        (
            ConsumerConfig,
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor"},
            {"partition_assignment_strategy": "range"},
        ),
        (
            ConsumerConfig,
            {"partition.assignment.strategy": "RangeAssignor, org.apache.kafka.clients.consumer.CooperativeStickyAssignor"},
            {"partition_assignment_strategy": "range,cooperative-sticky"},
        ),
        (ConsumerConfig, {"client.rack": "east"}, {"client_rack": "east"}),
        (ProducerConfig, {"client.rack": "east"}, {}),
        (
            ConsumerConfig,
            {"partition.assignment.strategy": "RoundRobinAssignor,StickyAssignor,com.shop.OurAssignor"},
            {"partition_assignment_strategy": "roundrobin,sticky"},
        ),
        (ClientConfig, {"metadata.broker.list": "a, b:1"}, {"bootstrap_servers": "a, b:1"}),
        (ClientConfig, {"client.id": 5}, {"client_id": "5"}),
        (ClientConfig, {"metadata.max.age.ms": 5, "topic.metadata.refresh.interval.ms": "5"}, {"metadata_max_age_ms": 5}),
    ],
)
def test_names_units_and_values_are_converted(kind: Any, properties: dict[str, Any], expected: dict[str, Any]) -> None:
    assert options(properties, kind) == expected
    kind.parse({"bootstrap_servers": "a:1", **expected})


@pytest.mark.parametrize(
    ("kind", "properties", "says"),
    [
        # values
        (ProducerConfig, {"linger.ms": "5ms"}, "the mapping: linger.ms='5ms': must be a number of milliseconds, in digits only"),
        (ProducerConfig, {"linger.ms": "-1"}, "the mapping: linger.ms='-1': must be a number of milliseconds from 0 to 600,000"),
        (ProducerConfig, {"linger.ms": True}, "linger.ms=True: must be a number of milliseconds"),
        (ProducerConfig, {"linger.ms": "nan"}, "in digits only"),
        (ProducerConfig, {"batch.size": "1e6"}, "batch.size='1e6': must be a number of bytes, in digits only"),
        (ProducerConfig, {"batch.size": "1024.0"}, "in digits only"),
        (ProducerConfig, {"batch.size": "٣٠٠٠"}, "in digits only"),
        (ProducerConfig, {"queue.buffering.max.kbytes": 1.5}, "queue.buffering.max.kbytes=1.5: must be a whole number of bytes"),
        (ProducerConfig, {"enable.idempotence": "yes"}, "enable.idempotence='yes': must be true or false"),
        (ProducerConfig, {"acks": "2"}, "acks='2': must be 'all', 1 or 0"),
        (ProducerConfig, {"compression.type": "brotli"}, "compression.type='brotli': must be one of none, gzip"),
        (ClientConfig, {"bootstrap.servers": "a:99999"}, "bootstrap.servers='a:99999': must be host:port"),
        (ClientConfig, {"bootstrap.servers": ["a:1"]}, "must be text, not a list"),
        (ConsumerConfig, {"auto.offset.reset": "by_duration:1h"}, "ISO 8601"),
        (ConsumerConfig, {"auto.offset.reset": "newest"}, "must be one of earliest, latest, none, by_duration:PT1H"),
        (ConsumerConfig, {"isolation.level": "snapshot"}, "isolation.level='snapshot': must be one of read_uncommitted, read_committed"),
        (ConsumerConfig, {"partition.assignment.strategy": "x.OurAssignor"}, "this version has only range"),
        (
            ClientConfig,
            {"metadata.max.age.ms": 5, "topic.metadata.refresh.interval.ms": 6},
            "metadata.max.age.ms=5 (the mapping) sets the same option, metadata_max_age_ms, to another value",
        ),
        # names of the other kind of client
        (ProducerConfig, {"group.id": "g"}, "group.id='g': it is a consumer option; producers do not have it"),
        (ConsumerConfig, {"linger.ms": 5}, "linger.ms=5: it is a producer option; consumers do not have it"),
        (ConsumerConfig, {"queue.buffering.max.ms": 5}, "it is a producer option"),
        (ClientConfig, {"group.id": "g"}, "it is a consumer option; clients do not have it"),
        (ClientConfig, {"acks": "all"}, "it is a producer option; clients do not have it"),
        # names without counterpart
        (ProducerConfig, {"transaction.two.phase.commit.enable": "true"}, "KIP-939 is not supported"),
        (ProducerConfig, {"interceptor.classes": "a.B"}, "pass as hooks an object with on_send and on_ack"),
        (
            ProducerConfig,
            {"partitioner.class": "com.example.ByCustomer"},
            "the Java class ByCustomer cannot be loaded; choose one of the names",
        ),
        (ProducerConfig, {"partitioner": "murmur3"}, "must be one of murmur2, "),
        (ProducerConfig, {"partitioner_cb": print}, "pass as partitioner a callable"),
        (ConsumerConfig, {"enable.auto.offset.store": False}, "enable.auto.offset.store=False: commit() commits"),
        (ConsumerConfig, {"group.protocol": "streams"}, "group.protocol='streams': must be one of classic, consumer"),
        (ClientConfig, {"config.providers": "file"}, "placeholders"),
        (ClientConfig, {"error_cb": print}, "pass a listener to client.events"),
        # unknown names
        (ProducerConfig, {"linger.msec": 5}, "the mapping: unknown producer property 'linger.msec'; did you mean 'linger.ms'?"),
        (ProducerConfig, {"linger_ms": 5}, "did you mean 'linger.ms'?"),
        (ProducerConfig, {"queue_buffering_max_ms": 5}, "did you mean 'queue.buffering.max.ms'?"),
        (ProducerConfig, {"Linger.MS": 5}, "did you mean 'linger.ms'?"),
        (ProducerConfig, {"linger": 5}, "did you mean 'linger.ms'?"),
        (ProducerConfig, {"queue.buffering.max.kbyte": 5}, "did you mean 'queue.buffering.max.kbytes'?"),
        (ClientConfig, {"ssl.truststore.locaton": "x"}, "did you mean 'ssl.truststore.location'?"),
        (ClientConfig, {"oauth.x": "x"}, "did you mean 'oauth.cb'?"),
        (ProducerConfig, {"share.acknowledgement.modes": "x"}, "docs/guide/properties.md says which properties are known"),
        (ClientConfig, {"qwertyuiop": 5}, "docs/guide/properties.md says which properties are known"),
    ],
)
def test_what_is_wrong_or_not_supported_is_refused_with_the_reason(kind: Any, properties: dict[str, Any], says: str) -> None:
    assert says in refused(properties, kind)


def test_an_error_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = file_of(tmp_path, "acks=all\n\n# how long\nlinger.ms=soon\n")
    assert refused(path, ProducerConfig) == f"{path}, line 4: linger.ms='soon': must be a number of milliseconds, in digits only"
    path = file_of(tmp_path, "linger.ms=5\nqueue.buffering.max.ms=6\n")
    assert f"{path}, line 2: queue.buffering.max.ms='6': linger.ms='5' ({path}, line 1) sets the same option" in refused(
        path, ProducerConfig
    )


@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("partitioner", "murmur2", "murmur2_consistent"),  # of librdkafka, which sends all records without a key to one partition with it
        ("partitioner", "murmur2_random", "murmur2_random"),
        ("partitioner", "consistent_random", "consistent_random"),
        ("partitioner", "fnv1a", "fnv1a"),
        ("partitioner", "late", "late"),
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
        ("partitioner.class", "org.apache.kafka.clients.producer.UniformStickyPartitioner", "random"),
        ("partitioner.class", "org.apache.kafka.clients.producer.internals.DefaultPartitioner", "murmur2"),
    ],
)
def test_the_partitioners_of_other_clients_are_those_of_the_same_behaviour(name: str, value: str, ours: str) -> None:
    assert options({name: value}, ProducerConfig) == {"partitioner": ours}
    assert ProducerConfig.parse({"bootstrap_servers": "b:9092", "partitioner": ours}).partitioner == ours


@pytest.mark.parametrize("name", AS_HERE)
def test_a_value_with_which_another_client_does_the_same_is_taken(name: str, caplog: pytest.LogCaptureFixture) -> None:
    values = {"0*[1-9][0-9]*": "2147483647", "true|t|1": "TRUE", "false|f|0": "false"}
    value = values.get(AS_HERE[name], AS_HERE[name])
    with caplog.at_level(logging.INFO):
        assert options({name.replace("_", "."): value}, ProducerConfig) == {}
    assert caplog.messages == []
    assert "remove the property" in refused({name.replace("_", "."): f"{value}x"}, ProducerConfig)
    assert not isinstance(OPTIONS[name], Ignorable)


def test_what_has_no_effect_is_logged_in_one_line_with_the_reasons(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = file_of(
        tmp_path,
        f"client.id=orders\nkey.serializer=a.B\nvalue.serializer=a.C\nschema.registry.url=http://x\nbasic.auth.user.info=me:{SECRET}\n"
        "client.dns.lookup=use_all_dns_ips\nmetric.reporters=\nlog.connection.close=false\nbroker.address.family=v4\n",
    )
    with caplog.at_level(logging.INFO):
        assert options(path, ProducerConfig) == {"client_id": "orders"}
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("pykafka4.config", logging.INFO)
    assert record.getMessage() == (
        "orders: ignored properties: key.serializer, value.serializer (classes of Java cannot be loaded: pass a callable as key_serializer "
        "or value_serializer, or pass bytes to `send`); schema.registry.url, basic.auth.user.info (there is no client of a schema "
        "registry: pass as value_serializer a callable that returns bytes); client.dns.lookup (all addresses of a name are tried); "
        "log.connection.close (configure the logger `pykafka4`); broker.address.family (all addresses of a broker are tried, IPv4 and IPv6)"
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("org.apache.kafka.common.serialization.StringSerializer", "str"),
        ("org.apache.kafka.common.serialization.ByteArraySerializer", "bytes"),
        ("io.confluent.kafka.serializers.KafkaJsonSerializer", "json"),
        ("json", "json"),
    ],
)
def test_javas_serializers_become_those_that_are_shipped(theirs: str, ours: str) -> None:
    given = {"key.serializer": theirs, "value.serializer": theirs}
    assert options(given, ProducerConfig) == {"key_serializer": ours, "value_serializer": ours}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("org.apache.kafka.common.serialization.StringDeserializer", {"key_deserializer": "str"}),
        ("org.apache.kafka.common.serialization.ByteArrayDeserializer", {"key_deserializer": "bytes"}),
        ("io.confluent.kafka.serializers.KafkaJsonDeserializer", {"key_deserializer": "json"}),
        ("a.B", {}),
        ("", {}),
    ],
)
def test_javas_deserializers_become_those_that_are_shipped(theirs: str, ours: dict[str, str]) -> None:
    assert options({"key.deserializer": theirs}, ConsumerConfig) == ours


def test_assignors_that_are_left_out_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        options({"partition.assignment.strategy": "range,uniform"}, ConsumerConfig, client_id="billing")
    assert caplog.messages == ["billing: ignored properties: partition.assignment.strategy (only uniform, which this version lacks)"]


@pytest.mark.parametrize(("kind", "file"), [(ProducerConfig, "java_producer"), (ConsumerConfig, "java_consumer")])
def test_a_file_with_all_of_javas_defaults_is_taken(kind: Any, file: str) -> None:
    found = options(LISTS / f"{file}.properties", kind)
    assert found["security_protocol"] == "PLAINTEXT"
    assert len(found) > 15


def test_every_name_of_librdkafka_is_known() -> None:
    for item in read(LISTS / "librdkafka.properties"):
        for kind in (ProducerConfig, ConsumerConfig):
            with contextlib.suppress(ConfigError):
                assert options({item.name: item.value}, kind).keys() <= {"ssl_check_hostname"}
                continue
            assert "do not have it" in refused({item.name: item.value}, kind)


def test_a_keyword_replaces_even_a_value_that_is_not_supported() -> None:
    assert options({"isolation.level": "snapshot"}, ConsumerConfig, isolation_level="read_uncommitted") == {}


def test_the_group_protocol_and_its_assignor_are_taken_over() -> None:
    found = options({"group.protocol": "CONSUMER", "group.remote.assignor": "range", "client.rack": "north"}, ConsumerConfig)
    assert found == {"group_protocol": "consumer", "group_remote_assignor": "range", "client_rack": "north"}


def test_the_isolation_level_is_taken_over() -> None:
    assert options({"isolation.level": "read_committed"}, ConsumerConfig) == {"isolation_level": "read_committed"}


# -- the classmethods


class Named(Producer):
    """Has an argument of its own."""

    def __init__(self, *, label: str = "", **options: Any) -> None:
        self.label, self.options = label, options
        super().__init__(**options)


def test_a_subclass_is_made_by_its_own_constructor_and_keywords_win(tmp_path: Path) -> None:
    path = file_of(tmp_path, "bootstrap.servers=localhost:1\nlinger.ms=20\ncompression.type=gzip\n")
    with Named.from_properties(path, linger_ms=7, label="x") as producer:  # type: ignore[call-arg]
        assert isinstance(producer, Named)
        assert (producer.label, producer.options) == (
            "x",
            {"bootstrap_servers": "localhost:1", "linger_ms": 7, "compression_type": "gzip"},
        )
        assert inspect(producer).session.config.compression_type == "gzip"


def test_consumers_and_clients_are_made_and_share() -> None:
    with Client.from_properties({**SERVERS, "client.id": "shared"}) as client:
        assert client.config.client_id == "shared"
        with Consumer.from_properties({"group.id": "g", "enable.auto.commit": "false"}, client=client) as consumer:
            assert repr(consumer).startswith("<Consumer of group 'g'")
        with pytest.raises(ConfigError, match="bootstrap_servers: set by the shared Client") as caught:
            Producer.from_properties(SERVERS, client)
        assert caught.value.__notes__ == ["bootstrap_servers is bootstrap.servers of the mapping"]


def test_options_that_do_not_fit_together_are_found_in_the_file(tmp_path: Path) -> None:
    path = file_of(tmp_path, "bootstrap.servers=localhost:1\nlinger.ms=50\nmessage.timeout.ms=10\nbatch.size=4096\n")
    with pytest.raises(ConfigError, match="delivery_timeout_ms=10 is less than linger_ms=50") as caught:
        Producer.from_properties(path)
    assert caught.value.__notes__ == [
        f"linger_ms is linger.ms of {path}, line 2; delivery_timeout_ms is message.timeout.ms of {path}, line 3"
    ]


def test_without_brokers_nothing_is_made() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers is missing"):
        Consumer.from_properties({"bootstrap.servers": ""})


def test_a_file_given_as_text_or_path_object_is_the_same(tmp_path: Path) -> None:
    path = file_of(tmp_path, "client.id=x\n")
    assert options(path) == options(str(path)) == {"client_id": "x"}
