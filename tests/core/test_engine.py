"""Engine: what machines request in a turn happens in it, and a crash fails every pending call."""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs
import pytest

from pykafka4.core import ANY, INFINITY, Effects, Job
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_admin import DescribeClusterRequest, DescribeClusterResponse
from tests.core.scripted_brokers import PlainRequest, World, metadata, request


@attrs.define(eq=False)
class Script:
    """A scripted machine, turn by turn."""

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


def test_a_request_after_a_freeze_uses_a_new_connection(world: World) -> None:
    """The machine is polled before the network, in the first turn after the freeze."""
    before = world.link_to("h1")
    world.now += world.engine.config.connections_max_idle_ms / 1000 + 1.0
    asked, _ = request(1, DescribeClusterRequest())
    world.engine.add(Script([Effects((asked,))]))
    turn = world.engine.turn(world.now)
    assert before in [close.link for close in turn.close]
    assert "h1" in [connect.host for connect in turn.connect]
    assert turn.write == ()


def test_no_node_is_ready_for_the_machines_after_a_freeze(world: World) -> None:
    world.now += world.engine.config.connections_max_idle_ms / 1000 + 1.0
    ready: list[bool] = []

    class Asking(Script):
        def poll(self, now: float) -> Effects:
            ready.append(world.engine.network.ready(1))
            return Effects()

    world.engine.add(Asking())
    world.engine.turn(world.now)
    assert ready == [False]


def test_what_machines_ask_of_the_loop_is_passed_on_in_order(world: World) -> None:
    results: list[object] = []
    first, second, job = lambda: None, lambda: None, Job(lambda: 7, lambda now, result: results.append(result))
    world.engine.add(Script([Effects(deliver=(second,), wake_at=world.now + 2)]))
    world.engine.add(Script([Effects(deliver=(first,), jobs=(job,), wake_at=world.now + 1)]))
    turn = world.engine.turn(world.now)
    assert turn.deliver == (first, second)
    (passed_on,) = turn.jobs
    passed_on.then(world.now, passed_on.run())
    assert results == [7]
    assert turn.wake_at == world.now + 1


def test_with_nothing_to_do_it_sleeps_long(world: World) -> None:
    wake_at = world.engine.turn(world.now).wake_at  # for the timeout of a request that has been answered
    assert world.engine.turn(wake_at).wake_at > wake_at + 100


def test_an_answer_given_during_the_turn_has_the_machines_polled_again_at_once(world: World) -> None:
    asked, answers = request(99, DescribeClusterRequest())  # there is no such broker
    world.engine.add(Script([Effects((asked,))]))
    turn = world.engine.turn(world.now)
    assert answers.failure
    assert turn.wake_at == world.now


def test_a_recovered_partition_polls_the_machines_again_at_once(world: World) -> None:
    script = Script()
    world.engine.add(script)
    world.metadata = metadata({"t": [(1, 5)]})
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


def test_a_machine_that_was_removed_is_not_polled_and_still_gets_its_answers(world: World) -> None:
    asked, answers = request(ANY)
    script = Script([Effects((asked,))])
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
    assert "Broken could not be shut down cleanly" in caplog.text


# -- the failure of one machine


