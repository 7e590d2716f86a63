"""Measures keyed records to all partitions and to one topic: the CPU time per record, and the cost of one full partition for the others.

It runs against the sink, because the model cluster would use more CPU than the client. A run fails unless the sink has counted exactly the
records that the client reported as acknowledged.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bars import CLIENTS, Table
from benchmarks.scale.orders import Process
from benchmarks.scale.shape import Shape
from benchmarks.sink import Sink

__all__ = ["measure"]

ONE = "one"  # the only topic of the case TEN
LEADERLESS = "leaderless"  # the sink names no leaders for a topic with this name
MANY_TIMES, FULL_TIMES = 1.5, 1.1  # the bars for ALL compared with TEN, and for FULL compared with ALL
NEVER_MS = 3_600_000  # the delivery timeout: no record expires during a run
WARM_UP = 3  # records for each partition, before anything is measured
# The cases: records to all topics; to one topic, with ten partitions by default; to all topics while one more partition is full.
ALL, TEN, FULL = "all", "ten", "full"


def measure(table: Table, shape: Shape, rounds: int, records: int) -> None:
    for number in range(rounds):
        for client in CLIENTS if number % 2 else reversed(CLIENTS):
            found = {case: run(client, case, shape, records) for case in (TEN, ALL, FULL)}
            cpu = {case: figures["cpu"] for case, figures in found.items()}
            count = f"{shape.total:,}"
            table.note(f"keyed, {shape.partitions} partitions: CPU s per million", client, cpu[TEN])
            table.note(f"keyed, {count} partitions: CPU s per million", client, cpu[ALL])
            table.note(f"keyed: {count} to {shape.partitions}, times the CPU", client, cpu[ALL] / cpu[TEN], most=MANY_TIMES)
            table.note("keyed, one partition full: times the CPU of none", client, cpu[FULL] / cpu[ALL], most=FULL_TIMES)
            slower = found[ALL]["rate"] / found[FULL]["rate"]
            table.note("keyed, one partition full: times the seconds of none", client, slower, most=FULL_TIMES)


def run(client: str, case: str, shape: Shape, records: int) -> dict[str, Any]:
    topics = [ONE] if case == TEN else shape.names
    with Sink(brokers=shape.brokers, partitions=shape.partitions) as sink:
        with Process("benchmarks.scale.sending", client, sink.bootstrap, NEVER_MS) as process:
            warm_up = process.ask("keyed", topics, WARM_UP * shape.total)["records"]
            if case == FULL:
                process.ask("fill", LEADERLESS)
            figures: dict[str, Any] = process.ask("keyed", topics, records)
        found = sum(sink.ends(topics[0]).values())  # over all topics: the sink counts by partition number only
    if found != warm_up + records:
        raise SystemExit(f"{client}, {case}: claims {warm_up + records:,} records, the sink has {found:,}")
    return figures
