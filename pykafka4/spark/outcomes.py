"""Waits for the acknowledgements of a task's records. Invariant: a wait ends about `CHECK_S` after the first failure, or sooner."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from pykafka4.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from pykafka4.producer import Producer

__all__ = ["CHECK_S", "check", "trouble", "wait"]

CHECK_S = 0.25  # seconds between checks for failures


def wait(producer: Producer, patience: float) -> None:
    """Wait up to `patience` seconds until each record has its outcome. Raises a failure that a check finds while other records still wait.

    For other failures, and for records without an outcome, the end of `delivery_scope` or of the transaction raises the error.
    """
    deadline = time.monotonic() + patience
    while not flushed(producer) and time.monotonic() < deadline:
        check(producer)


def check(producer: Producer) -> None:
    """Raise the first failure at once: a wait for the other records would only make the task fail later."""
    if producer.stats().lost:  # failures of this task: a producer with failures serves no other task
        producer.raise_failures()


def flushed(producer: Producer) -> bool:
    try:
        producer.flush(timeout=CHECK_S)
    except KafkaTimeoutError:
        return False
    return True


def trouble(producer: Producer) -> str:
    """The reasons why no records are delivered: BufferFull itself says only that the buffer is full."""
    status = producer.status()
    lines = [f"the cluster is {status['state']}", status["reason"]]
    lines += [f"{partition} is offline: {entry['reason']}" for partition, entry in islice(status["offline"].items(), 5)]
    return "; ".join(line for line in lines if line)
