"""Weak references: no Python code runs when their objects go, as Ctrl-C would be lost in it."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from pykafka4 import Client, Consumer, Producer, ShareConsumer
from pykafka4.net.living import Living
from pykafka4.testing import ModelServer

CALLBACKS = {"_remove", "remove", "__call__"}  # of the modules for weak references


def callbacks_during(act: Callable[[], object]) -> list[str]:
    """The callbacks of weak references, written in Python, that ran on this thread."""
    found: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.endswith(("weakref.py", "_weakrefset.py")) and code.co_name in CALLBACKS:
            found.append(f"{code.co_filename}: {code.co_name}")

    sys.setprofile(profile)
    try:
        act()
        gc.collect()
    finally:
        sys.setprofile(None)
    return found


def use_and_close(servers: str) -> None:
    with Client(bootstrap_servers=servers) as client, Producer(client) as producer:
        producer.send("t", b"x").result(timeout=10)
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer, ShareConsumer(bootstrap_servers=servers, group_id="s") as shares:
        consumer.subscribe(["t"])
        shares.subscribe(["t"])
        consumer.poll(timeout=0)
        shares.poll(timeout=0)


def test_closing_and_dropping_clients_runs_no_callback_in_python() -> None:
    with ModelServer() as server:
        server.create_topic("t", 1)
        use_and_close(server.bootstrap_servers)  # what is imported there may have callbacks of its own
        assert callbacks_during(lambda: use_and_close(server.bootstrap_servers)) == []


def test_an_event_loop_that_goes_runs_no_callback_of_the_producer() -> None:
    async def send(producer: Producer) -> None:
        await producer.send("t", b"x")

    with ModelServer() as server, Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(send(producer))
        loop.close()
        loops = [loop]
        del loop
        assert callbacks_during(loops.clear) == []


def test_the_living_are_those_that_were_added_and_are_referred_to() -> None:
    class Thing:
        pass

    living: Living[Thing] = Living()
    one, two, three = Thing(), Thing(), Thing()
    for thing in (one, two, three, one):
        living.add(thing)
    living.discard(two)
    living.discard(Thing())
    del three
    gc.collect()
    assert list(living) == [one]
