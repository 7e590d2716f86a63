"""mypy and pyright, both strict, accept correct code of a user and find each mistake, at its line.

They see the package as it is installed: through `py.typed`, in a folder of Python's path that is not the user's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import attrs
import pytest

from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.options.typed import ClientOptions, ConsumerOptions, ProducerOptions

ROOT = Path(__file__).parents[2]
HEAD = """\
# pyright: strict
from __future__ import annotations
from typing import assert_type
import pykafka4
from pykafka4 import Client, ClientOptions, Consumer, ConsumerOptions, Delivery, Producer, ProducerOptions, TopicPartition
KAFKA: ClientOptions = {"bootstrap_servers": "localhost:9092"}
FAST: ProducerOptions = {"bootstrap_servers": ["localhost:9092"], "linger_ms": 0.5}
client = Client(**KAFKA)
producer = Producer(**KAFKA)
consumer = Consumer(**KAFKA, group_id="g")
from pykafka4 import aio
from pykafka4.serializers import str_deserializer
tasks = aio.Consumer(**KAFKA, group_id="g")
"""
GOOD = """
Producer(**KAFKA, linger_ms=5, acks="all", compression_type="zstd")
Producer(bootstrap_servers=["a:9092", ("b", 9092)])
Producer(**FAST)
with Client(**KAFKA) as other, Producer(client=other, linger_ms=0.5) as shared:
    print(shared.send("t", b"v", key="k", headers={"h": b"1"}).result(timeout=1).offset + 1)
def seen(delivery: Delivery) -> None:
    print(delivery.exception())
producer.send("t", on_delivery=seen)
for record in consumer:
    value: bytes | None = record.value
    size = len(record.value or b"")
one = consumer.committed(("t", 0))
if one is not None:
    print(one.offset + 1)
several = consumer.committed([TopicPartition("t", 0), ("t", 1)])
for place in several.values():
    print(place.offset if place else None)
consumer.commit({("t", 0): 5})
consumer.seek(("t", 0), 5)
consumer.seek({("t", 0): 5, TopicPartition("t", 1): 6})
consumer.seek({partition: 0 for partition in consumer.assignment()})
for stream in consumer.streams({"t": 2}):
    first: bytes | None = next(stream).value
with consumer.streams("t.*", 4, exclude=["t1"]) as streams:
    streams[0].finish()
async def handled(record: pykafka4.Record) -> None:
    print(record.offset + 1)
async def processed() -> int:
    return (await tasks.process(handled, workers=100)).finished
with pykafka4.AdminClient(**KAFKA) as admin:
    for name, lag in admin.group_lag(["g"]).items():
        if not isinstance(lag, pykafka4.KafkaError):
            print(name, lag.lag, [row.owner.client_id for row in lag.partitions if row.owner])
    admin.set_offsets("g", admin.plan_offsets("g", ["t", ("t", 0), TopicPartition("t", 1)], to="earliest"))
    admin.set_offsets("g", {("t", 0): 5})
    admin.set_offsets("g", {TopicPartition("t", 0): 5})
    admin.plan_offsets("g", to={TopicPartition("t", 0): 5})
class Order:
    def __init__(self, data: bytes) -> None:
        self.total = len(data)
def number(topic: str, data: bytes) -> float:
    return float(data)
def losses(records: pykafka4.Read) -> list[pykafka4.LostRange]:
    return records.lost
losses(pykafka4.read("t", on_lost="warn", **KAFKA))
in_columns: pykafka4.ReadArrow = pykafka4.read_arrow("t", **KAFKA)
for order in Consumer(**KAFKA, value_deserializer=Order):
    bytes_as_ever: bytes | None = order.key
    total: int = order.value.total if order.value else 0
    raw: bytes | None = order.raw.value
for both in Consumer(**KAFKA, key_deserializer=str_deserializer, value_deserializer=number).poll():
    text: str | None = both.key
    price: float | None = both.value
