"""Under trio, which has no asyncio event loop, each call names both and the way out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import trio

from pykafka4 import Producer, aio
from pykafka4.testing import ModelServer

REASON = "no asyncio event loop runs on this thread.*Under trio, call pykafka4.Producer"
CALLS: dict[str, Callable[[aio.Producer, aio.Consumer, Producer], Any]] = {
    "send": lambda producer, consumer, plain: producer.send("t", b"x"),
    "flush": lambda producer, consumer, plain: producer.flush(),
    "poll": lambda producer, consumer, plain: consumer.poll(),
    "commit": lambda producer, consumer, plain: consumer.commit(),
    "close": lambda producer, consumer, plain: consumer.close(),
    "await delivery": lambda producer, consumer, plain: plain.send("t", b"x"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore:.* was not closed:ResourceWarning")
def test_calls_under_trio_name_asyncio_and_trio(call: str) -> None:
    async def main(servers: str) -> None:
        producer, consumer = aio.Producer(bootstrap_servers=servers), aio.Consumer(bootstrap_servers=servers, group_id="g")
        with Producer(bootstrap_servers=servers, linger_ms=1000) as plain, pytest.raises(RuntimeError, match=REASON):
            await CALLS[call](producer, consumer, plain)

    with ModelServer() as server:
        trio.run(main, server.bootstrap_servers)


def test_a_forgotten_consumer_is_named_with_its_article() -> None:
    with ModelServer() as server, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        consumer = aio.Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g")
        del consumer
    assert any(str(one.message).startswith("an aio.Consumer was not closed") for one in caught)
