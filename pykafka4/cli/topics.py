"""Lists, describes, creates, extends and deletes topics: `topics`. Without `--execute`, `delete` only shows its plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import attrs
import click

from pykafka4.admin import AdminClient
from pykafka4.cli.arguments import settings_of
from pykafka4.cli.invocation import DONE, Invocation, outcomes, show_errors, show_note
from pykafka4.cli.listing import as_json_option, execute_option
from pykafka4.cli.show import console, error_json, print_json, table
from pykafka4.core.admin.topic_queries import PartitionDescription, TopicDescription, TopicListing
from pykafka4.core.admin.topics import CreatedTopic, NewPartitions, NewTopic
from pykafka4.core.admin.values import EARLIEST, LATEST
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["topics"]

Descriptions = Mapping["str | UUID", "TopicDescription | KafkaError"]
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@click.group(short_help="Topics: list, describe, create, add partitions, delete.")
def topics() -> None:
    """Topics: list, describe, create, add partitions, delete.

    `settings get topic:NAME` shows settings of a topic, `consume` its records.
    """


dry_run_option = click.option("--dry-run", is_flag=True, help="Have the brokers check the change; nothing is changed.")
replicas_option = click.option(
    "--replicas",
    "placed",
    multiple=True,
    metavar="1,2,…",
    help="The brokers of one new partition, the leader first. Repeat it for each new partition.",
)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also Kafka's own topics.")
@as_json_option
@click.pass_obj
def list_(invocation: Invocation, internal: bool, json_: bool) -> int:
    """List the topics that you may describe; with --json also their ids.

    Example: pykafka4 topics list --bootstrap localhost:9092
    """
    with invocation.admin() as admin:
        found = admin.list_topics(internal=internal, timeout=invocation.timeout)
    if json_:
        for topic in found.values():
            print_json(_listing(topic))
    else:
        rows = [(one.name, one.partitions, one.replication_factor) for one in found.values()]
        console().print(table(("topic", "partitions", "replication"), rows))
    return DONE


def _listing(topic: TopicListing) -> dict[str, Any]:
    return {**attrs.asdict(topic), "topic_id": _text(topic.topic_id)}


def _text(topic_id: UUID | None) -> str | None:
    return None if topic_id is None else str(topic_id)


@topics.command()
@click.argument("topic", nargs=-1)
@click.option("--under-replicated", is_flag=True, help="Only partitions without a leader, or with replicas that are not in sync.")
@as_json_option
@click.pass_obj
def describe(invocation: Invocation, topic: tuple[str, ...], under_replicated: bool, json_: bool) -> int:
    """Show the leader and the replicas of each partition.

    TOPIC is a name or an id; without topics, all are shown.

    Example: pykafka4 topics describe --under-replicated
    """
    with invocation.admin() as admin:
        wanted = topic or tuple(admin.list_topics(internal=True, timeout=invocation.timeout))
        found = admin.describe_topics(list(map(_named, wanted)), timeout=invocation.timeout)
    if under_replicated:
        found = {key: _under_replicated(one) if isinstance(one, TopicDescription) else one for key, one in found.items()}
    if json_:
        for key, one in found.items():
            if isinstance(one, KafkaError) or one.partitions or not under_replicated:
                print_json({"name": str(key), **error_json(one)} if isinstance(one, KafkaError) else _description(one))
    else:
        columns = ("topic", "partition", "leader", "epoch", "replicas", "in sync", "offline")
        console().print(table(columns, [row for one in found.values() if isinstance(one, TopicDescription) for row in _rows(one)]))
    return show_errors({key: one for key, one in found.items() if isinstance(one, KafkaError)})


def _named(text: str) -> str | UUID:
    """Read a text as an id if it has the form of an id, which no usual name has; otherwise as a name."""
    return UUID(text) if ID.fullmatch(text) else text


def _under_replicated(topic: TopicDescription) -> TopicDescription:
    return attrs.evolve(topic, partitions=tuple(p for p in topic.partitions if p.leader is None or set(p.isr) != set(p.replicas)))


def _description(topic: TopicDescription) -> dict[str, Any]:
    rights = topic.authorized_operations
    return {
        **{name: getattr(topic, name) for name in ("name", "is_internal", "replication_factor")},
        "topic_id": _text(topic.topic_id),
        "partitions": [attrs.asdict(one) for one in topic.partitions],
        "authorized_operations": None if rights is None else sorted(rights),
    }


def _rows(topic: TopicDescription) -> Iterable[Sequence[object]]:
    for one in topic.partitions:
        leader = "none" if one.leader is None else one.leader
        yield topic.name, one.partition, leader, one.leader_epoch, _brokers(one.replicas), _in_sync(one), _brokers(one.offline_replicas)


def _brokers(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _in_sync(one: PartitionDescription) -> str:
    missing = [node for node in one.replicas if node not in one.isr]
    return f"{_brokers(one.isr)}, not {_brokers(missing)}" if missing else _brokers(one.isr)


@topics.command()
@click.argument("topic", nargs=-1, required=True)
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="Default: the brokers' num.partitions.")
@click.option("--replication-factor", type=click.IntRange(1), metavar="N", help="Default: the brokers' default.replication.factor.")
@replicas_option
@click.option("--setting", "settings", multiple=True, metavar="NAME=VALUE", help="A setting. Can be repeated.")
@dry_run_option
@as_json_option
@click.pass_obj
def create(
    invocation: Invocation,
    topic: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    placed: tuple[str, ...],
    settings: tuple[str, ...],
    dry_run: bool,
    json_: bool,
) -> int:
    """Create topics.

    The command returns when every broker that is up knows the topics.

    Example: pykafka4 topics create orders --partitions 6 --replication-factor 3 --setting retention.ms=3600000
    """
    if placed and (partitions or replication_factor):
        raise click.UsageError("--replicas already gives partitions and replicas; leave out --partitions and --replication-factor")
    new = NewTopic(partitions or -1, replication_factor or -1, dict(enumerate(_placed(placed))) or None, settings_of(settings, "--setting"))
    with invocation.admin() as admin:
        found = outcomes(
            lambda: admin.create_topics(dict.fromkeys(topic, new), validate_only=dry_run, wait=True, timeout=invocation.timeout), topic
        )
    rows = {name: one for name, one in found.items() if isinstance(one, CreatedTopic)}
    if json_:
        for name, one in found.items():
            made = {} if isinstance(one, KafkaError) else {**attrs.asdict(rows[name]), "topic_id": _text(rows[name].topic_id)}
            print_json({"name": name, **made, "created": bool(made) and not dry_run, **_error(one)})
    else:
        columns = ("topic", "partitions", "replication", "id")
        console().print(table(columns, [(one.name, one.partitions, one.replication_factor, one.topic_id) for one in rows.values()]))
    if dry_run:
        show_note("nothing has been created")
    return show_errors({name: one for name, one in found.items() if isinstance(one, KafkaError)})


def _placed(texts: Iterable[str]) -> list[list[int]]:
    if wrong := [text for text in texts if not re.fullmatch(r"\d{1,9}(,\d{1,9})*", text)]:
        raise click.BadParameter(f"{wrong[0]!r}: must be the numbers of brokers, such as 1,2,3", param_hint="--replicas")
    return [list(map(int, text.split(","))) for text in texts]


def _error(found: object) -> dict[str, Any]:
    return error_json(found) if isinstance(found, KafkaError) else {}


@topics.command()
@click.argument("topic", nargs=-1, required=True)
@click.option("--partitions", type=click.IntRange(1), required=True, metavar="N", help="The number of partitions afterwards.")
@replicas_option
@dry_run_option
@as_json_option
@click.pass_obj
def alter(invocation: Invocation, topic: tuple[str, ...], partitions: int, placed: tuple[str, ...], dry_run: bool, json_: bool) -> int:
    """Give topics more partitions.

    The command returns when every broker that is up knows the partitions. Records with a key can go to other partitions than before.
    `settings set topic:NAME` changes settings.

    Example: pykafka4 topics alter orders --partitions 12
    """
    wanted = dict.fromkeys(topic, NewPartitions(partitions, _placed(placed) or None))
    with invocation.admin() as admin:
        found = outcomes(lambda: admin.create_partitions(wanted, validate_only=dry_run, wait=True, timeout=invocation.timeout), topic)
    done = "would be changed" if dry_run else "changed"
    if json_:
        for name, one in found.items():
            print_json({"name": name, "partitions": partitions, "changed": not _error(one) and not dry_run, **_error(one)})
    else:
        rows = [(name, partitions, done) for name, one in found.items() if not isinstance(one, KafkaError)]
        console().print(table(("topic", "partitions", "outcome"), rows))
    return show_errors({name: one for name, one in found.items() if isinstance(one, KafkaError)})


@topics.command()
@click.argument("topic", nargs=-1, required=True)
@execute_option
@as_json_option
@click.pass_obj
def delete(invocation: Invocation, topic: tuple[str, ...], execute: bool, json_: bool) -> int:
    """Delete topics with all their records.

    TOPIC is a name or an id. The command returns when no broker that is up knows the topics any more.

    Example: pykafka4 topics delete orders --execute
    """
    with invocation.admin() as admin:
        found = admin.describe_topics(list(map(_named, topic)), timeout=invocation.timeout)
        records = _records(admin, found, invocation.timeout)
        outcome: dict[Any, Any] = dict(found)
        if execute:
            known = [key for key, one in found.items() if isinstance(one, TopicDescription)]
            outcome |= outcomes(lambda: admin.delete_topics(known, wait=True, timeout=invocation.timeout), known)
    if json_:
        for key, one in found.items():
            shown = {**_description(one), "records": records[key]} if isinstance(one, TopicDescription) else {"name": str(key)}
            shown.pop("partitions", None)
            print_json({**shown, "deleted": execute and not _error(outcome[key]), **_error(outcome[key])})
    else:
        done = "deleted" if execute else "would be deleted"
        rows = [
            (one.name, len(one.partitions), records[key], one.topic_id, done)
            for key, one in found.items()
            if isinstance(one, TopicDescription) and not isinstance(outcome[key], KafkaError)
        ]
        console().print(table(("topic", "partitions", "records", "id", "outcome"), rows))
    if not execute and records:
        show_note("nothing has been changed; --execute deletes these topics, and their records cannot be brought back")
    return show_errors({key: one for key, one in outcome.items() if isinstance(one, KafkaError)})


def _records(admin: AdminClient, found: Descriptions, timeout: float | None) -> dict[str | UUID, int | None]:
    """The number of offsets in each topic; None if the start or end of a partition's log is unknown."""
    known = {key: one for key, one in found.items() if isinstance(one, TopicDescription)}
    tps = [TopicPartition(one.name, part.partition) for one in known.values() for part in one.partitions]
    ends = admin.list_offsets(dict.fromkeys(tps, LATEST), timeout=timeout) if tps else {}
    starts = admin.list_offsets(dict.fromkeys(tps, EARLIEST), timeout=timeout) if tps else {}
    total: dict[str | UUID, int | None] = {}
    for key, one in known.items():
        spans = [(starts[tp].offset, ends[tp].offset) for tp in tps if tp.topic == one.name]
        total[key] = sum(end - start for start, end in spans if start is not None and end is not None)
        if any(None in span for span in spans):
            total[key] = None
    return total
