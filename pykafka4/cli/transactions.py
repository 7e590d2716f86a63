"""Shows transactional ids and producers of partitions, and aborts hanging transactions: `transactions`. Nothing is changed without
`--execute`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from pykafka4.cli.arguments import targets
from pykafka4.cli.invocation import DONE, Invocation, show_errors, show_note
from pykafka4.cli.listing import as_json_option, execute_option
from pykafka4.cli.partitions import find_partitions
from pykafka4.cli.show import at_time, console, counted, error_json, print_json, table
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

if TYPE_CHECKING:
    from pykafka4.admin.transactions import HangingTransaction
    from pykafka4.core.admin.producers import ActiveProducer, TransactionDescription

__all__ = ["transactions"]

MAX_TRANSACTION_S: Final = 900.0  # the brokers' default of `transaction.max.timeout.ms`
age_option = click.option(
    "--older-than",
    type=click.FloatRange(0),
    default=MAX_TRANSACTION_S,
    show_default=True,
    metavar="SECONDS",
    help="Only transactions without a record for this long; below the brokers' transaction.max.timeout.ms, some can still end normally.",
)


@click.group(short_help="Transactions: list, describe, find hanging ones, …")
def transactions() -> None:
    """Transactions: transactional ids, the producers of partitions, hanging transactions.

    Nothing is changed without --execute.
    """


@transactions.command(
    "list",
    short_help="Transactional ids.",
    epilog="""\b
Examples:
  pykafka4 transactions list -b localhost:9092 --state Ongoing
  pykafka4 transactions list --longer-than 60 --json | jq -r .transactional_id
""",
)
@click.option("--state", "states", multiple=True, help="Only ids in this state: Ongoing, Empty, CompleteCommit, … Can be repeated.")
@click.option(
    "--producer-id", "producer_ids", multiple=True, type=click.IntRange(0), help="Only ids with this producer id. Can be repeated."
)
@click.option(
    "--longer-than", type=click.FloatRange(0), metavar="SECONDS", help="Only transactions that have been open for longer (Kafka 3.8)."
)
@click.option("--pattern", help="Only ids that match this regular expression as a whole (Kafka 4.1).")
@as_json_option
@click.pass_obj
def list_(
    invocation: Invocation,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: float | None,
    pattern: str | None,
    json_: bool,
) -> int:
    """List transactional ids with producer, state and coordinator."""
    with invocation.admin() as admin:
        found = admin.list_transactions(
            states=states, producer_ids=producer_ids, running_longer_than=longer_than, pattern=pattern, timeout=invocation.timeout
        )
    if json_:
        for one in found:
            print_json(attrs.asdict(one))
    else:
        rows = [(one.transactional_id, one.producer_id, one.state, one.coordinator) for one in found]
        console().print(table(("transactional id", "producer", "state", "coordinator"), rows))
    return show_errors(found.errors)


@transactions.command(
    short_help="State, timeout and partitions of ids.",
    epilog="""\b
Example:
  pykafka4 transactions describe billing-1 billing-2 -b localhost:9092
""",
)
@click.argument("transactional_ids", nargs=-1, required=True, metavar="TRANSACTIONAL_ID…")
@as_json_option
@click.pass_obj
def describe(invocation: Invocation, transactional_ids: tuple[str, ...], json_: bool) -> int:
    """Show transactional ids: state, producer, timeout, start, coordinator and partitions."""
    with invocation.admin() as admin:
        found = admin.describe_transactions(transactional_ids, invocation.timeout)
    if json_:
        for name, one in found.items():
            print_json({"transactional_id": name, **(error_json(one) if isinstance(one, KafkaError) else _description(one))})
    else:
        rows = [
            (one.transactional_id, one.state, one.producer_id, one.producer_epoch, one.timeout_ms / 1000, at_time(one.started_ms),
             one.coordinator, " ".join(map(str, one.partitions)))
            for one in found.values() if not isinstance(one, KafkaError)
        ]  # fmt: skip
        columns = ("transactional id", "state", "producer", "epoch", "timeout (s)", "open since", "coordinator", "written to")
        console().print(table(columns, rows))
    return show_errors({name: one for name, one in found.items() if isinstance(one, KafkaError)})


def _description(one: TransactionDescription) -> dict[str, Any]:
    return {**attrs.asdict(one, recurse=False), "partitions": [tp._asdict() for tp in one.partitions]}


# ---- producers of partitions


@transactions.command(
    short_help="The producers that partitions know.",
    epilog="""\b
Example:
  pykafka4 transactions producers orders:0,1 -b localhost:9092
