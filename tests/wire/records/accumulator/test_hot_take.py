"""What the loop is handed: full batches, those whose linger is over, and when it is woken for them."""

from __future__ import annotations

from types import ModuleType

import pytest

from pykafka4.records import Written
from tests.wire.records.hot_world import World, each_core, only_compiled

pytestmark = each_core


def test_full_batches_are_taken_in_order_of_sealing(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    for i in range(100):
        world.send(value=b"x" * 1000, partition=i % 2)
    sealed, due, _ = world.acc.take(world.now)
    assert [b.partition for b in sealed[:4]] == [0, 1, 0, 1]
    assert due == []
    assert world.acc.take(world.now)[0] == []


def test_a_batch_is_due_once_its_linger_is_over(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    world.send(partition=0)
    world.now += 0.003
    world.send(partition=1)
    assert world.acc.take(world.now) == ([], [], pytest.approx(100.005))
    world.now = 100.006
    sealed, due, deadline = world.acc.take(world.now)
    assert (sealed, [b.partition for b in due], deadline) == ([], [0], pytest.approx(100.008))
    world.now = 100.010
    assert [b.partition for b in world.acc.take(world.now)[1]] == [1]
    assert world.acc.take(world.now) == ([], [], float("inf"))


@pytest.mark.parametrize(("later", "taken"), [(0.0006, [0, 1]), (0.0007, [0])])
def test_a_batch_that_is_due_soon_is_taken_with_one_that_is_due(core: ModuleType, later: float, taken: list[int]) -> None:
    """Soon: within an eighth of the linger, which is 5 ms here."""
    only_compiled(core)
    world = World(core, {"t": 2})
    world.send(partition=0)
    world.now += later
    world.send(partition=1)
    assert world.acc.take(100.0049)[1] == []
    assert [b.partition for b in world.acc.take(100.005)[1]] == taken


def take_one(world: World) -> float:
    """Take one batch, and seal it as if it were sent; returns when to call again."""
    sealed, (batch,), again = world.acc.take(world.now)
    assert sealed == []
    assert world.acc.seal(batch, taken=True)
    return float(again)


def steady(core: ModuleType, gap: float) -> World:
    """A batch was opened `gap` seconds after the last one was taken, and was taken 5 ms later."""
    world = World(core)
    world.send()
    world.now = 100.005
    assert take_one(world) == float("inf")
    world.now += gap
    world.send()
    world.now += 0.005
    take_one(world)
    return world


def test_while_records_come_steadily_the_loop_is_not_woken_for_each_batch(core: ModuleType) -> None:
    only_compiled(core)
    world = steady(core, 0.0006)
    began, wakes = world.now, world.wakes
    assert world.acc.wake_at == pytest.approx(began + 0.005), "it looks for the next batch by itself"
    for _ in range(3):
        world.now += 0.0005
        world.send()
        assert world.acc.take(world.now)[1:] == ([], pytest.approx(began + 0.005)), "another turn, in between"
        began = world.now = began + 0.005
        assert take_one(world) == pytest.approx(began + 0.005)
    assert world.wakes == wakes


def test_when_no_batch_comes_as_expected_the_next_one_wakes_the_loop(core: ModuleType) -> None:
    world = steady(core, 0.0006)
    world.now += 0.005
    assert world.acc.take(world.now) == ([], [], float("inf"))
    wakes = world.wakes
    world.send()
    assert world.wakes > wakes
    assert world.acc.take(world.now) == ([], [], pytest.approx(world.now + 0.005))


def test_a_batch_that_comes_later_than_expected_has_its_whole_linger(core: ModuleType) -> None:
    world = steady(core, 0.0006)
    began = world.now
    world.now += 0.002
    world.send()
    assert world.acc.take(began + 0.005) == ([], [], pytest.approx(began + 0.007))
    world.now = began + 0.007
    assert take_one(world) == float("inf"), "records no longer come steadily"


def test_no_batch_is_expected_if_records_come_rarely(core: ModuleType) -> None:
    assert steady(core, 0.0007).acc.wake_at == float("inf")


def test_no_batch_is_expected_without_linger(core: ModuleType) -> None:
    world = World(core, linger=0.0)
    for _ in range(3):
        world.send()
        assert take_one(world) == float("inf")


def test_no_batch_is_expected_after_a_flush(core: ModuleType) -> None:
    world = steady(core, 0.0006)
    world.now += 0.0001
    world.send()
    world.acc.expedite()
    world.acc.take(world.now)
    world.now += 0.0049
    assert world.acc.take(world.now) == ([], [], float("inf"))


def test_a_due_batch_still_takes_records_until_it_is_sealed(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.now += 1
    _, (batch,), _ = world.acc.take(world.now)
    world.send()
    assert batch.count == 2
    assert world.acc.seal(batch)
    assert not world.acc.seal(batch)
    world.send()
    assert batch.count == 2
    assert world.acc.take(world.now)[0] == [batch]


def test_a_batch_that_is_taken_as_it_is_sealed_is_not_returned_again(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.now += 1
    _, (batch,), _ = world.acc.take(world.now)
    assert world.acc.seal(batch, taken=True)
    assert not world.acc.seal(batch, taken=True)
    world.send()
    world.now += 1
    sealed, due, _ = world.acc.take(world.now)
    assert sealed == []
    assert [b.count for b in (batch, *due)] == [1, 1]


def test_a_due_batch_that_fills_up_is_sealed_by_the_sender_of_the_record(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.now += 1
    _, (batch,), _ = world.acc.take(world.now)
    for _ in range(20):
        world.send(value=b"x" * 1000)
    assert not world.acc.seal(batch)
    assert world.acc.take(world.now)[0][0] is batch


def test_expedite_makes_every_open_batch_due(core: ModuleType) -> None:
    world = World(core, {"t": 3}, linger=600.0)
    for partition in range(3):
        world.send(partition=partition)
    assert world.acc.take(world.now)[1] == []
    world.acc.expedite()
    assert [b.partition for b in world.acc.take(world.now)[1]] == [0, 1, 2]
    world.send(partition=0)
    assert world.acc.take(world.now)[1] == []


def test_a_failed_batch_is_not_handed_out_again(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.acc.expedite()
    _, (batch,), _ = world.acc.take(world.now)
    world.acc.seal(batch)
    batch.fail("PURGED", Written.NO, None)
    assert world.acc.take(world.now)[0] == []


def test_the_loop_is_woken_by_the_first_record_and_not_by_the_next(core: ModuleType) -> None:
    world = World(core)
    world.send()
    assert world.wakes == 1
    for _ in range(5):
        world.send()
    assert world.wakes == 1
    world.acc.take(world.now)
    world.send()
    assert world.wakes == 1


def test_a_full_batch_wakes_the_loop_only_while_a_connection_could_take_it(core: ModuleType) -> None:
    world = World(core)
    for can_send, expected in ((False, 0), (True, 1)):
        world.acc.take(world.now)
        world.acc.can_send = can_send
        world.send()
        world.acc.wake_at = 0.0
        before = world.wakes
        while not world.acc.take(world.now)[0]:
            world.acc.wake_at = 0.0
            world.send(value=b"x" * 5000)
        assert world.wakes - before == expected
