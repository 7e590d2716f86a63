"""The memory of unfinished messages: its limit, who waits, who loses it."""

from __future__ import annotations

from pykafka4.agent.inputs.unfinished import HOLD_S, Room


class Client:
    """A Holder that notes what happens to it."""

    def __init__(self, room: Room) -> None:
        self.room, self.resumed, self.lost = room, False, False

    def resume(self) -> None:
        self.resumed = True

    def lose_room(self) -> None:
        self.lost = True
        self.room.release(self)


def clients(room: Room, number: int) -> list[Client]:
    return [Client(room) for _ in range(number)]


def test_room_is_given_until_there_is_none() -> None:
    room = Room(100)
    a, b, c = clients(room, 3)
    assert room.reserve(a, 60, 0.0)
    assert room.reserve(b, 40, 0.0)
    assert not room.reserve(c, 1, 0.0)
    assert room.crowded


def test_those_who_wait_are_served_in_order() -> None:
    room = Room(100)
    a, b, c, d = clients(room, 4)
    room.reserve(a, 100, 0.0)
    assert not room.reserve(b, 80, 0.0)
    assert not room.reserve(c, 30, 0.0)
    assert not room.reserve(d, 1, 0.0)  # it does not overtake, although there would be room
    room.release(a)
    room.serve(1.0)
    assert (b.resumed, c.resumed, d.resumed) == (True, False, False)
    room.release(b)
    room.serve(1.0)
    assert (c.resumed, d.resumed, room.free, room.crowded) == (True, True, 69, False)


def test_a_holder_loses_its_room_after_a_while_if_another_waits() -> None:
    room = Room(100)
    a, b, c = clients(room, 3)
    room.reserve(a, 50, 0.0)
    room.reserve(b, 50, 1.0)
    room.end_overdue(HOLD_S + 100)
    assert not a.lost  # nobody waits
    room.reserve(c, 50, 2.0)
    room.end_overdue(HOLD_S - 0.1)
    assert not a.lost
    room.end_overdue(HOLD_S)
    assert (a.lost, b.lost, c.resumed) == (True, False, True)


def test_no_more_lose_their_room_than_others_need() -> None:
    room = Room(100)
    a, b, c = clients(room, 3)
    room.reserve(a, 50, 0.0)
    room.reserve(b, 50, 0.0)
    room.reserve(c, 10, 0.0)
    room.end_overdue(HOLD_S)
    assert (a.lost, b.lost, c.resumed) == (True, False, True)


def test_one_that_waits_can_give_up() -> None:
    room = Room(100)
    a, b, c = clients(room, 3)
    room.reserve(a, 100, 0.0)
    room.reserve(b, 100, 0.0)
    room.reserve(c, 1, 0.0)
    room.release(b)
    room.release(a)
    room.serve(0.0)
    assert (b.resumed, c.resumed, room.free) == (False, True, 99)
