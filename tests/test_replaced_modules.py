"""Libraries that replace `threading`, `socket`, `select` or `time` in the whole process: the client works beside them.

Each test takes seconds: it runs an interpreter of its own, in which such a library is imported.
"""

from __future__ import annotations

import pytest

from tests.net.net_helpers import python

GREENLETS = {
    "gevent": "from gevent import monkey, spawn; monkey.patch_all()",
    "eventlet": "import warnings; warnings.simplefilter('ignore'); import eventlet; eventlet.monkey_patch(); spawn = eventlet.spawn",
}
IMPORTS = "import time; from pykafka4 import *; from pykafka4.testing import ModelServer"
SCENARIO = """
turns, sent, polled, delivered = [], [], [], []

def count():
    while True:
        turns.append(None)
        time.sleep(0.001)

def send(number):
    producer.send("t", b"%d" % number).result(timeout=5)
    sent.append(number)

server = ModelServer()
server.create_topic("t", 1)
servers = server.bootstrap_servers
spawn(count)
with Producer(bootstrap_servers=servers, linger_ms=50) as producer:
    for number in range(10):
        spawn(send, number)
    producer.send("t", b"x", on_delivery=lambda delivery: delivered.append(delivery.exception())).result(timeout=5)
    producer.flush(timeout=5)
    while len(sent) < 10:
        time.sleep(0.001)
    print("sent", len(sent), delivered, len(turns) > 10)

consumer = Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
consumer.subscribe(["t"])
read = 0
while read < 11:
    read += len(consumer.poll(timeout=5))
turns.clear()
spawn(lambda: polled.append(consumer.poll(timeout=0.3)))
time.sleep(0.1)
try:
    consumer.poll(timeout=5)
except KafkaError as error:
    print("is in poll" in str(error), polled)
while not polled:
    time.sleep(0.01)
print("polled", polled, len(turns) > 10)
consumer.close()

from concurrent.futures import ThreadPoolExecutor
try:
    Producer(bootstrap_servers=servers, callback_executor=ThreadPoolExecutor(1))
except ConfigError as error:
    print(str(error).split()[1])

producer = Producer(bootstrap_servers=servers, linger_ms=300)
last = producer.send("t", b"last")
import atexit
atexit._run_exitfuncs()  # as the interpreter does
print(last.done(), server.records("t")[-1].value)
"""
SECURED = """
with Producer(**options) as producer:
    producer.send("t", b"x").result(timeout=10)
with Consumer(**options, auto_offset_reset="earliest") as consumer:
    consumer.assign([("t", 0)])
    print([record.value for record in consumer.poll(timeout=10)])
"""
FROZEN = {
    "freezegun": "from freezegun import freeze_time; frozen = freeze_time('2020-01-01'); frozen.start()",
    "time_machine": "import time_machine; frozen = time_machine.travel('2020-01-01', tick=False); frozen.start()",
}
ROUND_TRIP = """
from pykafka4 import Consumer, Producer
from pykafka4.testing import ModelServer

with ModelServer() as server:
    server.create_topic("t", 1)
    with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        producer.send("t", b"x").result(timeout=5)
    with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        while not (records := consumer.poll(timeout=1)):
            pass
        print([record.value for record in records], consumer.poll(timeout=0.01))
"""


def output(*parts: str) -> list[str]:
    done = python("\n".join(parts))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("library", GREENLETS)
@pytest.mark.parametrize("is_patched_first", [True, False], ids=["patched-first", "imported-first"])
def test_greenlets_run_while_others_wait_in_the_client(library: str, is_patched_first: bool) -> None:
    order = [GREENLETS[library], IMPORTS] if is_patched_first else [IMPORTS, GREENLETS[library]]
    sent, refused, polled, executor, drained = output(*order, SCENARIO)
    assert sent == "sent 10 [None] True"
    assert refused == "True []", "a second greenlet in one consumer"
    assert polled == "polled [[]] True"
    assert executor == library
    assert drained == "True b'last'", "at exit"


@pytest.mark.parametrize("library", GREENLETS)
@pytest.mark.parametrize("is_patched_first", [True, False], ids=["patched-first", "imported-first"])
@pytest.mark.parametrize(
    "context", ["", "import ssl; options['ssl_context'] = ssl.create_default_context(cadata=options.pop('ssl_ca_pem'))"]
)
def test_greenlets_use_tls(library: str, is_patched_first: bool, context: str) -> None:
    pytest.importorskip("trustme")
    from tests.net.tls_model import secured_model

    order = [GREENLETS[library], IMPORTS] if is_patched_first else [IMPORTS, GREENLETS[library]]
    with secured_model() as (server, options):
        server.create_topic("t", 1)
        assert output(*order, f"options = {options!r}", context, SECURED) == ["[b'x']"]


@pytest.mark.parametrize("library", FROZEN)
@pytest.mark.parametrize("is_frozen_first", [True, False], ids=["frozen-first", "imported-first"])
def test_clients_and_the_model_server_run_while_time_is_frozen(library: str, is_frozen_first: bool) -> None:
    assert output("" if is_frozen_first else "import pykafka4", FROZEN[library], ROUND_TRIP) == ["[b'x'] []"]
