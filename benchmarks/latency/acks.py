"""Measures acknowledgements in a program with threads; `tasks` measures them on asyncio."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.latency.load import LONGEST_S, Samples, Spec, Window, burning, clock, compute
from benchmarks.latency.writers import Writer, open_writer

__all__ = ["computing", "one_by_one", "paced"]


class Sending:
    def __init__(self, writer: Writer, spec: Spec, samples: Samples) -> None:
        self.writer, self.load, self.samples = writer, spec.load, samples
        self.count = 0

    def compute_until(self, end: float, *, or_all_known: bool = False) -> None:
        writer, samples, load = self.writer, self.samples, self.load
        steps, sample, serve = load.steps, load.sample, load.serve
        asked = samples.taken  # no further samples during the wait for these outcomes
        while clock() < end and not (or_all_known and len(samples.noted) + len(samples.failed) >= asked):
            compute(steps)
            self.count += 1
            if self.count % sample == 0 and not or_all_known:
                writer.send(samples.take())
            else:
                writer.send()
            if self.count % serve == 0:
                writer.serve()

    def pace_until(self, end: float) -> None:
        """Send at the rate of the load. A late send does not delay the next one, which has its own due time."""
        pause, due = 1 / self.load.rate, clock()
        while due < end:
            time.sleep(max(0.0, due - clock()))
            self.writer.send(self.samples.take())
            self.count += 1
            due += pause


def computing(spec: Spec) -> dict[str, Any]:
    """Measure the latency of every `sample`-th record of a thread that computes between two sends."""
    samples, window, load = Samples(), Window(), spec.load
    sending = Sending(open_writer(spec), spec, samples)
    with burning(load.threads):
        sending.compute_until(clock() + load.warm_up)
        window.start(sending.count)
        sending.compute_until(clock() + load.seconds)
        window.stop(sending.count)
        sending.compute_until(clock() + LONGEST_S, or_all_known=True)
    sending.writer.finish()
    return window.result(samples.within(window), sending.writer.sent)


def paced(spec: Spec) -> dict[str, Any]:
    samples, window, load = Samples(), Window(), spec.load
    sending = Sending(open_writer(spec), spec, samples)
    sending.pace_until(clock() + load.warm_up)
    window.start(sending.count)
    sending.pace_until(clock() + load.seconds)
    window.stop(sending.count)
    sending.writer.finish()
    return window.result(samples.within(window), sending.writer.sent)


def one_by_one(spec: Spec) -> dict[str, Any]:
    writer, window, latencies = open_writer(spec), Window(), []
    end = clock() + spec.load.warm_up
    while clock() < end:
        writer.send_one()
    window.start()
    end = window.began + spec.load.seconds
    while (began := clock()) < end:
        writer.send_one()
        latencies.append(round(1e3 * (clock() - began), 4))
    window.stop(len(latencies))
    writer.finish()
    return window.result(latencies, writer.sent)
