"""Options of the data source, whichever end they are for: names, values out of text, and `kafka.*`."""

from __future__ import annotations

import pytest

from pykafka4.errors import ConfigError
from pykafka4.options.config import ConsumerConfig
from pykafka4.spark.options import OPTIONS, Given, Use
from pykafka4.spark.source.options import SourceOptions

SERVERS = {"kafka.bootstrap.servers": "a:1"}


def given(use: Use = Use.BATCH_READ, **options: str) -> Given:
    return Given.of(use, options)


def test_names_are_case_insensitive() -> None:
    found = given(STARTINGOFFSETS="earliest", failondataloss="FALSE")
    assert found.text("startingOffsets") == "earliest"
    assert found.flag("failOnDataLoss", True) is False
    assert found.has("endingOffsets", "startingOffsets") == ["startingOffsets"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("startingOfsets", "did you mean startingOffsets?"),
        ("topics", "batch reads .* have subscribe, subscribePattern, assign"),
        ("bootstrap.servers", "begin with kafka.: kafka.bootstrap.servers"),
        ("bootstrap_servers", "begin with kafka.: kafka.bootstrap.servers"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"unknown option {name.lower()}; .*{hint}"):
        given(**{name: "a secret?"})


def test_the_value_of_an_unknown_option_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        given(passwort="hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("use", "name", "place"),
    [
        (Use.BATCH_READ, "delivery", "batch writes .* and stream writes"),
        (Use.BATCH_READ, "commitOffsetsToGroup", "streams"),
        (Use.STREAM_READ, "endingOffsets", "batch reads"),
        (Use.STREAM_READ, "endingOffsetsByTimestamp", "batch reads"),
        (Use.STREAM_READ, "filterPushdown", "batch reads"),
        (Use.BATCH_WRITE, "columns", "batch reads .* and streams"),
        (Use.STREAM_WRITE, "idempotencykey", None),
    ],
)
def test_an_option_of_another_use_is_refused_with_its_place(use: Use, name: str, place: str | None) -> None:
    if place is None:
        assert given(use, **{name: "1"}).text(name) == "1"
        return
    with pytest.raises(ConfigError, match=rf"option {name} is for {place}.*, not for {use.value.split(' ')[0]}.*: leave it out"):
        given(use, **{name: "1"})


@pytest.mark.parametrize(
    ("use", "name"),
    [
        *((Use.BATCH_READ, name) for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "topic")),
        (Use.STREAM_READ, "endingTimestamp"),
        *((Use.BATCH_WRITE, name) for name in ("startingOffsets", "endingOffsets", "failOnDataLoss", "subscribe")),
    ],
)
def test_an_option_that_the_jvm_connector_ignores_has_no_effect_and_is_logged(
    use: Use, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert given(use, **{name: "0"}).text(name) is None
    assert f"option {name} has no effect here: it is for " in caplog.text


@pytest.mark.parametrize("name", ["groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "checkpointLocation", "path"])
def test_options_of_the_jvm_connector_and_of_spark_without_effect_are_no_error(name: str) -> None:
    given(Use.STREAM_READ, **{name: "x"})


def test_every_option_has_a_use() -> None:
    assert all(OPTIONS.values())
    assert len({name.lower() for name in OPTIONS}) == len(OPTIONS)


def test_flags() -> None:
    assert given(failOnDataLoss=" True ").flag("failOnDataLoss", False)
    assert given().flag("failOnDataLoss", True)
    with pytest.raises(ConfigError, match="option failOnDataLoss='yes': takes true or false"):
        given(failOnDataLoss="yes").flag("failOnDataLoss", True)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "many", "²", "1" * 30])
def test_counts_are_whole_numbers(text: str) -> None:
    assert given(minPartitions="12").count("minPartitions") == 12
    assert given().count("minPartitions") is None
    with pytest.raises(ConfigError, match=r"option minPartitions='.*': takes a whole number, at least 1"):
        given(minPartitions=text).count("minPartitions")


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("15 min", 900), ("30s", 30), ("500ms", 0.5), ("250", 0.25), ("1h", 3600), ("2D", 172800)]
)
def test_durations(text: str, seconds: float) -> None:
    assert given(Use.STREAM_READ, maxTriggerDelay=text).seconds("maxTriggerDelay") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["soon", "-1s", "", "1y", "s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ConfigError, match=r'option maxTriggerDelay=.*: takes a duration such as "15m"'):
        given(Use.STREAM_READ, maxTriggerDelay=text).seconds("maxTriggerDelay")


def test_kafka_properties_become_options_of_pykafka4() -> None:
    found = given(
        **SERVERS, **{"kafka.session.timeout.ms": "6000", "kafka.fetch.max.bytes": "1000", "kafka.security.protocol": "PLAINTEXT"}
    )
    options = found.client_options(ConsumerConfig, {})
    assert options["fetch_max_bytes"] == 1000
    assert options["session_timeout_ms"] == 6000
    assert options["security_protocol"] == "PLAINTEXT"


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, r"option kafka.bootstrap.servers is missing: add .option\("),
        ({"kafka.bootstrap.servers": " "}, "option kafka.bootstrap.servers is missing"),
        (
            {**SERVERS, "kafka.fetch.max.byts": "1"},
            r"options kafka\.\*: unknown consumer property 'fetch.max.byts'; did you mean 'fetch.max.bytes'",
        ),
        ({**SERVERS, "kafka.fetch.max.bytes": "x"}, r"options kafka\.\*: fetch.max.bytes='x': must be a number"),
        ({**SERVERS, "kafka.compression.type": "lz4"}, "compression.type='lz4': it is a producer option"),
        ({**SERVERS, "kafka.enable.auto.commit": "true"}, "option kafka.enable.auto.commit is not supported: Spark does"),
    ],
)
def test_wrong_kafka_properties_are_named_as_the_user_wrote_them(properties: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        given(**properties).client_options(ConsumerConfig, {"enable.auto.commit": "Spark does"})


def test_no_secret_is_in_a_repr_or_an_error() -> None:
    found = given(**SERVERS, **{"kafka.sasl.password": "hunter2", "kafka.sasl.mechanism": "NONSENSE"})
    assert "hunter2" not in repr(found)
    found = given(**SERVERS, **{"kafka.sasl.jaas.config": "hunter2;", "kafka.security.protocol": "SASL_SSL"})
    with pytest.raises(ConfigError) as caught:
        found.client_options(ConsumerConfig, {})
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_poll_timeout_of_zero_is_refused_with_the_default() -> None:
    with pytest.raises(ConfigError, match=r"option kafkaConsumer\.pollTimeoutMs='0': takes a duration above 0, .*; the default is 120 s"):
        SourceOptions.parse({"subscribe": "t", "kafka.bootstrap.servers": "h:1", "kafkaConsumer.pollTimeoutMs": "0"}, Use.BATCH_READ)