""",
)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:0,1,…]…")
@as_json_option
@click.pass_obj
def producers(invocation: Invocation, topics: tuple[str, ...], json_: bool) -> int:
    """Show the producers that the leaders of partitions know: epoch, last sequence and record, the start of an open transaction."""
    with invocation.admin() as admin:
        parts, errors = find_partitions(admin, targets(topics), invocation.timeout)
        found = admin.describe_producers(parts, invocation.timeout)
    known = [(tp, one) for tp, some in found.items() if not isinstance(some, KafkaError) for one in some]
    _show_producers(((*tp, one) for tp, one in known), json_)
    return show_errors({**errors, **{tp: one for tp, one in found.items() if isinstance(one, KafkaError)}})


def _show_producers(rows: Iterable[tuple[str, int, ActiveProducer]], json_: bool) -> None:
    if json_:
        for topic, partition, one in rows:
            print_json({"topic": topic, "partition": partition, **attrs.asdict(one)})
        return
    cells = [
        (topic, partition, one.producer_id, one.epoch, one.last_sequence, at_time(one.last_timestamp_ms), one.transaction_start)
        for topic, partition, one in rows
    ]
    console().print(table(("topic", "partition", "producer", "epoch", "sequence", "last record", "open since offset"), cells))


# ---- hanging transactions


@transactions.command(
    short_help="Transactions that no coordinator will end.",
    epilog="""\b
Examples:
  pykafka4 transactions hanging orders payments -b localhost:9092
  pykafka4 transactions hanging --all -b localhost:9092 --json
""",
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@click.option("--all", "all_", is_flag=True, help="All topics, internal ones too.")
@age_option
@as_json_option
@click.pass_obj
def hanging(invocation: Invocation, topics: tuple[str, ...], all_: bool, older_than: float, json_: bool) -> int:
    """Find transactions that no coordinator will end, and for whose end read_committed consumers wait."""
    if bool(topics) == all_:
        raise click.UsageError("give topics, or --all")
    with invocation.admin() as admin:
        names = list(admin.list_topics(internal=True, timeout=invocation.timeout)) if all_ else topics
        found = admin.find_hanging_transactions(names, older_than=older_than, timeout=invocation.timeout)
    _show_hanging(found, json_)
    show_note(f"{counted(len(found), 'hanging transaction')}; `transactions abort` ends one" if found else "no transaction hangs")
    return DONE


def _show_hanging(found: Iterable[HangingTransaction], json_: bool, executed: Container[HangingTransaction] | None = None) -> None:
    """Print hanging transactions; their JSON objects have a field `executed` unless the argument is None."""
    if json_:
        for one in found:
            place = {**one.partition._asdict(), "transactional_id": one.transactional_id}
            print_json({**place, **attrs.asdict(one.producer), **({} if executed is None else {"executed": one in executed})})
        return
    rows = [
        (*one.partition, one.producer.producer_id, one.producer.epoch, one.transactional_id, at_time(one.producer.last_timestamp_ms),
         one.producer.transaction_start)
        for one in found
    ]  # fmt: skip
    if rows:
        columns = ("topic", "partition", "producer", "epoch", "transactional id", "last record", "open since offset")
        console().print(table(columns, rows))


@transactions.command(
    short_help="Abort hanging transactions.",
    epilog="""\b
Examples:
  pykafka4 transactions abort orders:3   shows what would be aborted
  pykafka4 transactions abort orders:3 --producer-id 4711 --execute
""",
)
@click.argument("partition", metavar="TOPIC:PARTITION")
@click.option("--producer-id", type=click.IntRange(0), help="Only the transaction of this producer.")
@age_option
@execute_option
@as_json_option
@click.pass_obj
def abort(invocation: Invocation, partition: str, producer_id: int | None, older_than: float, execute: bool, json_: bool) -> int:
    """Abort the hanging transactions in a partition. Transactions that their coordinators know are left out."""
    tp = _partition(partition)
    with invocation.admin() as admin:
        # Not `describe_producers`, which also lists open transactions that their coordinators will end.
        some = admin.find_hanging_transactions([tp.topic], older_than=older_than, timeout=invocation.timeout)
        found = [one for one in some if one.partition == tp and producer_id in (None, one.producer.producer_id)]
        if not found:
            whose = "" if producer_id is None else f" of producer {producer_id}"
            raise KafkaError(
                f"no transaction{whose} in {tp} hangs after {older_than:g} s without a record; `transactions producers {partition}` shows "
                "the open ones"
            )
        errors: Mapping[Any, KafkaError] = {}
        if execute:
            errors = {one: error for one in found if (error := _aborted(admin, one, invocation.timeout)) is not None}
    _show_hanging(found, json_, executed=[one for one in found if execute and one not in errors])
    done = len(found) - len(errors)
    show_note(f"{counted(done, 'transaction')} aborted" if execute else "nothing has been changed; --execute aborts these transactions")
    return show_errors(errors)


def _aborted(admin: Any, one: HangingTransaction, timeout: float | None) -> KafkaError | None:
    try:
        admin.abort_transaction(one.partition, one.producer, timeout)
    except KafkaError as error:
        return error
    return None


def _partition(text: str) -> TopicPartition:
    found = targets([text])
    if len(found) != 1 or not isinstance(found[0], TopicPartition):
        raise click.BadParameter(f"{text!r}: must be TOPIC:PARTITION, such as orders:3")
    return found[0]
