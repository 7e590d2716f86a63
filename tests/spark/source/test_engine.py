"""The offsets of a stream under a model of Spark's engine that crashes anywhere: each record is in one batch that is done, no other.

The engine: it asks for the end of a batch, logs it, runs the batch, marks it as done. A batch that is logged and not done is run again
after a restart, with a reader that knows nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.records import TopicPartition
from pykafka4.spark.source.offsets import INITIAL, StreamOffset
from pykafka4.spark.source.tracker import Tracker
from tests.spark.source.test_tracker import FakeCluster

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 7), st.integers(1, 50)),
        st.tuples(st.just("partition"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("trigger"), st.sampled_from(["done", "sink fails", "crash before the log"]), st.sampled_from([None, 1, 7, 40])),
        st.tuples(st.just("restart"), st.booleans(), st.just(0)),
        st.tuples(st.just("time"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@attrs.define
class Engine:
    """Spark's MicroBatchExecution, as far as it concerns a source."""

    reader: Callable[[], Tracker]
    log: list[str] = attrs.Factory(list)  # the ends of batches, as texts
    done: int = 0  # batches
    read: Counter[tuple[TopicPartition, int]] = attrs.Factory(Counter)  # records in batches that are done
    ranges: dict[int, object] = attrs.Factory(dict)  # of each batch at its first run
    tracker: Tracker | None = None

    def restart(self, pinned: bool) -> None:
        """A new process."""
        self.tracker = self.reader()
        if pinned:
            self.tracker.pin()

    def trigger(self, outcome: str, most: int | None) -> bool:
        """One turn; whether there was a batch."""
        if self.tracker is None:
            self.restart(pinned=False)
        if self.done == len(self.log):
            start = StreamOffset.of_json(json.loads(self.log[-1])) if self.log else INITIAL
            end = self.tracker.next_end(start, most, None)
            if end is None:
                return False
            if outcome == "crash before the log":
                self.tracker = None
                return True
            text = json.dumps(end.as_json())
            assert not self.log or text != self.log[-1]  # Spark would run no batch
            self.log.append(text)
        self.run(outcome)
        return True

    def run(self, outcome: str) -> None:
        """Run the last batch that is logged."""
        number = len(self.log) - 1
        start = StreamOffset.of_json(json.loads(self.log[number - 1])) if number else INITIAL
        ranges = StreamOffset.of_json(json.loads(self.log[number])).ranges(start)
        assert self.ranges.setdefault(number, list(ranges.items())) == list(ranges.items())
        if outcome == "sink fails":
            self.tracker = None
            return
        self.read.update((tp, offset) for tp, (first, end) in ranges.items() for offset in range(first, end))
        self.done += 1


@settings(max_examples=200, deadline=None)
@given(STEPS, st.sampled_from(["earliest", "latest"]))
def test_each_record_is_in_one_batch_whatever_crashes(steps, start_at):
    cluster = FakeCluster({TopicPartition("a", 0): (5, 20), TopicPartition("b", 0): (0, 0)}, start_at=start_at)
    engine = Engine(lambda: cluster.tracker(topics_age_s=10.0))
    first: dict[TopicPartition, int] | None = None
    for kind, what, number in steps:
        if kind == "write":
            tp = sorted(cluster.logs)[what % len(cluster.logs)]
            cluster.logs[tp] = (cluster.logs[tp][0], cluster.logs[tp][1] + number)
        elif kind == "partition":
            count = sum(tp.topic == "ab"[what % 2] for tp in cluster.logs)
            cluster.logs[TopicPartition("ab"[what % 2], count)] = (0, 0)
        elif kind == "restart":
            engine.restart(what)
        elif kind == "time":
            cluster.now += 10.0
        else:
            engine.trigger(what, number)
        if first is None and engine.log:
            first = StreamOffset.of_json(json.loads(engine.log[0])).starts
    engine.restart(pinned=False)
    while engine.trigger("done", None):
        pass
    if first is None:
        first = StreamOffset.of_json(json.loads(engine.log[0])).starts
    wanted = {(tp, n) for tp, (begin, end) in cluster.logs.items() for n in range(first.get(tp, begin), end)}
    assert engine.read == Counter(wanted)
