"""Source. Rule: one Fetch per broker is in flight, and at most one more was left behind; each has a connection of its own.

A broker holds a Fetch back until there is data. It does not ask for a position that was sought or found meanwhile: then it is left behind,
and the next goes out beside it, over the other lane. Searches (ListOffsets) take the lane on which they wait least.

Each Fetch names all its partitions, without a session. A fetch session (KIP-227) is a matter of one consumer and one broker: a Source would
keep its id and epoch, `fetch` would name what differs from the Fetch before, and `read` would take what an answer leaves out as unchanged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from pykafka4.config import ConsumerConfig
from pykafka4.core import Outcome, Request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import via
from pykafka4.core.subscription import Position
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from pykafka4.wire.protocol.schema import NO_UUID

__all__ = ["Answer", "InFlightFetch", "Source"]

BY_NAME_ONLY: Final = 12  # from Fetch 13 on topics go by id
EPOCHS_FROM: Final = 12  # `last_fetched_epoch`: the broker notices that our log is not its log
NO_SESSION: Final = -1
CONSUMER: Final = -1  # the replica id of whoever is no replica
FRAME, PER_PARTITION = 512, 320  # bytes of an answer that are no records, at most; a name can take 249 of them

Answer: TypeAlias = FetchResponse.Topic.Partition


@attrs.frozen(eq=False)
class InFlightFetch:
    """One Fetch that has no answer yet: what was asked for, at which offset, and the bytes kept free for it."""

    lane: int
    reserved: int
    asked: dict[tuple[str, int], tuple[Position, int]]
    topic_names: Mapping[UUID, str]

    def asks_for(self, position: Position) -> bool:
        """Whether its answer can count for `position`, and not only for one of the same partition before a seek."""
        asked = self.asked.get(position.tp)
        return asked is not None and asked[0] is position


class Source:
    """One broker that leads, or led, partitions that are read."""

    __slots__ = ("_cluster", "_config", "_lanes", "_recovery", "in_flight", "left_behind", "line", "node", "undecodable")

    def __init__(self, node: int, lanes: tuple[int, int], config: ConsumerConfig, cluster: Cluster, recovery: Recovery) -> None:
        self.node = node
        self._lanes, self._config, self._cluster, self._recovery = lanes, config, cluster, recovery
        self.line: OrderedDict[TopicPartition, Position] = OrderedDict()  # what can be fetched here; who was served last comes last
        self.in_flight: InFlightFetch | None = None
        self.left_behind: InFlightFetch | None = None  # no one waits for it
        self.undecodable = False  # the last answer could not be decoded

    @property
    def reserved(self) -> int:
        """Bytes that are kept free for answers to come."""
        return sum(fetch.reserved for fetch in (self.in_flight, self.left_behind) if fetch is not None)

    @property
    def lane(self) -> int:
        """The lane for the next request: one that no Fetch occupies, else that of the Fetch which has waited longer."""
        if self.left_behind is not None and self.in_flight is not None:
            return self.left_behind.lane
        busy = self.left_behind or self.in_flight
        return self._lanes[1] if busy is not None and busy.lane == self._lanes[0] else self._lanes[0]

    @property
    def address(self) -> int:
        """The connection for the next request."""
        return via(self.lane, self.node)

    # ---------------------------------------------------------------- asking

    def leave_behind(self, position: Position) -> bool:
        """Make way for a Fetch that asks for `position`, if that in flight does not, once at a time; False if nothing changed."""
        waiting = self.in_flight
        if waiting is None or self.left_behind is not None or waiting.asks_for(position):
            return False
        self.left_behind, self.in_flight = waiting, None
        return True

    def fetch(
        self,
        now: float,
        chosen: Sequence[Position],
        budget: int,
        wait: float,
        answered: Callable[[float, Source, InFlightFetch, Outcome], None],
    ) -> Request:
        """Ask for `chosen`, from now on in flight: `budget` bytes, and `wait` seconds at most until there is data."""
        budget = max(1, min(budget, self._config.receive_message_max_bytes - FRAME - PER_PARTITION * len(chosen)))
        ids = {topic: self._cluster.topic_id(topic) for topic in dict.fromkeys(position.tp.topic for position in chosen)}
        fetch = InFlightFetch(
            lane=self.lane,
            reserved=min(budget, sum(position.limit for position in chosen)),
            asked={position.tp: (position, position.offset) for position in chosen},
            topic_names={topic_id: name for name, topic_id in ids.items() if topic_id is not None},
        )
        self.in_flight = fetch
        message = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=int(wait * 1000),
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=budget,
            session_epoch=NO_SESSION,
            topics=self._topics(chosen, ids),
        )
        deadline = now + self._config.request_timeout_ms / 1000 + wait
        by_id = len(fetch.topic_names) == len(ids)
        on_reply = lambda at, outcome: answered(at, self, fetch, outcome)  # noqa: E731
        return Request(via(fetch.lane, self.node), message, deadline, on_reply, None if by_id else BY_NAME_ONLY, _fit)

    def _topics(self, chosen: Sequence[Position], ids: Mapping[str, UUID | None]) -> list[FetchRequest.Topic]:
        topics: dict[str, list[FetchRequest.Topic.Partition]] = {}
        for position in chosen:
            leader = self._recovery.leader(position.tp)
            topics.setdefault(position.tp.topic, []).append(
                FetchRequest.Topic.Partition(
                    partition=position.tp.partition,
                    current_leader_epoch=-1 if leader is None else leader.epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.epoch,
                    partition_max_bytes=position.limit,
                )
            )
        return [FetchRequest.Topic(topic=name, topic_id=ids[name] or NO_UUID, partitions=parts) for name, parts in topics.items()]

    # ---------------------------------------------------------------- answers

    def finish(self, fetch: InFlightFetch) -> None:
        """`fetch` was answered, or failed: it is in flight no more."""
        if self.in_flight is fetch:
            self.in_flight = None
        elif self.left_behind is fetch:
            self.left_behind = None

    def read(self, fetch: InFlightFetch, response: FetchResponse) -> Iterator[tuple[Position, int, Answer]]:
        """What was asked for, the offset at which it was, and the answer. A partition named twice, or not asked for, is passed over."""
        for topic in response.responses:
            name = topic.topic or fetch.topic_names.get(topic.topic_id, "")
            for answer in topic.partitions:
                asked = fetch.asked.pop((name, answer.partition_index), None)
                if asked is not None:
                    position, offset = asked
                    yield position, offset, answer


def _fit(message: FetchRequest, version: int) -> None:
    """Name no epochs to a broker that would not understand them."""
    if version < EPOCHS_FROM:
        for partition in (partition for topic in message.topics for partition in topic.partitions):
            partition.last_fetched_epoch = -1
