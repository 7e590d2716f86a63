"""Lists the cases with their contenders and bars. Ours is compared with the best peer of the same run, figure by figure.

The linger trades latency for larger requests. It is a condition of a case and equal for all judged contenders: `linger_ms` is 5 where the
application computes and 0 elsewhere. All other settings are each client's defaults; further contenders use the settings and the way of use
that suit a client best. Peers with another linger are shown and not judged.
"""

from __future__ import annotations

from typing import Any

import attrs

from benchmarks.latency.contender import TASKS
from benchmarks.latency.judge import Bar
from benchmarks.latency.load import Load, steps_in
from benchmarks.latency.writers import FLUSH, POLL_THREAD

__all__ = ["BEAT_MS", "Case", "Contender", "cases"]

OURS = "pykafka4"
COMPUTED_US = {2: 64, 20: 8, 200: 1}  # computation between two sends: every n-th record is sampled
SERVE_US = 100  # computation, at most, between two runs of the callbacks that need the sending thread
RATE, PASSING_RATE = 1000.0, 500.0
BUSY_MS = 1.0  # computation of a busy reader for each record
THREADS = 8
BEAT_MS = 500  # interval of heartbeats: short, so that a minute has enough of them
SINK, CLUSTER, MODEL = "sink", "cluster", "model"


@attrs.frozen
class Contender:
    """`judged`: whether its figures count, as a peer's or as ours."""

    client: str
    options: dict[str, Any] = attrs.field(factory=dict)
    way: str = ""
    environment: dict[str, str] = attrs.field(factory=dict)
    judged: bool = True

    @property
    def label(self) -> str:
        told = [f"{name.replace('_', '.')}={value}" for name, value in self.options.items()]
        words = [self.client, *told, *filter(None, [self.way]), *self.environment.values()]
        return " ".join(words) + ("" if self.judged else " (not judged)")

    @property
    def is_ours(self) -> bool:
        return self.client == OURS


@attrs.frozen
class Case:
    """`kind`: the key of its runner in `measure`. `few`: a long case, with a third of the rounds."""

    title: str
    kind: str
    load: Load
    contenders: tuple[Contender, ...]
    bars: tuple[Bar, ...]
    places: tuple[str, ...] = (SINK, CLUSTER)
    few: bool = False

    @property
    def peers(self) -> list[str]:
        return [contender.label for contender in self.contenders if contender.judged and not contender.is_ours]

    @property
    def ours(self) -> list[str]:
        return [contender.label for contender in self.contenders if contender.is_ours]

    @property
    def judged(self) -> list[str]:
        return [contender.label for contender in self.contenders if contender.is_ours and contender.judged]


def computing(microseconds: int, threads: int, seconds: float) -> Case:
    load = Load(
        seconds=seconds,
        steps=steps_in(microseconds / 1e6),
        threads=threads,
        sample=max(1, COMPUTED_US[microseconds] // (threads or 1)),  # next to computing threads there are fewer sends
        serve=max(1, SERVE_US // microseconds),
    )
    contenders = (
        Contender("confluent", {"linger.ms": 5}),
        Contender("confluent", {"linger.ms": 5}, POLL_THREAD),
        Contender("confluent", {"linger.ms": 0}, POLL_THREAD, judged=False),
        Contender("aiokafka", {"linger_ms": 5}, TASKS),
        Contender(OURS, {"linger_ms": 5}),
    )
    title = f"acknowledged, {microseconds} us computed between sends" + (f", beside {threads} computing threads" if threads else "")
    bars = [Bar("p50", times=1.0), *([] if threads else [Bar("p99", times=1.0)]), Bar("pace", least=1.0)]
    return Case(title, "computing", load, contenders, tuple(bars))


def paced(seconds: float) -> Case:
    contenders = (
        Contender("confluent", {}, POLL_THREAD, judged=False),
        Contender("confluent", {"linger.ms": 0}, POLL_THREAD),
        Contender("aiokafka", {"linger_ms": 0}, TASKS),
        Contender(OURS, {"linger_ms": 0}),
    )
    bars = (Bar("p50", times=1.0), Bar("p99", times=0.8))
    return Case(f"acknowledged, {RATE:,.0f} records/s", "paced", Load(seconds=seconds, rate=RATE), contenders, bars)


def waiting(seconds: float) -> Case:
    contenders = (
        Contender("confluent", judged=False),
        Contender("confluent", {"linger.ms": 0}),
        Contender("confluent", {"linger.ms": 0}, FLUSH),
        Contender(OURS, {"linger_ms": 0}),
    )
    bars = (Bar("p50", times=1.0), Bar("cpu", times=1.0))
    return Case("result() of one record after the other", "one_by_one", Load(seconds=seconds), contenders, bars)


def awaiting(seconds: float) -> Case:
    contenders = (
        Contender("aiokafka", {"linger_ms": 0}, TASKS),
        Contender(OURS, {"linger_ms": 0}, TASKS),
    )
    return Case("await of one record after the other", "one_by_one", Load(seconds=seconds), contenders, (Bar("p50", times=0.5),))


def passing(busy: bool, seconds: float) -> Case:
    load = Load(seconds=seconds, rate=PASSING_RATE, steps=steps_in(BUSY_MS / 1e3) if busy else 0)
    contenders = (
        Contender("confluent", judged=False),
        Contender("confluent", {"linger.ms": 0}),
        Contender("aiokafka", {"linger_ms": 0}),
        Contender(OURS, {"linger_ms": 0}),
    )
    title = f"end to end, {PASSING_RATE:,.0f} records/s, " + (f"a reader that computes {BUSY_MS:g} ms a record" if busy else "idle reader")
    return Case(title, "passing", load, contenders, (Bar("p50", times=1.0),), (CLUSTER, MODEL))


def beating(seconds: float) -> Case:
    contenders = (
        Contender("confluent", {"heartbeat.interval.ms": BEAT_MS}),
        Contender("aiokafka", {"heartbeat_interval_ms": BEAT_MS}),
        Contender(OURS, {"heartbeat_interval_ms": BEAT_MS}),
    )
    load = Load(seconds=seconds, warm_up=2.0, threads=THREADS)
    title = f"heartbeats beside {THREADS} computing threads, lateness"
    return Case(title, "beating", load, contenders, (Bar("p99", most=200.0),), (MODEL,), few=True)


def also(case: Case, loops: list[str]) -> Case:
    """Ours over these loops is not judged."""
    more = [
        attrs.evolve(contender, environment={"PYKAFKA4_LOOP": loop}, judged=False)
        for contender in case.contenders
        if contender.is_ours
        for loop in loops
    ]
    return attrs.evolve(case, contenders=(*case.contenders, *more))


def cases(seconds: float, heartbeat_seconds: float, loops: list[str]) -> list[Case]:
    """Steps of computation depend on this machine's speed now, and are the same for every contender."""
    made = [computing(microseconds, threads, seconds) for threads in (0, THREADS) for microseconds in COMPUTED_US]
    made += [paced(seconds), waiting(seconds), awaiting(seconds), passing(False, seconds), passing(True, seconds)]
    return [also(case, loops) for case in [*made, beating(heartbeat_seconds)]]
