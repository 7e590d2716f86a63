"""Copies topics batch by batch, usually without decompression: `copy`. Invariant: a group commits only after the deliveries of all sent
batches have succeeded."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import click

from pykafka4.cli.invocation import DONE, FAILED, Invocation, show_error
from pykafka4.cli.records.clients import producer
from pykafka4.cli.records.destination import Destination, destination_options
from pykafka4.cli.records.extents import ExtentOptions, extent_options
from pykafka4.cli.records.progress import Meter
from pykafka4.cli.records.reading import Reading, opened
from pykafka4.consumer.session import ConsumerSession
from pykafka4.errors import KafkaError
from pykafka4.producer import Producer
from pykafka4.producer.raw import RawDelivery

__all__ = ["copy"]

BATCHES: Final = 500  # batches in a list, at most
ANSWER_S: Final = 60.0


@click.command(
    short_help="Copy topics to another cluster or topic.",
    epilog="""\b
Examples:
  pykafka4 copy orders --to-bootstrap other:9092
  pykafka4 copy orders --to-topic orders-copy --from -1d    the same cluster
  pykafka4 copy orders --to-config other.properties --group mirror --follow
  pykafka4 copy orders --to-topic orders-copy --to-X max.request.size=10485760
""",
)
@destination_options
@extent_options(done="copied", group="This group's offsets say how far the copy has come: the next run continues there.")
@click.pass_obj
def copy(
    invocation: Invocation,
    /,
    extent: ExtentOptions,
    destination: Destination,
) -> int:
    """Copy the records of topics, each to the partition with the same number. Keys, values, headers, times and compression are kept.

    The topic to write to needs at least as many partitions as the topic to read. With --group, a run skips the records that an earlier run
    has copied, except the last records of a run that failed or was interrupted.
    """
    target = destination.cluster(invocation, extent.topics)
    with (
        opened(invocation, extent, enable_auto_commit=False) as (session, reading),
        producer(target, {}) as writer,
        Meter(" ".join(extent.topics), reading.total, shows=True) as meter,
    ):
        copying = Copying(session, writer, destination.topic, extent.group is not None)
        copying.check(extent.topics, invocation.timeout or ANSWER_S)
        copying.run(reading, meter)
    for loss in reading.losses:
        show_error(str(loss))
    return FAILED if reading.losses else DONE


@attrs.frozen
class Copying:
    session: ConsumerSession
    destination: Producer
    topic: str | None
    commits: bool

    def check(self, topics: tuple[str, ...], timeout: float) -> None:
        """Raise KafkaError if a topic to write to has fewer partitions than the topic to read."""
        for topic in topics:
            target = self.topic or topic
            count, room = len(self.session.runtime.partitions_of(topic, timeout)), len(self.destination.partitions_for(target, timeout))
            if count > room:
                raise KafkaError(
                    f"{topic} has {count} partitions, {target} only {room}: add {count - room} to it, or copy with consume and produce"
                )

    def run(self, reading: Reading, meter: Meter) -> None:
        """Copy all batches. Wait for all deliveries before each commit, and before returning."""
        waiting: deque[RawDelivery] = deque()
        for batches in reading.lists(self.session.raw_form(None), BATCHES):
            for batch in batches:
                waiting.append(self.destination.send_raw(self.topic or batch.topic, batch))
            while waiting and (self.commits or waiting[0].done()):  # without a group, batches of several lists can be in flight
                waiting.popleft().result()
            if batches and self.commits:  # `waiting` is empty: all deliveries have succeeded
                self.session.commits.commit(None, ANSWER_S)
            records = sum(batch.count for batch in batches)
            meter.advance(
                records, sum(batch.size for batch in batches), sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
            )
        for delivery in waiting:
            delivery.result()
