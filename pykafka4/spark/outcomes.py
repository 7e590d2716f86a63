"""Waits until the records of a task are acknowledged. Invariant: the first failure ends the task within `LOOK` seconds, not at its end."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from pykafka4.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from pykafka4.producer import Producer

__all__ = ["LOOK", "check", "trouble", "wait"]

LOOK = 0.25  # seconds between checks for failures


def wait(producer: Producer, patience: float) -> None:
    """Wait until everything is acknowledged, up to `patience` seconds; then the flush of `delivery_scope` decides."""
    deadline = time.monotonic() + patience
    while not flushed(producer) and time.monotonic() < deadline:
        check(producer)


def check(producer: Producer) -> None:
    """Raise the first failure at once: waiting for the other records would only make the task fail later."""
    if producer.stats().lost:  # of this task: a producer with failures serves no other
        producer.raise_failures()


def flushed(producer: Producer) -> bool:
    """Wait shortly for all outcomes; `delivery_timeout_ms` limits how long they can take."""
    try:
        producer.flush(timeout=LOOK)
    except KafkaTimeoutError:
        return False
    return True


def trouble(producer: Producer) -> str:
    """Why nothing is flowing, to add to an error that only says that the buffer is full."""
    status = producer.status()
    lines = [f"the cluster is {status['state']}", status["reason"]]
    lines += [f"{partition} is offline: {entry['reason']}" for partition, entry in islice(status["offline"].items(), 5)]
    return "; ".join(line for line in lines if line)
