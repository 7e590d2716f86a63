"""Runs a group member that polls next to computing threads. The broker records the arrival of its heartbeats: see `heartbeats`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from benchmarks.latency.load import WAIT_S, Load, Spec, burning, clock
from benchmarks.meter import cpu

__all__ = ["Member", "open_member", "stay"]

SESSION_MS = 30_000


class Member(Protocol):
    def join(self) -> None:
        """Poll until the member has partitions."""

    def poll_until(self, end: float) -> None: ...


class Blocking:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def join(self) -> None:
        deadline = clock() + WAIT_S
        while not self._consumer.assignment():
            self._consumer.poll(0.1)
            if clock() > deadline:
                raise TimeoutError("no assignment")

    def poll_until(self, end: float) -> None:
        while (left := end - clock()) > 0:
            self._consumer.poll(min(left, 1.0))


def ours(spec: Spec) -> Member:
    import pykafka4

    interval = spec.options["heartbeat_interval_ms"]
    consumer = pykafka4.Consumer(
        bootstrap_servers=spec.bootstrap, group_id="latency", heartbeat_interval_ms=interval, session_timeout_ms=SESSION_MS
    )
    consumer.subscribe([spec.topic])
    return Blocking(consumer)


def confluent(spec: Spec) -> Member:
    import confluent_kafka as ck

    settings = {"bootstrap.servers": spec.bootstrap, "group.id": "latency", "session.timeout.ms": SESSION_MS}
    consumer = ck.Consumer({**settings, **spec.options})
    consumer.subscribe([spec.topic])
    return Blocking(consumer)


class Aiokafka:
    """aiokafka, whose loop runs while it joins and polls."""

    def __init__(self, spec: Spec) -> None:
        self._spec, self._loop = spec, asyncio.new_event_loop()

    def join(self) -> None:
        self._loop.run_until_complete(asyncio.wait_for(self._join(), WAIT_S))

    def poll_until(self, end: float) -> None:
        self._loop.run_until_complete(self._poll_until(end))

    async def _join(self) -> None:
        import aiokafka

        self._consumer = aiokafka.AIOKafkaConsumer(
            self._spec.topic,
            bootstrap_servers=self._spec.bootstrap,
            group_id="latency",
            session_timeout_ms=SESSION_MS,
            **self._spec.options,
        )
        await self._consumer.start()
        while not self._consumer.assignment():
            await self._consumer.getmany(timeout_ms=100)

    async def _poll_until(self, end: float) -> None:
        while (left := end - clock()) > 0:
            await self._consumer.getmany(timeout_ms=round(1e3 * min(left, 1.0)))


MEMBERS: dict[str, Callable[[Spec], Member]] = {"pykafka4": ours, "confluent": confluent, "aiokafka": Aiokafka}


def open_member(spec: Spec) -> Member:
    """The options contain the heartbeat interval, under the client's own name for it."""
    member = MEMBERS[spec.client](spec)
    member.join()
    return member


def stay(member: Member, load: Load) -> dict[str, Any]:
    with burning(load.threads):
        member.poll_until(clock() + load.warm_up)
        began, used = clock(), cpu()
        member.poll_until(began + load.seconds)
        return {"began": began, "ended": clock(), "cpu": cpu() - used}
