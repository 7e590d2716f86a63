"""Sends lines, files or JSON to a topic: `produce`. Invariant: the exit code is 0 only if every record was acknowledged
(with acks=0: sent)."""

from __future__ import annotations

import contextlib
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

import attrs
import click

from pykafka4.cli.invocation import DONE, FAILED, Invocation, show_note
from pykafka4.cli.records.clients import producer
from pykafka4.cli.records.inputs import STDIN, Block, Split, blocks, by_lengths, by_separator, size_of, whole
from pykafka4.cli.records.outcomes import MOST_FAILURES, Outcomes
from pykafka4.cli.records.progress import Meter
from pykafka4.cli.records.sending import Send, send_plain, send_rows
from pykafka4.cli.records.template import literal, to_bytes
from pykafka4.misuse import check_topic
from pykafka4.producer import Producer

__all__ = ["produce"]

FORMATS: Final[dict[str, Split | None]] = {"lines": None, "json": by_separator(b"\n"), "length": by_lengths, "whole": whole}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
DEFAULTS: Final = {
    "linger_ms": 20,
    "max_block_ms": 180_000,  # longer than the default delivery_timeout_ms, after which records leave a full buffer
    "batch_size": 500_000,  # two fit into a request of the default `max_request_size`
}
TRANSACTION_MS: Final = 900_000  # the longest timeout that brokers allow by default
LOOKUP_S: Final = 60.0
SLICE_S: Final = 0.1  # with --rate, the records of this many seconds are sent together


@click.command(
    short_help="Send lines, files or JSON to a topic.",
    epilog="""\b
Examples:
  pykafka4 produce orders < lines.txt
  pykafka4 produce orders --key-separator : -z zstd monday.txt tuesday.txt
  jq -c '{key: .id, value: .}' rows.json | pykafka4 produce rows --format json
  pykafka4 produce orders --transactional lines.txt      all lines or none
""",
)
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.Path(exists=True, allow_dash=True), metavar="[FILE…]")
@click.option(
    "--format",
    "format_",
    type=click.Choice([*FORMATS]),
    default="lines",
    help="length: the length in four bytes, then the value. whole: each file is a record.",
)
@click.option("-D", "--delimiter", default="\\n", metavar="TEXT", help="Text between records; default: the end of a line.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Text between key and value.")
@click.option("-k", "--key", metavar="KEY", help="The key of records without one of their own.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of each record. Can be repeated.")
@click.option("-Z", "--null", is_flag=True, help="An empty key or value is a null.")
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="All records go to this partition.")
@click.option("-z", "--codec", type=click.Choice(CODECS), help="Compression.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="At most this many records a second.")
@click.option("--transactional", is_flag=True, help="One transaction: readers of committed records see all of the input, or nothing.")
@click.pass_obj
def produce(
    invocation: Invocation, /, topic: str, files: tuple[str, ...], codec: str | None, rate: float | None, transactional: bool, **how: Any
) -> int:
    """Send each line of the files, or of standard input, to a topic.

    The exit code is 0 only if every record is acknowledged. The first failures are reported with line numbers; the other lines are
    sent, until 1,000 lines have failed. With --transactional, a failure aborts the transaction.
    """
    sources, (send, split) = files or (STDIN,), sending(check_topic(topic), **how)
    decided: dict[str, Any] = {} if codec is None else {"compression_type": codec}
    defaults: dict[str, Any] = {**DEFAULTS}
    if transactional:
        defaults |= {"transactional_id": f"pykafka4-produce-{uuid.uuid4()}", "transaction_timeout_ms": TRANSACTION_MS}
    meter = Meter(topic, size_of(sources), shows=True)
    run = Run(send, Outcomes(meter.show_error), meter)
    with contextlib.nullcontext() if transactional else run.reported(), meter, producer(invocation, defaults, **decided) as opened:
        _check_partition(opened.partitions_for(topic, invocation.timeout or LOOKUP_S), topic, how["partition"])
        input_ = paced(blocks(sources, split), rate)
        if transactional:
            run.in_transaction(opened, input_)
        else:
            run.each(opened, input_, MOST_FAILURES)
    return FAILED if run.outcomes.failed else DONE


def _check_partition(partitions: list[int], topic: str, partition: int | None) -> None:
    if partition is not None and partition not in partitions:
        raise click.BadParameter(f"the last partition of {topic} is {len(partitions) - 1}", param_hint="--partition")


def sending(
    topic: str,
    *,
    format_: str,
    delimiter: str,
    key_separator: str | None,
    key: str | None,
    headers: tuple[str, ...],
    null: bool,
    partition: int | None,
) -> tuple[Send, Split]:
    """Return the function that sends items, and the function that splits input. Raises click.UsageError."""
    split = FORMATS[format_] or by_separator(literal(delimiter, "--delimiter"))
    if format_ == "json":
        if key_separator is not None or key is not None or headers or null or partition is not None:
            raise click.UsageError("lines of JSON have keys, headers and partitions of their own: leave out the options for them")
        return send_rows(topic), split
    separator = None if key_separator is None else literal(key_separator, "--key-separator")
    pairs = [_header(*header.partition("=")) for header in headers]
    return send_plain(topic, separator, None if key is None else to_bytes(key), null, headers=pairs or None, partition=partition), split


def _header(name: str, equals: str, value: str) -> tuple[str, bytes | None]:
    return name, to_bytes(value) if equals else None


def paced(blocks: Iterator[Block], rate: float | None) -> Iterator[Block]:
    """Yield the blocks in parts, at most `rate` records a second. A pause in the input is not caught up on."""
    if rate is None:
        yield from blocks
        return
    due = time.monotonic()
    for block in blocks:
        for part in block.parts(max(1, int(rate * SLICE_S))):
            due = max(due, time.monotonic())  # at the earliest now, so a late part causes no burst
            yield part
            due += len(part.items) / rate
            time.sleep(max(0.0, due - time.monotonic()))


@attrs.frozen
class Run:
    send: Send
    outcomes: Outcomes
    meter: Meter

    def each(self, producer: Producer, input_: Iterator[Block], most_failures: int) -> None:
        """Send all input, or stop after `most_failures` failures; return when each sent record has its outcome."""
        try:
            for block in input_:
                self.send(producer, block, self.outcomes)
                self.outcomes.settle()
                self.meter.advance(len(block.items), block.size, block.size)
                if self.outcomes.failed >= most_failures:
                    self.meter.show_error(f"stopped after {block.name_of(len(block.items) - 1)}: the rest of the input was not sent")
                    break
        finally:
            if not isinstance(sys.exception(), KeyboardInterrupt):  # after Ctrl-C only the producer's `close` waits, for a short time
                producer.flush()
            self.outcomes.settle()

    def in_transaction(self, producer: Producer, input_: Iterator[Block]) -> None:
        producer.init_transactions()
        try:
            with producer.transaction():
                self.each(producer, input_, 1)
                if self.outcomes.failed:
                    raise _Undone
        except _Undone:
            self.meter.show_error("the transaction is aborted: readers of committed records see nothing of this input")

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Enclose the life of the producer. After failures, an error or Ctrl-C, report how many records were acknowledged."""
        outcomes = self.outcomes
        try:
            yield
        finally:
            outcomes.settle()
            if outcomes.failed or outcomes.open or (outcomes.sent and sys.exception()):
                acked = outcomes.sent - outcomes.lost - outcomes.open
                show_note(f"acknowledged records: {acked:,}; not acknowledged: {outcomes.failed + outcomes.open:,}")


class _Undone(Exception):
    """Raised to abort the transaction after a failed record."""
