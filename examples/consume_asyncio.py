"""Read a topic in a group with asyncio, hand each record to a coroutine, and write the results to another topic.

    python examples/consume_asyncio.py --bootstrap-servers localhost:9092 --topic greetings --to loud-greetings --group loud

Start the program several times: the members of a group share the topic's partitions. Ctrl-C ends the program; its next start continues
where it stopped. The results are delivered before the offsets of their records are committed, so a crash repeats some results and loses
none.
"""

from __future__ import annotations

import argparse
import asyncio

from pykafka4 import Record, TopicPartition, aio


class Listener:
    """A rebalance listener. Its methods may be coroutines or plain functions."""

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        print("reads", *sorted(f"{tp.topic}-{tp.partition}" for tp in partitions), flush=True)


async def handle(record: Record) -> bytes:
    """Make the result of a record, as a call of a service or database would."""
    await asyncio.sleep(0)
    return (record.value or b"").upper()


async def main(options: argparse.Namespace) -> None:
    own = {"group_id": options.group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with (
        aio.Producer.from_properties(options.config, bootstrap_servers=options.bootstrap_servers) as producer,
        aio.Consumer.from_properties(options.config, bootstrap_servers=options.bootstrap_servers, **own) as consumer,
    ):
        consumer.subscribe([options.topic], Listener())
        done = 0
        async for records in consumer.batches(timeout=1.0, max_records=100):
            results = await asyncio.gather(*map(handle, records))
            for delivery in await producer.send_many(options.to, results):
                await delivery
            if records:
                await consumer.commit()
                print(f"{records[-1].topic}-{records[-1].partition}: up to {records[-1].offset}", flush=True)
            done += len(records)
            if options.count is not None and done >= options.count:
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Copy a topic in capitals.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--to", default="loud-greetings")
    parser.add_argument("--group", default="loud")
    parser.add_argument("--count", type=int, help="stop after this many records")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    try:
        asyncio.run(main(parser.parse_args()))
    except KeyboardInterrupt:
        pass  # asyncio cancels `main`, and leaving the blocks closes both clients
