"""The arithmetic of `make bench-latency`: percentiles, ratios, bars, lateness; and that a contender that fails is named."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import attrs
import pytest

from benchmarks.latency import judge
from benchmarks.latency.__main__ import summary, unmet
from benchmarks.latency.heartbeats import lateness
from benchmarks.latency.judge import Bar
from benchmarks.latency.load import Load, Samples, Spec, Window
from benchmarks.latency.measure import check, once
from benchmarks.latency.places import Ground
from benchmarks.latency.plan import Case, Contender, also, cases
from benchmarks.latency.plot import panels
from benchmarks.scale.orders import Failed

NOTHING: dict[str, float | None] = dict.fromkeys(judge.FIGURES)


def row(**figures: float) -> dict[str, float | None]:
    return {**NOTHING, **figures}


def run(latencies: list[float], operations: int = 10, seconds: float = 2.0, cpu: float = 0.5) -> dict[str, object]:
    return {"latencies": latencies, "operations": operations, "seconds": seconds, "cpu": cpu}


@pytest.mark.parametrize(("percent", "value"), [(50, 500), (90, 900), (99, 990), (99.9, 999), (0.05, 1)])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(percent: float, value: float) -> None:
    assert judge.percentile(range(1, 1001), percent) == value


@pytest.mark.parametrize(
    ("count", "percent", "known"), [(1, 50, False), (2, 50, True), (99, 99, False), (100, 99, True), (999, 99.9, False)]
)
def test_a_percentile_without_a_sample_beyond_it_is_unknown(count: int, percent: float, known: bool) -> None:
    assert (judge.percentile([1.0] * count, percent) is not None) is known


@pytest.mark.parametrize("percent", [0, 100, -1, 101])
def test_the_largest_value_is_no_percentile(percent: float) -> None:
    with pytest.raises(ValueError, match="is no percentile"):
        judge.percentile([1.0], percent)


def test_figures_of_a_run_do_not_depend_on_the_order_of_its_samples() -> None:
    found = judge.figures(run([3.0, 1.0, 2.0, 4.0]))
    assert (found["p50"], found["p90"], found["cpu"], found["pace"]) == (2.0, None, 50_000.0, 5.0)


def test_a_run_without_operations_or_time_has_no_cpu_and_no_pace() -> None:
    found = judge.figures(run([], operations=0, seconds=0.0))
    assert found == NOTHING


def test_medians_are_those_of_the_rounds_and_unknown_if_one_round_has_none() -> None:
    found = judge.medians([row(p50=1.0, p99=9.0), row(p50=5.0), row(p50=2.0, p99=7.0)])
    assert (found["p50"], found["p99"]) == (2.0, None)


def test_the_best_peer_is_found_figure_by_figure() -> None:
    peers = [row(p50=4.0, pace=100.0), row(p50=2.0, pace=50.0)]
    found = judge.ratios(row(p50=1.0, pace=150.0), peers)
    assert (found["p50"], found["pace"]) == (0.5, 1.5)


@pytest.mark.parametrize(("ours", "peers"), [(1.0, []), (1.0, [{}]), (1.0, [{"p50": 0.0}]), (None, [{"p50": 1.0}])])
def test_without_a_figure_on_both_sides_or_with_a_peer_at_zero_there_is_no_ratio(ours: float | None, peers: list[dict[str, float]]) -> None:
    assert judge.ratio("p50", {"p50": ours}, [row(**peer) for peer in peers]) is None


@pytest.mark.parametrize(
    ("bar", "ours", "ratio", "met"),
    [
        (Bar("p50", times=0.8), 5.0, 0.8, True),
        (Bar("p50", times=0.8), 5.0, 0.81, False),
        (Bar("p50", times=0.8), 5.0, None, None),
        (Bar("pace", least=1.0), 5.0, 1.0, True),
        (Bar("pace", least=1.0), 5.0, 0.99, False),
        (Bar("pace", least=1.0), 5.0, None, None),
        (Bar("p99", most=200.0), 200.0, 7.0, True),
        (Bar("p99", most=200.0), 201.0, 0.1, False),
        (Bar("p99", most=200.0), None, 0.1, None),
    ],
)
def test_a_bar_is_on_the_ratio_or_on_the_figure_and_not_judged_without_it(
    bar: Bar, ours: float | None, ratio: float | None, met: bool | None
) -> None:
    assert bar.met(ours, ratio) is met


def case(*bars: Bar) -> Case:
    contenders = (Contender("peer"), Contender("peer", {"linger.ms": 0}, judged=False), Contender("pykafka4"))
    return also(Case("waiting", "one_by_one", Load(), contenders, bars), ["portable"])


def test_only_what_is_judged_is_a_peer_or_meets_a_bar() -> None:
    labels = ["peer", "peer linger.ms=0 (not judged)", "pykafka4", "pykafka4 portable (not judged)"]
    made = case(Bar("p50", times=1.0), Bar("p99", times=1.0))
    assert [contender.label for contender in made.contenders] == labels
    slow, fast = run([8.0] * 10), run([1.0] * 10)
    found = summary("sink", made, {labels[0]: [slow], labels[1]: [fast], labels[2]: [fast], labels[3]: [slow]})
    assert {label: ratios["p50"] for label, ratios in found["ratios"].items()} == {labels[2]: 0.125, labels[3]: 1.0}
    assert found["verdicts"] == {"pykafka4": {"p50": True, "p99": None}}
    assert unmet(found) == ["sink: waiting: p99"]
    assert [panel.title for panel in panels([found], "sink")] == ["waiting"]


def test_every_case_has_a_peer_a_bar_and_ours_under_labels_of_their_own() -> None:
    for made in cases(1.0, 1.0, ["portable"]):
        labels = [contender.label for contender in made.contenders]
        assert made.peers
        assert made.judged
        assert made.bars
        assert len(set(labels)) == len(labels)


def test_a_distribution_rises_and_ends_where_samples_do() -> None:
    found = judge.distribution([float(value) for value in range(1000, 0, -1)])
    assert found[0] == (1, 10.0)
    assert found[-1] == (99.9, 999.0)
    assert found == sorted(found)


def test_a_heartbeat_is_late_by_what_the_gap_exceeds_the_interval() -> None:
    assert lateness([9.5, 10.0, 10.5, 11.25, 11.5], 9.75, 11.75, 0.5) == [0.0, 0.0, 250.0, 0.0]


def test_heartbeats_that_stop_or_never_come_are_late() -> None:
    assert lateness([0.5, 1.0], 0.0, 3.0, 0.5) == [0.0, 0.0, 1500.0]
    assert lateness([], 0.0, 3.0, 0.5) == [2500.0]
    assert lateness([], 0.0, 0.25, 0.5) == []


def test_samples_outside_the_window_do_not_count_and_failed_or_open_ones_are_errors() -> None:
    samples, window = Samples(), Window()
    samples.take()(None)
    window.start()
    samples.take()(None)
    window.stop(1)
    samples.take()(None)
    assert len(samples.within(window)) == 1
    note = samples.take()
    with pytest.raises(SystemExit, match="1 had no outcome"):
        samples.within(window)
    note("NOT_LEADER")
    with pytest.raises(SystemExit, match=r"1 failed .*NOT_LEADER"):
        samples.within(window)


def test_a_window_without_operations_is_an_error() -> None:
    window = Window()
    window.start()
    window.stop(0)
    with pytest.raises(SystemExit, match="nothing was measured"):
        window.result([], 0)


def test_a_spec_survives_the_way_to_its_process() -> None:
    spec = Spec("pykafka4", "", {"linger_ms": 5}, {}, "127.0.0.1:1", "bench", Load(rate=5.0))
    assert Spec.from_json(spec.as_json()) == spec


@attrs.frozen
class Nowhere:
    """A place that no client can connect to."""

    name: str = "nowhere"

    @contextlib.contextmanager
    def ground(self) -> Iterator[Ground]:
        yield Ground("127.0.0.1:1", "bench", lambda: 0)


def test_a_contender_that_fails_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    unknown = Contender("unknown")
    with pytest.raises(SystemExit, match=r"nowhere, waiting: unknown failed: .*ended; its output is above"):
        once(case(), unknown, Nowhere())
    assert "KeyError: 'unknown'" in capfd.readouterr().err


def test_records_that_the_brokers_do_not_have_are_a_failure() -> None:
    ground = Ground("127.0.0.1:1", "bench", lambda: 9)
    check(9, ground)
    with pytest.raises(Failed, match="claims 10 records, the brokers have 9"):
        check(10, ground)