exact = Consumer(**KAFKA, value_deserializer=Order)
assert_type(exact, Consumer[bytes, Order])
assert_type(Consumer(**KAFKA), Consumer[bytes, bytes])
named: Consumer[str, dict[str, int]] = Consumer(**KAFKA, key_deserializer="str", value_deserializer="json", on_poison="skip")
counts: dict[str, int] | None = named.poll()[0].value
def handle(record: pykafka4.Record[str, dict[str, int]]) -> None:
    print((record.value or {})["a"])
named.process(handle)
for typed in named.streams({"t": 2}):
    of_stream: str | None = next(typed).key
with pykafka4.table("t", **KAFKA) as plain:
    as_bytes: bytes = plain[b"k"]
with pykafka4.table("t", **KAFKA, key_deserializer=str_deserializer, value_deserializer=Order) as orders:
    total = orders["k"].total
    keys: list[str] = list(orders)
with pykafka4.table("t", **KAFKA, key_deserializer="str", value_deserializer="json", on_change=print) as mixed:
    print(mixed["k"]["n"])
full: ConsumerOptions = {"bootstrap_servers": "a:9092", "value_deserializer": {"t": Order, "*": "json"}}
Consumer(**full).poll()
async def awaited() -> None:
    async for record in aio.Consumer(**KAFKA, value_deserializer=Order):
        print(record.value.total if record.value else 0)
records = consumer.poll(0.1, 5)
print(records[0].key, pykafka4.__version__, producer.stats().acked, client.status())
async def main() -> None:
    async with aio.Producer(**KAFKA, transactional_id="x") as sends, aio.Consumer(client=client, group_id="g") as reads:
        reads.subscribe(["t"])
        async for record in reads:
            print(record.offset + 1)
        async for records in reads.batches(1.0):
            async with sends.transaction(reads):
                await sends.send_many("t", [record.value for record in records])
        one = await reads.committed(("t", 0))
        print(one.offset if one is not None else await reads.position(("t", 0)))
        await reads.commit({("t", 0): 5})
        await reads.close(timeout=1)
