"""Draws the samples of a run as curves, and marks the events of the outage."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

MARGIN_S = 2.0  # seconds without records at both ends of the picture
SMOOTHING_S = 1.0  # seconds over which a rate is a mean
OURS, READ, WAITING = "#1f77b4", "#2ca02c", "#ff7f0e"


@attrs.frozen
class Sample:
    """The numbers of records at one time, in seconds after the start of the script."""

    seconds: float
    acked: int
    waiting: int
    read: int


def rates(samples: Sequence[Sample], name: str) -> list[float]:
    """The rate at each sample: the mean over the last `SMOOTHING_S` seconds."""
    found, first = list[float](), 0
    for last, sample in enumerate(samples):
        while first + 1 < last and samples[first + 1].seconds <= sample.seconds - SMOOTHING_S:
            first += 1
        passed = sample.seconds - samples[first].seconds
        found.append((getattr(sample, name) - getattr(samples[first], name)) / passed if passed else 0.0)
    return found


def shown(samples: Sequence[Sample]) -> tuple[float, float]:
    """The shown range in seconds: from shortly before the first record to shortly after the last."""
    moving = [b.seconds for a, b in itertools.pairwise(samples) if (a.acked, a.read) != (b.acked, b.read)]
    return moving[0] - MARGIN_S, moving[-1] + MARGIN_S


def draw(samples: Sequence[Sample], events: Mapping[str, float], path: Path) -> str | None:
    """Draw the run into a PNG file; returns the reason if that is impossible."""
    try:
        import matplotlib
    except ImportError:
        return "no picture: pip install matplotlib"
    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, figsize=(10, 6), sharex=True, height_ratios=(3, 1), layout="constrained")
    times = [sample.seconds for sample in samples]
    above.plot(times, rates(samples, "acked"), color=OURS, label="acknowledged to Spark")
    above.plot(times, rates(samples, "read"), color=READ, linewidth=1.0, label="read by the group of three")
    below.fill_between(times, [sample.waiting for sample in samples], color=WAITING, alpha=0.5, linewidth=0)
    mark(above, below, events)
    above.set_ylabel("records per second")
    below.set_ylabel("sent, not\nacknowledged")
    below.set_xlabel("seconds")
    above.set_xlim(*shown(samples))
    above.set_ylim(top=1.3 * above.get_ylim()[1])  # room for the names of events
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.grid(visible=True, linewidth=0.4, alpha=0.6)
    above.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    figure.suptitle('Spark writes with format("pykafka4"), a broker is killed, a group reads')
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return None


def mark(above: Any, below: Any, events: Mapping[str, float]) -> None:
    """Draw a line with a name for each event, and shade the time between the first and the last."""
    for number, (name, seconds) in enumerate(events.items()):
        for axes in (above, below):
            axes.axvline(seconds, color="crimson" if number == 0 else "dimgray", linestyle="--", linewidth=1.0)
        above.annotate(
            name, (seconds, 0.97 - 0.07 * number), xycoords=("data", "axes fraction"), xytext=(4, 0), textcoords="offset points", fontsize=9
        )
    for axes in (above, below):
        axes.axvspan(min(events.values()), max(events.values()), color="crimson", alpha=0.06, linewidth=0)
