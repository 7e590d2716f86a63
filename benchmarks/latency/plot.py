"""Draws the results and judges nothing: `python -m benchmarks.latency.plot build/latency.json FOLDER`.

The files are latency-PLACE.svg, one for each place, with a panel for each case. The horizontal axis has the percentiles, spread out towards
100; the vertical axis has the latency that this percentage of the operations does not exceed. The same input gives the same file.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import attrs

__all__ = ["Line", "Panel", "panels"]

COLORS = {"pykafka4": "#00796b", "confluent": "#e65100", "aiokafka": "#5e35b1"}
STYLES = ("-", "--", ":", "-.")  # of one client's contenders, in their order
TICKS = (50.0, 90.0, 99.0, 99.9, 99.99)
LONG_NUMBER = re.compile(r"(\d\.\d\d)\d{3,}")  # a coordinate: a hundredth of a point is enough
ACROSS, WIDTH, HEIGHT = 2, 4.6, 4.7  # panels in a row; inches of one
TITLE_LETTERS = 60  # in a line: a longer one would run into the next panel


@attrs.frozen
class Line:
    """The distribution of one contender: (percent, milliseconds)."""

    label: str
    client: str
    style: str
    points: tuple[tuple[float, float], ...]


@attrs.frozen
class Panel:
    title: str
    lines: tuple[Line, ...]


def lines(distributions: dict[str, list[tuple[float, float]]]) -> tuple[Line, ...]:
    made: list[Line] = []
    for label, points in distributions.items():
        client = label.split()[0]
        before = sum(line.client == client for line in made)
        made.append(Line(label, client, STYLES[before % len(STYLES)], tuple((percent, value) for percent, value in points)))
    return tuple(made)


def panels(results: list[dict[str, Any]], place: str) -> list[Panel]:
    return [Panel(result["case"], lines(result["distributions"])) for result in results if result["place"] == place]


def across(percent: float) -> float:
    """90, 99 and 99.9 are equally far apart."""
    return -math.log10(1 - percent / 100)


def draw(axes: Any, panel: Panel) -> None:
    for line in panel.lines:
        shown = [(across(percent), value) for percent, value in line.points if value > 0]  # the scale has no 0
        axes.plot(
            [x for x, _ in shown],
            [y for _, y in shown],
            line.style,
            color=COLORS.get(line.client, "black"),
            label=line.label,
            linewidth=2.0 if line.client == "pykafka4" else 1.3,
        )
    axes.set_title(textwrap.fill(panel.title, TITLE_LETTERS), fontsize=9)
    axes.set_yscale("log")
    axes.set_xticks([across(tick) for tick in TICKS], [f"{tick:g} %" for tick in TICKS], fontsize=8)
    axes.minorticks_off()
    axes.set_ylabel("at most ms", fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(visible=True, linewidth=0.4, alpha=0.6)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), frameon=False)


def save(drawn: list[Panel], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    matplotlib.rcParams["svg.hashsalt"] = "pykafka4"
    matplotlib.rcParams["font.sans-serif"] = ["DejaVu Sans"]  # the default would write ten more font names into each text
    from matplotlib import pyplot

    rows = math.ceil(len(drawn) / ACROSS)
    figure, grid = pyplot.subplots(rows, ACROSS, figsize=(ACROSS * WIDTH, rows * HEIGHT + 0.4), squeeze=False, layout="constrained")
    for axes, panel in zip(grid.flat, drawn):
        draw(axes, panel)
    for axes in grid.flat[len(drawn) :]:
        axes.set_visible(False)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    path.write_text(LONG_NUMBER.sub(r"\1", path.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    told = json.loads(arguments.measured.read_text())
    arguments.folder.mkdir(parents=True, exist_ok=True)
    seen = told["conditions"]
    versions = f"pykafka4 {seen['pykafka4']} ({seen['loop']}), confluent-kafka {seen['confluent-kafka']}, aiokafka {seen['aiokafka']}"
    for place in dict.fromkeys(result["place"] for result in told["results"]):
        path = arguments.folder / f"latency-{place}.svg"
        save(panels(told["results"], place), path, f"{place}: {versions}; {seen['machine']}, {seen['when']}")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
