"""Keyed records to all partitions and to those of one topic: CPU per record, and what one full partition costs the others.

On the sink, because the model cluster would be busier than the client. Every record that counts was acknowledged, and the sink has it.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bars import CLIENTS, Table
from benchmarks.scale.orders import Process
from benchmarks.scale.shape import Shape
from benchmarks.sink import Sink

__all__ = ["measure"]

ONE = "one"  # the name of the topic whose partitions all others are compared with
LEADERLESS = "leaderless"  # what the sink takes for the name of a topic without leaders
MANY_TIMES, FULL_TIMES = 1.5, 1.1
NEVER_MS = 3_600_000  # the delivery timeout
WARM_UP = 3  # records for each partition, before anything is measured
ALL, TEN, FULL = "all", "ten", "full"


def measure(table: Table, shape: Shape, rounds: int, records: int) -> None:
    """Both clients in turns; every figure is of a process and a sink of its own."""
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
    """One process and its figures; SystemExit if the sink has not got what was acknowledged."""
    topics = [ONE] if case == TEN else shape.names
    with Sink(brokers=shape.brokers, partitions=shape.partitions) as sink:
        with Process("benchmarks.scale.sending", client, sink.bootstrap, NEVER_MS) as process:
            warm_up = process.ask("keyed", topics, WARM_UP * shape.total)["records"]
            if case == FULL:
                process.ask("fill", LEADERLESS)
            figures: dict[str, Any] = process.ask("keyed", topics, records)
        found = sum(sink.ends(topics[0]).values())  # of all topics: the sink counts by the number of the partition
    if found != warm_up + records:
        raise SystemExit(f"{client}, {case}: claims {warm_up + records:,} records, the sink has {found:,}")
    return figures