class Failing(Script):
    """A machine that raises in the given step."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.answers: list[object] = []

    def poll(self, now: float) -> Effects:
        self.polled += 1
        self.fail_in("poll")
        if self.polled > 1:
            return Effects()
        asked = PlainRequest(1, DescribeClusterRequest(), 1e9, answers=self.answered)
        return Effects((asked,), jobs=(Job(lambda: 7, self.job_done),))

    def answered(self, now: float, outcome: object) -> None:
        self.answers.append(outcome)
        self.fail_in("answer")

    def job_done(self, now: float, result: object) -> None:
        self.answers.append(result)
        self.fail_in("job")

    def called(self, now: float) -> None:
        self.fail_in("call")

    def fail_in(self, where: str) -> None:
        if self.where == where:
            raise ValueError(f"broken in {where}")


def one_turn(world: World, machine: Script) -> list[Callable[[], None]]:
    """A turn with its jobs done and its answers given; the callbacks that the next turn delivers."""
    turn = world.engine.turn(world.now)
    for job in turn.jobs:
        job.then(world.now, job.run())
    world._carry_out(turn)
    for link, header, _ in world.others:
        world.answer(link, header, DescribeClusterResponse())
    world.others.clear()
    if isinstance(machine, Failing):
        world.engine.call(world.now, machine.called, machine)
    return [*turn.deliver, *world.engine.turn(world.now).deliver]


@pytest.mark.parametrize("where", ["poll", "answer", "job", "call"])
def test_an_exception_ends_its_machine_and_fails_its_waiters_and_the_others_go_on(
    world: World, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[tuple[object, KafkaError]] = []
    world.engine.on_failure = [lambda machine, reason: failures.append((machine, reason))]
    failing, healthy = Failing(where), Script()
    world.engine.add(healthy, "consumer")
    world.engine.add(failing, "producer")
    deliver = one_turn(world, failing)
    assert [machine for machine, _ in failures] == [failing]
    reason = failures[0][1]
    assert failing.reason is reason is world.engine.failure(failing)
    assert str(reason) == f"an internal error stopped this producer: ValueError: broken in {where}; close it and create a new one"
    assert isinstance(reason.__cause__, ValueError)
    assert len(deliver) == 1, "the callbacks of the machine that ended"
    assert "Traceback" in caplog.text
    assert f"broken in {where}" in caplog.text
    polled = (failing.polled, healthy.polled)
    world.run(1.0)
    assert failing.polled == polled[0]
    assert healthy.polled > polled[1]
    assert healthy.reason is None
    assert world.engine.failure(healthy) is None


def test_answers_jobs_and_calls_of_a_failed_machine_are_dropped(world: World) -> None:
    world.engine.on_failure.clear()
    machine = Failing("nowhere")
    world.engine.add(machine)
    turn = world.engine.turn(world.now)
    world._carry_out(turn)
    world.engine.fail(machine, ValueError("broken"))
    for link, header, _ in world.others:
        world.answer(link, header, DescribeClusterResponse())
    for job in turn.jobs:
        job.then(world.now, job.run())
    called: list[float] = []
    world.engine.call(world.now, called.append, machine)
    assert not machine.answers
    assert not called


def test_a_machine_fails_once(world: World) -> None:
    failures: list[KafkaError] = []
    world.engine.on_failure = [lambda machine, reason: failures.append(reason)]
    machine = Script()
    world.engine.add(machine)
    for number in range(3):
        world.engine.fail(machine, ValueError(str(number)))
    assert len(failures) == 1
    assert "ValueError: 0" in str(failures[0])
    world.engine.crash(KafkaError("the loop crashed"))
    assert machine.reason is failures[0], "it is told one reason"


def test_a_machine_that_cannot_be_brought_down_is_ended_all_the_same(world: World, caplog: pytest.LogCaptureFixture) -> None:
    failures: list[object] = []
    world.engine.on_failure = [lambda machine, reason: failures.append(machine)]
    broken = Broken()
    world.engine.add(broken)
    world.engine.fail(broken, ValueError("x"))
    world.run(1.0)
    assert failures == [broken]
    assert broken.polled == 0
    assert "Broken could not be shut down cleanly" in caplog.text


def test_an_error_whose_text_cannot_be_made_still_ends_only_its_machine(world: World) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    failures: list[KafkaError] = []
    world.engine.on_failure = [lambda machine, reason: failures.append(reason)]
    machine = Script()
    world.engine.add(machine)
    world.engine.fail(machine, Mute())
    assert "Mute" in str(failures[0])


def test_a_call_that_belongs_to_no_machine_is_logged_and_ends_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    world.engine.add(script)

    def broken(now: float) -> None:
        raise ValueError("of nobody")

    world.engine.call(world.now, broken, None)
    world.run(1.0)
    assert caplog.text.count("ValueError: of nobody") == 1
    assert script.reason is None


@pytest.mark.parametrize("part", ["cluster", "recovery", "network"])
def test_an_exception_in_a_shared_part_ends_the_turn(world: World, part: str) -> None:
    def broken(now: float) -> Effects:
        raise ValueError("shared")

    getattr(world.engine, part).poll = broken
    with pytest.raises(ValueError, match="shared"):
        world.engine.turn(world.now)


def test_the_same_seed_gives_the_same_turns() -> None:
    def history() -> list[tuple[float, str, int]]:
        world = World.make(seed=7)
        world.down |= {("b1", 9092), ("b2", 9092)}
        world.run(5.0)
        return world.attempts

    assert history() == history()
    assert history()
    assert World.make().engine.turn(0.0).wake_at < INFINITY
