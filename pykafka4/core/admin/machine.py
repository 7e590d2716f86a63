"""The machine of stateless calls: of an `AdminClient`, or of a client. Rule: it sends nothing by itself; each question ends."""

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
    """Runs questions. It has connections of its own to each broker: others may hold responses back."""

    def __init__(self, config: ClientConfig, network: Network, cluster: Cluster, random: Random) -> None:
        self.config, self.network, self.cluster = config, network, cluster
        self.turn = 0  # what is added during a turn is sent at its end
        self._outbox = Outbox()
        self._works: dict[Work, None] = {}  # type: ignore[type-arg]  # of any kind
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
        """Ask `question` about `keys`; `done` is called with the outcome of each, after `seconds` at the latest.

        Returns what ends it if nobody waits any more.
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
        """Work on `question`, without keys so far."""
        return Work(self._context, question, place, settled, deadline, seconds)

    def add(self, work: Work[K, V], keys: Iterable[K]) -> None:
        """Ask about `keys`, in the next poll, or in this one."""
        self._works[work] = None
        work.add(keys)

    def hold(self, place: Place[Any]) -> None:
        """`place` is in use until `release`, or until the machine is gone."""
        self._held[place] = None

    def release(self, place: Place[Any]) -> None:
        """It is no longer in use."""
        self._held.pop(place, None)
        place.end()

    def start(self, job: Job) -> None:
        """Run `job` on a helper thread, from the end of this turn on."""
        self._outbox.start(job)

    def anyone(self) -> Anyone[Any]:
        """For questions that any broker can answer."""
        return Anyone(self.network)

    def address(self, node: int) -> str:
        """Host and port of a broker; empty if it is not in the metadata."""
        broker = self.cluster.brokers.get(node)
        return "" if broker is None else f"{broker.host}:{broker.port}"

    def poll(self, now: float) -> Effects:
        """Send what is due."""
        if not self._works and not self._outbox.jobs:
            self.coordinators.rest()
            self.of_transactions.rest()
            return NOTHING
        due = list(self._works)
        while due:
            for work in due:
                work.poll(now)
            due = [work for work in self._works if work.wake_at == -INFINITY]  # with keys that others have settled
        self._works = {work: None for work in self._works if work.open}
        wake_at = min((work.wake_at for work in self._works), default=INFINITY)
        wake_at = min(wake_at, self.coordinators.poll(now), self.of_transactions.poll(now))
        self.turn += 1
        return self._outbox.effects(wake_at)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Callers wait on promises, which fail with the machine."""
        return ()

    def gone(self) -> None:
        """The client is closed: close the connections."""
        for work in list(self._works):
            self.stop(work)
        for place in list(self._held):
            self.release(place)
        self.cluster.on_change.remove(self._changed)
        for lane in self._context.lanes:
            self.network.drop_lane(lane)

    def stop(self, *works: Work[Any, Any]) -> None:
        """Nobody waits for these any more."""
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
