"""A task ends without an error only when every row is acknowledged, and fails as soon as one is not."""

from __future__ import annotations

import contextlib
import pickle
import ssl
from types import SimpleNamespace

import pytest

from pykafka4.errors import ConfigError, DeliveryFailed, KafkaTimeoutError
from pykafka4.records import Written
from pykafka4.spark import outcomes, partition_writer, worker_stats, workers
from pykafka4.spark.rows import writer

CONFIG = {"bootstrap_servers": "a:1"}


class FakeProducer:
    """Acknowledges at once, but for the records in `doomed` (they fail) and `stuck` (they never get an outcome)."""

    made: list[FakeProducer] = []
    doomed: frozenset[str] = frozenset()
    stuck: frozenset[str] = frozenset()

    def __init__(self, **options):
        self.sent, self.lost, self.pending, self.closed, self.flushes = [], 0, 0, 0, 0
        self.made.append(self)

    def send(self, topic, value=None, **rest):
        self.sent.append((topic, value, rest))
        self.lost += value in self.doomed
        self.pending += value in self.stuck

    def stats(self):
        return SimpleNamespace(lost=self.lost)

    def flush(self, timeout=None):
        self.flushes += 1
        if self.pending:
            raise KafkaTimeoutError("still pending")

    def close(self, timeout=None):
        self.closed += 1
        self.pending = 0

    @contextlib.contextmanager
    def delivery_scope(self):
        before = self.lost
        yield
        self.flush()
        self.raise_failures(before)

    def raise_failures(self, before=0):
        if self.lost > before:
            raise DeliveryFailed("t", 3, "MESSAGE_TOO_LARGE", Written.NO)


class Clock:
    """Goes on by one step at every look."""

    def __init__(self, step):
        self.now, self.step = 0.0, step

    def monotonic(self):
        self.now += self.step
        return self.now


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    kind = type("Fake", (FakeProducer,), {"made": []})
    monkeypatch.setattr("pykafka4.producer.Producer", kind)
    monkeypatch.setattr(workers, "_pools", {})
    clock = Clock(step=0.1)
    monkeypatch.setattr(writer, "time", clock)
    monkeypatch.setattr(outcomes, "time", clock)
    return kind


def rows(*values):
    return iter([{"value": value} for value in values])


def test_every_row_is_sent_in_order(fakes):
    partition_writer(CONFIG, topic="t")(rows("a", "b", "c"))
    assert [value for _, value, _ in fakes.made[0].sent] == ["a", "b", "c"]
    assert fakes.made[0].flushes >= 1


def test_an_empty_partition_makes_no_producer(fakes):
    partition_writer(CONFIG, topic="t")(rows())
    assert fakes.made == []


def test_the_first_failure_is_raised_and_the_producer_is_gone(fakes):
    fakes.doomed = frozenset({"b"})
    with pytest.raises(DeliveryFailed, match="t-3: MESSAGE_TOO_LARGE, not written"):
        partition_writer(CONFIG, topic="t")(rows("a", "b"))
    assert fakes.made[0].closed
    fakes.doomed = frozenset()
    partition_writer(CONFIG, topic="t")(rows("a"))
    assert len(fakes.made) == 2


def test_a_failure_ends_the_task_long_before_its_last_row(fakes):
    fakes.doomed = frozenset({"0"})
    endless = ({"value": str(n)} for n in range(10_000_000))
    with pytest.raises(DeliveryFailed):
        partition_writer(CONFIG, topic="t")(endless)
    assert len(fakes.made[0].sent) < 10


def test_a_failure_ends_the_wait_for_the_others(fakes):
    fakes.doomed, fakes.stuck = frozenset({"a"}), frozenset({"b"})
    with pytest.raises(DeliveryFailed):
        partition_writer(CONFIG, topic="t")(rows("a", "b"))
    assert fakes.made[0].closed


def test_the_wait_ends_when_no_outcome_comes(fakes):
    fakes.stuck = frozenset({"a"})
    with pytest.raises(KafkaTimeoutError):
        partition_writer({**CONFIG, "delivery_timeout_ms": 3000}, topic="t")(rows("a"))
    assert fakes.made[0].flushes < 40


def test_an_error_in_the_rows_is_raised_as_it_is(fakes):
    def broken():
        yield {"value": "a"}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        partition_writer(CONFIG, topic="t")(broken())
    assert fakes.made[0].closed


def test_a_writer_survives_pickling():
    made = partition_writer(CONFIG, topic="t", key="k", headers="h")
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_callers_dictionary_may_change_afterwards(fakes):
    config = dict(CONFIG)
    made = partition_writer(config, topic="t")
    config["bootstrap_servers"] = ""
    made(rows("a"))
    assert len(fakes.made) == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"topic": None}, "topic"),
        ({"topic": ""}, "topic"),
        ({"topic": "no spaces"}, "topic 'no spaces'"),
        ({"topic": "t", "key": 7}, "key=7"),
        ({"topic": "t", "config": {"bootstrap_servers": "a:1", "linger": 5}}, "linger_ms"),
        ({"topic": "t", "config": {}}, "bootstrap_servers is missing"),
    ],
)
def test_a_wrong_option_is_named_on_the_driver(options, named):
    options = {"config": CONFIG, **options}
    with pytest.raises((ConfigError, TypeError), match=named):
        partition_writer(options.pop("config"), **options)


def test_worker_stats_show_producers_at_work_and_idle(fakes):
    assert worker_stats() == []

    def looking():
        yield {"value": "a"}
        assert len(worker_stats()) == 1
        yield {"value": "b"}

    partition_writer(CONFIG, topic="t")(looking())
    assert len(worker_stats()) == 1


def test_worker_stats_show_a_producer_while_the_next_task_takes_it(fakes, monkeypatch):
    write = partition_writer(CONFIG, topic="t")
    write([{"value": "a"}])
    shown = []
    monkeypatch.setattr(fakes.made[0], "flush", lambda timeout=None: shown.append(len(worker_stats())))
    write([{"value": "b"}])
    assert set(shown) == {1}


def test_no_secret_is_in_the_repr_of_a_writer() -> None:
    secret = "xyzzy-plugh"
    config = {
        **CONFIG,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": secret,
        "ssl_cert_pem": secret,
        "ssl_key_pem": secret,
        "ssl_password": secret,
        "proxy_url": f"socks5://alice:{secret}@gateway:1080",
    }
    shown = repr(partition_writer(config, topic="t"))
    assert secret not in shown
    assert "'security_protocol': 'SASL_SSL'" in shown


def test_a_context_cannot_travel_to_executors() -> None:
    config = {**CONFIG, "security_protocol": "SSL", "ssl_context": ssl.create_default_context()}
    with pytest.raises(ConfigError, match="ssl_context cannot be sent to executors: pass certificates as text"):
        partition_writer(config, topic="t")


def test_a_transactional_id_is_refused_on_the_driver() -> None:
    with pytest.raises(ConfigError, match="transactional_id: all tasks would share it"):
        partition_writer({**CONFIG, "transactional_id": "x"}, topic="t")


@pytest.mark.parametrize("option", ["on_full", "on_rate_limit"])
def test_rows_cannot_be_dropped(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}='drop': a task reports its rows as written, so none may be dropped"):
        partition_writer({**CONFIG, option: "drop"}, topic="t")
