"""Delivers waiting messages when the agent ends, and reports the discards."""

from __future__ import annotations

import asyncio
import logging
import time

from pykafka4.agent.account.values import Account
from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.producer import Producer
from pykafka4.records import ProducerRecord

__all__ = ["deliver", "report"]

log = logging.getLogger("pykafka4.agent")
STEP_S = 0.5  # seconds of one wait for deliveries; only between two waits is a second signal noticed
PROGRESS_S = 5.0  # seconds between two log lines
MOST_ROWS = 100  # rows of the final report: a topic, a count and a reason each


async def deliver(producer: Producer, shutdown_s: float, hurried: asyncio.Event) -> list[ProducerRecord]:
    """Wait for deliveries, up to `shutdown_s` seconds or until `hurried` is set, then close the producer; return undelivered records.

    If the producer's thread is stuck, the result is empty: the thread may still send the records in memory.
    """
    deadline, told = time.monotonic() + shutdown_s, time.monotonic()
    while not hurried.is_set() and (left := deadline - time.monotonic()) > 0:
        try:
            await asyncio.to_thread(producer.flush, min(STEP_S, left))
            break
        except KafkaTimeoutError:
            if time.monotonic() >= told + PROGRESS_S:
                told = time.monotonic()
                counts = (await asyncio.to_thread(producer.status))["producer"]  # no counts if the producer's thread is stuck
                waiting = f"{counts['queued'] + counts['in_flight']:d}" if counts else "unknown"
                log.info("agent: ending: waiting messages: %s; %.0f s left", waiting, max(0, deadline - told))
        except KafkaError as error:  # the producer has crashed
            log.error("agent: the waiting messages cannot be delivered: %s", error)
            break
    try:
        return await asyncio.to_thread(producer.close, 0.0)
    except KafkaTimeoutError:
        log.critical("agent: the producer's thread is stuck; messages in memory may be lost, unless they are also on disk")
        return []


def report(account: Account) -> None:
    """Log the discards since the start by topic and reason, then the totals."""
    total = account.total
    rows = [
        (topic, reason, count)
        for topic, counts in [*account.topics.items(), ("(other topics)", account.others)]
        for reason, count in counts.discards.by_reason.items()
        if count
    ]
    rows.sort(key=lambda row: -row[2])
    for topic, reason, count in rows[:MOST_ROWS]:
        log.warning("agent: messages discarded since the start: %s: %d (%s)", _shown(topic), count, reason)
    if len(rows) > MOST_ROWS:
        more = sum(count for _, _, count in rows[MOST_ROWS:])
        log.warning("agent: messages discarded since the start: %d more (further topics and reasons: %d)", more, len(rows) - MOST_ROWS)
    level = logging.WARNING if total.discards.count else logging.INFO
    text = "agent: ended; messages: %d; acknowledged: %d; in the spool: %d; discarded: %d; without an outcome: %d"
    log.log(level, text, total.accepted, total.acknowledged, total.spooled, total.discards.count, total.queued)


def _shown(topic: str) -> str:
    """Quote a topic unless it is printable ASCII: a client may have put a line break into the name."""
    return topic if topic.isprintable() and topic.isascii() else ascii(topic)
