"""Runs one contender once, in its own processes. Invariant: the brokers confirm the records that it claims, and a failure names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks.latency.heartbeats import Beats, lateness
from benchmarks.latency.load import Spec
from benchmarks.latency.places import Ground, Place
from benchmarks.latency.plan import BEAT_MS, Case, Contender
from benchmarks.scale.orders import Failed, Process

__all__ = ["once"]

Run = dict[str, Any]


def process(case: Case, contender: Contender, ground: Ground) -> Process:
    spec = Spec(contender.client, contender.way, contender.options, contender.environment, ground.bootstrap, ground.topic, case.load)
    return Process("benchmarks.latency.contender", contender.label, json.dumps(spec.as_json()))


def check(sent: int, ground: Ground) -> None:
    found = ground.count()
    if found != sent:
        raise Failed(f"it claims {sent:,} records, the brokers have {found:,}")


def acknowledgements(case: Case, contender: Contender, ground: Ground) -> Run:
    with process(case, contender, ground) as sender:
        run: Run = sender.ask("acknowledgements", case.kind)
    check(run["sent"], ground)
    return run


def passing(case: Case, contender: Contender, ground: Ground) -> Run:
    """The reader connects before the first record is written; both processes' CPU times are added."""
    reading = Contender(contender.client, environment=contender.environment)
    with process(case, reading, ground) as reader, process(case, contender, ground) as writer:
        reader.ask("connect")
        reader.begin("read")
        written = writer.ask("write")
        run: Run = reader.answer()
    check(written["sent"], ground)
    run["cpu"] += written["cpu"]
    return run


def beating(case: Case, contender: Contender, ground: Ground) -> Run:
    assert ground.server is not None, "only the model brokers tell when a heartbeat arrives"
    beats = Beats(ground.server)
    with process(case, contender, ground) as member:
        member.ask("join")
        stayed = member.ask("stay")
    late = lateness(beats.arrived, stayed["began"], stayed["ended"], BEAT_MS / 1e3)
    if not late:
        raise Failed("no heartbeat was due, which takes a longer measurement")
    seconds = stayed["ended"] - stayed["began"]
    return {"latencies": late, "operations": len(late), "seconds": seconds, "cpu": stayed["cpu"]}


RUNNERS: dict[str, Callable[[Case, Contender, Ground], Run]] = {
    "computing": acknowledgements,
    "paced": acknowledgements,
    "one_by_one": acknowledgements,
    "passing": passing,
    "beating": beating,
}


def once(case: Case, contender: Contender, place: Place) -> Run:
    """SystemExit names the contender if the run fails."""
    try:
        with place.ground() as ground:
            return RUNNERS[case.kind](case, contender, ground)
    except Failed as error:
        raise SystemExit(f"{place.name}, {case.title}: {contender.label} failed: {error}") from error
