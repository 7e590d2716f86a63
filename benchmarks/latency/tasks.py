"""Measures acknowledgements in a program on asyncio, with the loops of `acks`. A computing task lets asyncio run at times."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.latency.async_writers import AsyncWriter, async_writer
from benchmarks.latency.load import LONGEST_S, Samples, Spec, Window, burning, clock, compute

__all__ = ["computing", "one_by_one", "paced"]


class Sending:
    def __init__(self, writer: AsyncWriter, spec: Spec, samples: Samples) -> None:
        self.writer, self.load, self.samples = writer, spec.load, samples
        self.count = 0

    async def compute_until(self, end: float, *, or_all_known: bool = False) -> None:
        writer, samples, load = self.writer, self.samples, self.load
        steps, sample, serve = load.steps, load.sample, load.serve
        asked = samples.taken  # no further samples during the wait for these outcomes
        while clock() < end and not (or_all_known and len(samples.noted) + len(samples.failed) >= asked):
            compute(steps)
            self.count += 1
            if self.count % sample == 0 and not or_all_known:
                await writer.send(samples.take())
            else:
                await writer.send()
            if self.count % serve == 0:
                await asyncio.sleep(0)

    async def pace_until(self, end: float) -> None:
        pause, due = 1 / self.load.rate, clock()
        while due < end:
            await asyncio.sleep(max(0.0, due - clock()))
            await self.writer.send(self.samples.take())
            self.count += 1
            due += pause


async def computing(spec: Spec) -> dict[str, Any]:
    samples, window, load, writer = Samples(), Window(), spec.load, async_writer(spec)
    await writer.open()
    sending = Sending(writer, spec, samples)
    with burning(load.threads):
        await sending.compute_until(clock() + load.warm_up)
        window.start(sending.count)
        await sending.compute_until(clock() + load.seconds)
        window.stop(sending.count)
        await sending.compute_until(clock() + LONGEST_S, or_all_known=True)
    await writer.close()
    return window.result(samples.within(window), writer.sent)


async def paced(spec: Spec) -> dict[str, Any]:
    samples, window, load, writer = Samples(), Window(), spec.load, async_writer(spec)
    await writer.open()
    sending = Sending(writer, spec, samples)
    await sending.pace_until(clock() + load.warm_up)
    window.start(sending.count)
    await sending.pace_until(clock() + load.seconds)
    window.stop(sending.count)
    await writer.close()
    await asyncio.sleep(0)  # lets the callbacks of the last records run
    return window.result(samples.within(window), writer.sent)


async def one_by_one(spec: Spec) -> dict[str, Any]:
    writer, window, latencies = async_writer(spec), Window(), []
    await writer.open()
    end = clock() + spec.load.warm_up
    while clock() < end:
        await writer.send_one()
    window.start()
    end = window.began + spec.load.seconds
    while (began := clock()) < end:
        await writer.send_one()
        latencies.append(round(1e3 * (clock() - began), 4))
    window.stop(len(latencies))
    await writer.close()
    return window.result(latencies, writer.sent)
