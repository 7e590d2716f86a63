"""Judges the figures of one run: the ratios of medians that the client has to reach, and the ratios that it aims at."""

from __future__ import annotations

import operator
from collections.abc import Callable

import attrs

from benchmarks.spark.figures import NAME, Figures
from benchmarks.spark.micro_batch import MICRO_BATCH, MICRO_BATCH_JVM
from benchmarks.spark.place import CPU, MILLIS, RATE
from benchmarks.spark.reads import COLUMNS, IN_JVM, IN_JVM_JVM, IN_PYTHON, IN_PYTHON_JVM, SCHEMA
from benchmarks.spark.writes import CONFLUENT, FORMAT, JVM, ROWS

__all__ = ["Bar", "bars"]

Compare = Callable[[float, float], bool]
SIGNS: dict[Compare, str] = {operator.ge: "≥", operator.le: "≤"}


@attrs.frozen
class Bar:
    """A bar on the figure `unit` of `ours`, as a multiple of the figure of `peer`. Without a `bar` the ratio is reported and not judged."""

    name: str
    figures: Figures
    unit: str
    ours: str
    peer: str
    meets: Compare
    bar: float | None
    aim: float | None = None

    @property
    def measured(self) -> bool:
        return {self.ours, self.peer} <= self.figures.of.keys()

    @property
    def ratio(self) -> float:
        return self.figures.median(self.ours, self.unit) / self.figures.median(self.peer, self.unit)

    @property
    def met(self) -> bool:
        return self.bar is None or self.meets(self.ratio, self.bar)

    def __str__(self) -> str:
        sign = SIGNS[self.meets]
        told = ["no bar" if self.bar is None else f"bar {sign} {self.bar:g}", *([] if self.aim is None else [f"aim {sign} {self.aim:g}"])]
        verdict = "" if self.bar is None else "met" if self.met else "MISSED"
        return f"  {self.name:{NAME}}{self.ratio:6.2f} x   {', '.join(told):24}{verdict}".rstrip()


def bars(figures: Figures) -> list[Bar]:
    more, less = operator.ge, operator.le
    return [
        Bar("write, rate, against the JVM connector", figures, RATE, FORMAT, JVM, more, 1.0, 1.5),
        Bar("write, rate, against foreachPartition + confluent", figures, RATE, FORMAT, CONFLUENT, more, 2.0, 3.0),
        Bar("write, CPU, against the JVM connector", figures, CPU, FORMAT, JVM, less, 1.0, 0.7),
        Bar("read into Python, rate, against the JVM connector", figures, RATE, IN_PYTHON, IN_PYTHON_JVM, more, 1.1, 1.5),
        Bar("read into Python, CPU, against the JVM connector", figures, CPU, IN_PYTHON, IN_PYTHON_JVM, less, 1.0, 0.7),
        Bar("read in the JVM, rate, against the JVM connector", figures, RATE, IN_JVM, IN_JVM_JVM, more, None, 0.9),
        Bar('.schema("value binary"), rate, against all columns', figures, RATE, SCHEMA, IN_PYTHON, more, 1.3),
        Bar("columns=value, rate, against all columns", figures, RATE, COLUMNS, IN_PYTHON, more, 1.3),
        Bar("partition_writer, rate, against confluent", figures, RATE, ROWS, CONFLUENT, more, 1.5, 1.9),
        Bar("micro-batch, ms, against the JVM connector", figures, MILLIS, MICRO_BATCH, MICRO_BATCH_JVM, less, 1.2),
    ]
