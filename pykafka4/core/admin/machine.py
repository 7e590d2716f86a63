"""Runs the questions of an `AdminClient`, or of a client's stateless calls. Invariant: each question ends by its deadline."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from random import Random
from typing import Any, TypeVar

from pykafka4.core import INFINITY, NOTHING, Effects, Job
from pykafka4.core.admin.broker_choices import AnyBrokerChoice, CoordinatorChoice, FindCoordinators, FindTransactionCoordinators
from pykafka4.core.admin.question_run import BrokerChoice, Question, QuestionRun, RunContext
from pykafka4.core.metadata.cluster import Cluster, MetadataChange
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError
from pykafka4.options.config import ClientConfig

__all__ = ["AdminMachine"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class AdminMachine:
    """A machine for questions. It has its own lanes, because brokers hold back responses to requests of other machines."""

    def __init__(self, config: ClientConfig, network: Network, cluster: Cluster, random: Random) -> None:
        self.config, self.network, self.cluster = config, network, cluster
        self.turn = 0  # number of polls with work so far
        self._outbox = Outbox()
        self._runs: dict[QuestionRun, None] = {}  # type: ignore[type-arg]  # all questions under way
        self._held: dict[BrokerChoice[Any], None] = {}
        lanes = network.new_lane(), network.new_lane(), network.new_lane()
        self._context = RunContext(config, random, lanes, self._outbox, network.why_unreachable)
        self.coordinators = CoordinatorChoice(self._context, network, cluster, FindCoordinators(), self._placed)
        self.transaction_coordinators = CoordinatorChoice(self._context, network, cluster, FindTransactionCoordinators(), self._placed)
        cluster.on_change.append(self._changed)
        network.refusals.listeners[self._refused_by] = None

    def begin(
        self,
        now: float,
        question: Question[K, V],
        choice: BrokerChoice[K],
        keys: Iterable[K],
        seconds: float,
        done: Callable[[dict[K, V | KafkaError]], None],
    ) -> Callable[[], None]:
        """Call `done` with the outcome of each key, after `seconds` at the latest. Return a function that stops the question,
        after which `done` is not called."""
        wanted = list(dict.fromkeys(keys))
        found: dict[K, V | KafkaError] = {}

        def settled(key: K, outcome: V | KafkaError) -> None:
            found[key] = outcome
            if len(found) == len(wanted):
                done({key: found[key] for key in wanted})

        if not wanted:
            done({})
            return lambda: None
        run = self.new_run(question, choice, settled, now + seconds, seconds)
        self.add(run, wanted)
        return partial(self.stop, run)

    def new_run(
        self,
        question: Question[K, V],
        choice: BrokerChoice[K],
        settled: Callable[[K, V | KafkaError], None],
        deadline: float,
        seconds: float,
    ) -> QuestionRun[K, V]:
        return QuestionRun(self._context, question, choice, settled, deadline, seconds)

    def add(self, run: QuestionRun[K, V], keys: Iterable[K]) -> None:
        """Add `keys` to `run`. A running poll checks them; otherwise, the next poll does."""
        self._runs[run] = None
        run.add(keys)

    def hold(self, choice: BrokerChoice[Any]) -> None:
        """Keep `choice` in use until `release`, or until the machine is disposed of."""
        self._held[choice] = None

    def release(self, choice: BrokerChoice[Any]) -> None:
        self._held.pop(choice, None)
        choice.end()

    def start(self, job: Job) -> None:
        self._outbox.start(job)

    def any_broker(self) -> AnyBrokerChoice[Any]:
        return AnyBrokerChoice(self.network)

    def address(self, node: int) -> str:
        broker = self.cluster.brokers.get(node)
        return "" if broker is None else f"{broker.host}:{broker.port}"

    def poll(self, now: float) -> Effects:
        if not self._runs and not self._outbox.jobs:
            self.coordinators.end_lookups()
            self.transaction_coordinators.end_lookups()
            return NOTHING
        due = list(self._runs)
        while due:
            for run in due:
                run.poll(now)
            due = [run for run in self._runs if run.wake_at == -INFINITY]  # outcomes of one question can add keys to another
        self._runs = {run: None for run in self._runs if run.open}
        wake_at = min((run.wake_at for run in self._runs), default=INFINITY)
        wake_at = min(wake_at, self.coordinators.poll(now), self.transaction_coordinators.poll(now))
        self.turn += 1
        return self._outbox.effects(wake_at)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Callers wait on promises, which fail if the machine fails."""
        return ()

    def dispose(self) -> None:
        for run in list(self._runs):
            self.stop(run)
        for choice in list(self._held):
            self.release(choice)
        self.cluster.on_change.remove(self._changed)
        self.network.refusals.listeners.pop(self._refused_by, None)
        for lane in self._context.lanes:
            self.network.drop_lane(lane)

    def stop(self, *runs: QuestionRun[Any, Any]) -> None:
        for run in runs:
            self._runs.pop(run, None)
            run.drop()

    def _placed(self, group: str) -> None:
        for run in self._runs:
            run.placed(group)

    def _changed(self, change: MetadataChange) -> None:
        for run in self._runs:
            run.check_all()
        self.coordinators.check_all()
        self.transaction_coordinators.check_all()

    def _refused_by(self, now: float, broker: int, error: KafkaError) -> None:
        for run in list(self._runs):
            run.refused_by(broker, error)
