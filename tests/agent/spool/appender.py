"""A process that a test kills: it appends to a spool, sends what is there, and prints the last message that it has written.

Lines: `written N`, after a write of messages up to N to each topic; `done TOPIC N`, before the acknowledgement of a message.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

from pykafka4.agent.settings.values import Sync
from tests.agent.spool.world import World, message, number_of

__all__ = ["TOPICS"]

TOPICS = ("a", "b", "c")
MOST = 8 * 2**20  # bytes on disk


def main(folder: str, first: int, seed: int) -> None:
    chance = random.Random(seed)
    world = World(Path(folder), sync=Sync.INTERVAL, max_size=16 * 2**20, window=200_000)
    number = first
    while True:
        count = chance.choice([1, 10, 300])
        for topic in TOPICS:
            for n in range(number, number + count):
                world.spool.add(message(topic, n, chance.choice([10, 1000])))
        world.spool.write()
        number += count
        assert not world.ledger.lost, world.ledger.lost
        say(f"written {number - 1}")
        if chance.random() < 0.7:
            acknowledge(world, chance.randrange(1000))
        while world.spool.state().bytes > MOST:
            acknowledge(world, 1000)
        if chance.random() < 0.2:
            world.spool.save()


def acknowledge(world: World, count: int) -> None:
    world.run()
    for delivery in world.sender.waiting[:count]:
        say(f"done {delivery.message[0]} {number_of(delivery.message)}")
        world.sender.end(count=1)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
