"""Virtual time: order, cancelling, jumping."""

from __future__ import annotations

from pykafka4.testing.timeline import Timeline


def test_equal_times_keep_the_order_they_were_made_in() -> None:
    line, done = Timeline(), []
    for n in range(5):
        line.at(1.0, lambda n=n: done.append(n))  # type: ignore[misc]
    line.advance(1.0)
    assert done == [0, 1, 2, 3, 4]


def test_nothing_happens_in_the_past() -> None:
    line, at = Timeline(10.0), []
    line.at(3.0, lambda: at.append(line.now))
    line.step()
    assert at == [10.0]


def test_each_thing_sees_its_own_time() -> None:
    line, at = Timeline(), []
    line.after(2.0, lambda: at.append(line.now))
    line.after(1.0, lambda: line.after(0.5, lambda: at.append(line.now)))
    line.advance(5.0)
    assert at == [1.5, 2.0]
    assert line.now == 5.0


def test_what_was_cancelled_does_not_happen() -> None:
    line, done = Timeline(), []
    line.after(1.0, lambda: done.append("a")).cancel()
    assert not line.step()
    assert done == []
