"""Measures the memory of a partition, and the memory that is left when topics are forgotten.

Before the first figure the client is connected to all brokers, with one partition on each. "Resident" is the memory of the process,
"allocated" the memory that Python code holds, measured in a separate run. Memory that Python code gave back to the interpreter can stay
resident. A leak therefore shows in the allocated memory, and in a second round of the same steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.bars import CLIENTS, OURS, Table
from benchmarks.scale.orders import Process
from benchmarks.scale.server import serve
from benchmarks.scale.shape import Shape

__all__ = ["measure"]

KIB = 2.0  # KiB a partition
LEFT = 0.1  # KiB a partition that may be left: buffers in reserve, and the garbage collector's own memory
SETTLE_S = 3.0
DELIVERY_MS = 15_000  # shorter than the time that topics are kept, as by default: delivery timers keep the objects that they watch
KINDS = ("resident", "allocated")
Step = Callable[[Process, Shape], None]


def measure(table: Table, shape: Shape, release: str, rounds: int) -> None:
    for number in range(rounds):
        for client in CLIENTS if number % 2 else reversed(CLIENTS):
            for role in ROLES:
                resident = figures(role, client, shape, release, traced=False)
                note(table, role, client, "resident", per_partition(resident, "resident", shape))
                if client == OURS:
                    allocated = figures(role, client, shape, release, traced=True)
                    note(table, role, client, "allocated", per_partition(allocated, "allocated", shape))


def per_partition(figures: list[dict[str, int]], kind: str, shape: Shape) -> tuple[float, float, float]:
    """Return KiB a partition: while all are used, after all are forgotten, and the growth of the latter by a second round.

    `figures`: with few partitions (one on each broker), with all, with the few again, and with the few after a second round with all.
    """
    few, everything, again, second = (figure[kind] for figure in figures)
    unit = (shape.total - len(shape.base)) * 1024
    return (everything - few) / unit, (again - few) / unit, (second - again) / unit


def note(table: Table, role: str, client: str, kind: str, figures: tuple[float, float, float]) -> None:
    used, left, more = figures
    table.note(f"{role}: KiB a partition, {kind}", client, used, most=KIB)
    table.note(f"{role}: KiB left of it when topics are forgotten, {kind}", client, left, most=LEFT if kind == "allocated" else None)
    table.note(f"{role}: KiB more left the second time, {kind}", client, more, most=LEFT)


def figures(role: str, client: str, shape: Shape, release: str, *, traced: bool) -> list[dict[str, int]]:
    module, words, few, everything, forget = ROLES[role]
    found: list[dict[str, Any]] = []
    with serve(shape, release) as server, Process(module, client, server.ask("bootstrap"), *words) as process:
        if traced:
            process.ask("trace")
        few(process, shape)
        found.append(process.ask("memory"))
        everything(process, shape)
        found.append(process.ask("memory"))
        forget(process, shape)
        found.append(process.ask("memory"))
        everything(process, shape)
        forget(process, shape)
        found.append(process.ask("memory"))
    return found


def read_few(process: Process, shape: Shape) -> None:
    process.ask("assign", shape.base)
    process.ask("read", len(shape.base))
    process.ask("idle", SETTLE_S)


def read_all(process: Process, shape: Shape) -> None:
    process.ask("assign", shape.places)
    process.ask("read", shape.total - len(shape.base))
    process.ask("idle", SETTLE_S)


def read_few_again(process: Process, shape: Shape) -> None:
    process.ask("assign", shape.base)
    process.ask("idle", SETTLE_S)


def write_few(process: Process, shape: Shape) -> None:
    process.ask("send", shape.base)
    process.ask("keep", shape.base, SETTLE_S)


def write_all(process: Process, shape: Shape) -> None:
    process.ask("send", shape.places)
    process.ask("keep", shape.base, SETTLE_S)


def write_few_again(process: Process, shape: Shape) -> None:
    process.ask("forget", shape.base)


ROLES: dict[str, tuple[str, tuple[int, ...], Step, Step, Step]] = {
    "consumer": ("benchmarks.scale.reading", (), read_few, read_all, read_few_again),
    "producer": ("benchmarks.scale.sending", (DELIVERY_MS,), write_few, write_all, write_few_again),
}
