"""Runs the questions of an `AdminClient`, or of a client's stateless calls. Invariant: each question ends by its deadline."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from random import Random
from typing import Any, TypeVar

from pykafka4.core import INFINITY, NOTHING, Effects, Job
from pykafka4.core.admin.places import Anyone, Coordinators, FindCoordinators, FindTransactionCoordinators
from pykafka4.core.admin.work import Context, Place, Question, Work
from pykafka4.core.metadata.cluster import Cluster, MetadataChange
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError
from pykafka4.options.config import ClientConfig

__all__ = ["AdminMachine"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class AdminMachine:
    """The machine of one client for questions. It has its own lanes, because brokers hold back responses to other machines' requests."""

    def __init__(self, config: ClientConfig, network: Network, cluster: Cluster, random: Random) -> None:
        self.config, self.network, self.cluster = config, network, cluster
        self.turn = 0  # number of polls so far; the next poll sends requests for keys that are added until then
        self._outbox = Outbox()
        self._works: dict[Work, None] = {}  # type: ignore[type-arg]  # questions of all kinds that are under way
        self._held: dict[Place[Any], None] = {}
        lanes = network.new_lane(), network.new_lane(), network.new_lane()
        self._context = Context(config, random, lanes, self._outbox, network.why_unreachable)
        self.coordinators = Coordinators(self._context, network, cluster, FindCoordinators(), self._placed)
        self.of_transactions = Coordinators(self._context, network, cluster, FindTransactionCoordinators(), self._placed)
        cluster.on_change.append(self._changed)

    def begin(
        self,
        now: float,
        question: Question[K, V],
        place: Place[K],
        keys: Iterable[K],
        seconds: float,
        done: Callable[[dict[K, V | KafkaError]], None],
    ) -> Callable[[], None]:
        """Ask `question` about `keys`; `done` is called with the outcome of each key, after `seconds` at the latest.

        Returns a function that stops the question when nobody waits for it any more.
        """
        wanted = list(dict.fromkeys(keys))
        found: dict[K, V | KafkaError] = {}

        def settled(key: K, outcome: V | KafkaError) -> None:
            found[key] = outcome
            if len(found) == len(wanted):
                done({key: found[key] for key in wanted})

        if not wanted:
            done({})
            return lambda: None
        work = self.work(question, place, settled, now + seconds, seconds)
        self.add(work, wanted)
        return partial(self.stop, work)

    def work(
        self, question: Question[K, V], place: Place[K], settled: Callable[[K, V | KafkaError], None], deadline: float, seconds: float
    ) -> Work[K, V]:
        """The `Work` of `question`, without keys."""
        return Work(self._context, question, place, settled, deadline, seconds)

    def add(self, work: Work[K, V], keys: Iterable[K]) -> None:
        """Add `keys` to `work`, which sends their requests in the next poll, or in the one that is running."""
        self._works[work] = None
        work.add(keys)

    def hold(self, place: Place[Any]) -> None:
        """Keep `place` in use until `release`, or until the machine is gone."""
        self._held[place] = None

    def release(self, place: Place[Any]) -> None:
        """End the use of `place`."""
        self._held.pop(place, None)
        place.end()

    def start(self, job: Job) -> None:
        """Run `job` on a helper thread after this turn."""
        self._outbox.start(job)

    def anyone(self) -> Anyone[Any]:
        """The place of questions that any broker can answer."""
        return Anyone(self.network)

    def address(self, node: int) -> str:
        """Host and port of broker `node`; empty if the metadata lacks the broker."""
        broker = self.cluster.brokers.get(node)
        return "" if broker is None else f"{broker.host}:{broker.port}"

    def poll(self, now: float) -> Effects:
        """Send the requests that are due."""
        if not self._works and not self._outbox.jobs:
            self.coordinators.rest()
            self.of_transactions.rest()
            return NOTHING
        due = list(self._works)
        while due:
            for work in due:
                work.poll(now)
            due = [work for work in self._works if work.wake_at == -INFINITY]  # outcomes of one question may add keys to another
        self._works = {work: None for work in self._works if work.open}
        wake_at = min((work.wake_at for work in self._works), default=INFINITY)
        wake_at = min(wake_at, self.coordinators.poll(now), self.of_transactions.poll(now))
        self.turn += 1
        return self._outbox.effects(wake_at)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Nothing to do: callers wait on promises, which fail with the machine."""
        return ()

    def gone(self) -> None:
        """Stop all questions and drop the lanes, because the client is closed."""
        for work in list(self._works):
            self.stop(work)
        for place in list(self._held):
            self.release(place)
        self.cluster.on_change.remove(self._changed)
        for lane in self._context.lanes:
            self.network.drop_lane(lane)

    def stop(self, *works: Work[Any, Any]) -> None:
        """Stop `works`, as nobody waits for their outcomes any more."""
        for work in works:
            self._works.pop(work, None)
            work.drop()

    def _placed(self, group: str) -> None:
        for work in self._works:
            work.placed(group)

    def _changed(self, change: MetadataChange) -> None:
        for work in self._works:
            work.stir()
        self.coordinators.stir()
        self.of_transactions.stir()
