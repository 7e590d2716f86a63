"""What a consumer of many brokers does on the loop, counted in bytecodes: it grows with what happens, not with the brokers there are."""

from __future__ import annotations

from random import Random

from pykafka4.consumer.reading.reader import Reader
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.network.network import via
from pykafka4.core.subscription import Claim
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from tests.core.counting import bytecodes
from tests.core.scripted_brokers import World, metadata, versions

FEW, MANY = 3, 60
WARM = 20  # rounds of each broker, after which the interpreter merges no more bytecodes
SLACK = 30  # bytecodes: far fewer than a look at each of so many brokers


class Brokers:
    """A consumer of one partition of each of so many brokers, with a Fetch in flight to each."""

    def __init__(self, count: int) -> None:
        self.count, self.world = count, World.make()
        self.world.speaks = versions(Fetch=(0, 12))
        self.world.metadata = metadata({"t": [(node, 1) for node in self.nodes]}, {node: (f"h{node}", node) for node in self.nodes})
        engine = self.world.engine
        config = ConsumerConfig.parse({"bootstrap_servers": "b1:9092,b2:9092", "auto_offset_reset": "earliest"})
        reader = Reader(lambda: self.world.now, lambda: None, lambda moves: None)
        machine = ConsumerMachine(config, engine.network, engine.cluster, engine.recovery, Random(1), reader)
        engine.add(machine, "consumer")
        machine.fetcher.adopt([Claim(TopicPartition("t", number)) for number in range(count)], 0)
        self.world.run(1.0)

    @property
    def nodes(self) -> range:
        return range(1, self.count + 1)

    def round(self) -> None:
        """The Fetch that waits longest is answered: there is nothing new. The next goes out."""
        link, header, message = self.world.others.pop(0)
        assert isinstance(message, FetchRequest)
        named = [FetchResponse.Topic(topic=t.topic, partitions=[_empty(p.partition) for p in t.partitions]) for t in message.topics]
        self.world.now += 0.01
        self.world.answer(link, header, FetchResponse(session_id=link, responses=named))
        self.world._carry_out(self.world.engine.turn(self.world.now))

    def warm(self) -> None:
        for _ in range(WARM * self.count):
            self.round()


def _empty(partition: int) -> FetchResponse.Topic.Partition:
    return FetchResponse.Topic.Partition(partition_index=partition, error_code=0, high_watermark=0, records=b"")


def test_a_fetch_without_news_costs_the_same_however_many_brokers_there_are() -> None:
    few, many = Brokers(FEW), Brokers(MANY)
    few.warm()
    many.warm()
    costs = [min(bytecodes(brokers.round) for _ in range(5)) for brokers in (few, many)]
    assert costs[1] <= costs[0] + SLACK, "bytecodes with few brokers, and with many"


def test_a_new_connection_costs_the_same_however_many_others_there_are() -> None:
    costs = []
    for count in (FEW, MANY):
        brokers = Brokers(count)
        network = brokers.world.engine.network
        lanes = [network.new_lane() for _ in range(WARM)]
        counts = []
        for lane in lanes:
            network.want(via(lane, 1))
            counts.append(bytecodes(brokers.world.run))
            assert network.ready(via(lane, 1))
        costs.append(min(counts))
    assert costs[1] <= costs[0] + SLACK, "bytecodes with few brokers, and with many"
