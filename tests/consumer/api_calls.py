"""The calls of a consumer that have a timeout, and how late they may be. Rule: a late call is made again before it counts as late."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from pykafka4.consumer import Consumer
from pykafka4.errors import KafkaError

LATE, CLOSE_LATE = 0.25, 0.5
ATTEMPTS = 4
TIMEOUTS = (0.0, 0.3)

Call = Callable[[Consumer, float], object]


def calls(topic: str) -> dict[str, Call]:
    """Those of a consumer that reads `topic`, by name."""
    return {
        "poll": lambda consumer, timeout: consumer.poll(timeout),
        "position": lambda consumer, timeout: consumer.position((topic, 0), timeout),
        "commit": lambda consumer, timeout: consumer.commit(timeout=timeout),
        "commit of offsets": lambda consumer, timeout: consumer.commit({(topic, 0): 1}, timeout),
        "commit of a topic": lambda consumer, timeout: consumer.commit(timeout=timeout, topic=topic),
        "committed": lambda consumer, timeout: consumer.committed((topic, 0), timeout),
    }


def seconds(call: Callable[[], object]) -> float:
    """How long it takes, whatever it raises that an application has to expect."""
    began = time.monotonic()
    with contextlib.suppress(KafkaError):
        call()
    return time.monotonic() - began


def in_time(call: Callable[[], object], limit: float) -> None:
    took = [seconds(call)]
    while took[-1] > limit and len(took) < ATTEMPTS:
        took.append(seconds(call))
    assert took[-1] <= limit, f"{took} s; {limit:g} s is the limit"


def assert_all_in_time(consumer: Consumer, topic: str, when: str) -> None:
    """Make each call, with each timeout; `when` is for the message."""
    for name, call in calls(topic).items():
        for timeout in TIMEOUTS:
            try:
                in_time(lambda call=call, timeout=timeout: call(consumer, timeout), timeout + LATE)  # type: ignore[misc]
            except AssertionError as error:
                raise AssertionError(f"{name} with timeout={timeout:g}, {when}: {error}") from None