"""
# (a line, a word of what each checker says about it). Consumers have overloads: of these, checkers do not say what is wrong with which.
BAD = [
    ("from pykafka4 import Producr", "Producr"),
    ("pykafka4.Consumr()", "Consumr"),
    ("producer.flsh()", "flsh"),
    ("consumer.pol()", "pol"),
    ("client.statuss()", "statuss"),
    ("with producer as p: p.snd('t')", "snd"),
    ("producer.send('t').reslt()", "reslt"),
    ("producer.send('t').result().ofset", "ofset"),
    ("producer.stats().ackd", "ackd"),
    ("consumer.poll()[0].valu", "valu"),
    ("Producer(**KAFKA, linger=5)", "linger"),
    ("Producer(**KAFKA, linger_ms='5')", "linger_ms"),
    ("Producer(**KAFKA, acks=1.5)", "acks"),
    ("Producer(**KAFKA, group_id='g')", "group_id"),
    ("Consumer(**KAFKA, batch_size=5)", "ption"),
    ("Consumer(**KAFKA, enable_auto_commit='no')", "overload"),
    ("Client(**KAFKA, acks='all')", "acks"),
    ("Client(bootstrap_servers=5)", "bootstrap_servers"),
    ("A: ClientOptions = {'bootstrap_server': 'a:9092'}", "bootstrap_server"),
    ("B: ProducerOptions = {'linger_ms': '5'}", "float"),
    ("for record in consumer: record.value.decode()", "decode"),
    ("Consumer(**KAFKA, value_deserializer=5)", "overload"),
    ("Consumer(**KAFKA, value_deserializer=float).poll()[0].value.decode()", "decode"),
    ("Consumer(**KAFKA, value_deserializer=float, on_poison=5)", "overload"),
    ("pykafka4.table('t', **KAFKA)['k']", "bytes"),
    ("consumer.committed(('t', 0)).offset", "offset"),
    ("consumer.seek('t', 0)", "seek"),
    ("consumer.seek(('t', 0))", "seek"),
    ("consumer.seek({'t': 0})", "seek"),
    ("consumer.seek({('t', 0): '5'})", "seek"),
    ("consumer.seek({('t', 0): 5}, 5)", "seek"),
    ("consumer.poll('1')", "poll"),
    ("consumer.subscribe(5)", "subscribe"),
    ("consumer.streams('t.*')", "streams"),
    ("consumer.streams({'t': '2'})", "int"),
    ("consumer.commit({('t', 0): 'x'})", "OffsetAndMetadata"),
    ("producer.send(5)", "send"),
    ("producer.send('t', b'v', partition='0')", "partition"),
    ("producer.send('t', b'v', headers=5)", "headers"),
    ("producer.send('t', b'v', header={})", "header"),
    ("producer.send('t', b'v', on_delivery=lambda: None)", "on_delivery"),
    ("producer.flush('1')", "flush"),
    ("TopicPartition('t', '0')", "int"),
    ("tasks.pol()", "pol"),
    ("tasks.poll().count(1)", "count"),
    ("for record in tasks: pass", "iter"),
    ("with tasks: pass", "enter"),
    ("tasks.seek('t', 0)", "seek"),
    ("aio.Consumer(**KAFKA, batch_size=5)", "ption"),
    ("aio.Producer(**KAFKA).transaction(consumer)", "Consumer"),
    ("producer.transaction(tasks)", "Consumer"),
]

Findings: TypeAlias = dict[tuple[str, int], list[str]]  # by file and line
Checker: TypeAlias = Callable[[list[Path]], Findings]


def mypy(files: list[Path]) -> Findings:
    options = ["--strict", "--no-error-summary", "--hide-error-context", "--no-pretty", f"--cache-dir={ROOT / '.mypy_cache' / 'user'}"]
    found: Findings = defaultdict(list)
    for line in run("mypy", *options, *map(str, files)).splitlines():
        match = re.fullmatch(r"(.*):(\d+): error: (.*)", line)
        if match is None and ": note: " not in line:
            raise AssertionError(f"mypy said {line!r}")
        if match is not None:
            found[Path(match[1]).name, int(match[2])].append(match[3])
    return found


def pyright(files: list[Path]) -> Findings:
    found: Findings = defaultdict(list)
    for finding in json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, *map(str, files)))["generalDiagnostics"]:
        found[Path(finding["file"]).name, finding["range"]["start"]["line"] + 1].append(finding["message"])
    return found


def run(module: str, *arguments: str) -> str:
    """What `module` prints, with the package in Python's path, as an installed one is."""
    command, folder = [sys.executable, "-m", module, *arguments], Path(arguments[-1]).parent
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=[mypy, pyright], ids=["mypy", "pyright"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """What the checker says about correct code (good.py) and about each mistake (bad.py)."""
    checker: Checker = request.param
    if importlib.util.find_spec(request.param.__name__) is None:
        pytest.skip(f"{request.param.__name__} is not installed: pip install pykafka4[dev]")
    folder = tmp_path_factory.mktemp("user")
    good, bad = folder / "good.py", folder / "bad.py"
    good.write_text(HEAD + GOOD)
    bad.write_text(HEAD + "".join(f"{code}\n" for code, _ in BAD))
    return checker([good, bad])


def test_correct_code_passes_strict_checks(found: Findings) -> None:
    assert {place: said for place, said in found.items() if place[0] == "good.py"} == {}


def test_each_mistake_is_found_at_its_line(found: Findings) -> None:
    first = HEAD.count("\n") + 1
    missed = [
        f"{code}: {found.get(('bad.py', line))}"
        for line, (code, word) in enumerate(BAD, first)
        if not any(word in text for text in found.get(("bad.py", line), []))
    ]
    assert missed == []


@pytest.mark.parametrize(
    ("config", "options"), [(ClientConfig, ClientOptions), (ProducerConfig, ProducerOptions), (ConsumerConfig, ConsumerOptions)]
)
def test_every_option_has_a_type(config: type, options: type) -> None:
    assert {field.name for field in attrs.fields(config)} == options.__annotations__.keys()
