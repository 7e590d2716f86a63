"""Engine: what is asked for in a turn happens in it, and a crash reaches everyone."""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import pytest
from core_talk import Answers, World, metadata, request

from pykafka4.core import ANY, INFINITY, Effects, Job, Request
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from pykafka4.wire.messages_cluster import DescribeClusterRequest


@attrs.define(eq=False)
class Script:
    """A machine that does what it is told, turn by turn."""

    effects: list[Effects] = attrs.Factory(list)
    polled: int = 0
    reason: KafkaError | None = None

    def poll(self, now: float) -> Effects:
        self.polled += 1
        return self.effects.pop(0) if self.effects else Effects()

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        self.reason = reason
        return (lambda: None,)


class Broken(Script):
    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        raise ValueError("broken")


@pytest.fixture
def world() -> World:
    world = World.make()
    world.run()
    for node in (1, 2, 3):
        world.engine.network.want(node)
    world.run(5.0)
    return world


def test_a_machines_request_leaves_in_the_turn_it_was_asked_for(world: World) -> None:
    asked, _ = request(1, DescribeClusterRequest())
    world.engine.add(Script([Effects((asked,))]))
    turn = world.engine.turn(world.now)
    assert [link for link, _ in turn.write] == [world.link_to("h1")]


def test_what_machines_ask_of_the_loop_is_passed_on_in_order(world: World) -> None:
    first, second, job = lambda: None, lambda: None, Job(lambda: None, lambda now, result: None)
    world.engine.add(Script([Effects(deliver=(second,), wake_at=world.now + 2)]))
    world.engine.add(Script([Effects(deliver=(first,), jobs=(job,), wake_at=world.now + 1)]))
    turn = world.engine.turn(world.now)
    assert turn.deliver == (first, second)
    assert turn.jobs == (job,)
    assert turn.wake_at == world.now + 1


def test_with_nothing_to_do_it_sleeps_long(world: World) -> None:
    assert world.engine.turn(world.now).wake_at > world.now + 100


def test_an_answer_given_during_the_turn_has_the_machines_polled_again_at_once(world: World) -> None:
    asked, answers = request(99, DescribeClusterRequest())  # there is no such broker
    world.engine.add(Script([Effects((asked,))]))
    turn = world.engine.turn(world.now)
    assert answers.failure
    assert turn.wake_at == world.now


def test_news_of_recovery_have_the_machines_polled_again_at_once(world: World) -> None:
    script = Script()
    world.engine.add(script)
    world.picture = metadata({"t": [(1, 5)]})
    world.engine.cluster.want("t", "the test")
    world.run(1.0)
    world.engine.recovery.report(world.now, TopicPartition("t", 0), KafkaError("x"))
    world.run(0.05)
    changes = world.engine.recovery.changes
    while world.engine.recovery.changes == changes:
        turn = world.engine.turn(world.now)
        if world.engine.recovery.changes == changes:
            world._carry_out(turn)
            world.now = max(world.now, min(turn.wake_at, world.now + 0.05))
    assert turn.wake_at == world.now


def test_a_request_that_belongs_to_no_machine_is_sent_with_the_next_turn(world: World) -> None:
    asked, answers = request(ANY)
    world.engine.submit(asked)
    world.run()
    assert answers.reply


def test_a_machine_that_was_removed_is_not_polled_and_still_gets_its_answers(world: World) -> None:
    answers = Answers()
    script = Script([Effects((Request(ANY, metadata_request(), 1e9, answers),))])
    world.engine.add(script)
    turn = world.engine.turn(world.now)
    world.engine.remove(script)
    world._carry_out(turn)
    polled = script.polled
    world.run(1.0)
    assert script.polled == polled
    assert answers.reply


def metadata_request() -> object:
    asked, _ = request(ANY)
    return asked.message


def test_a_crash_reaches_every_machine_even_past_one_that_breaks(world: World, caplog: pytest.LogCaptureFixture) -> None:
    before, after = Script(), Script()
    for machine in (after, Broken(), before):
        world.engine.add(machine)
    reason = KafkaError("the loop crashed")
    with caplog.at_level(logging.ERROR, "pykafka4.engine"):
        deliver = world.engine.crash(reason)
    assert before.reason is after.reason is reason
    assert len(deliver) == 2
    assert "Broken could not be brought down cleanly" in caplog.text


def test_the_same_seed_gives_the_same_turns() -> None:
    def history() -> list[tuple[float, str, int]]:
        world = World.make(seed=7)
        world.down |= {("b1", 9092), ("b2", 9092)}
        world.run(5.0)
        return world.attempts

    assert history() == history()
    assert history()
    assert World.make().engine.turn(0.0).wake_at < INFINITY
