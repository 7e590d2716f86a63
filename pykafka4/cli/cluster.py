"""Shows brokers, the quorum, features and log directories, sets features and unregisters brokers: `cluster`. Features and
registrations are changed only with `--execute`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import click
from rich.filesize import decimal

from pykafka4.cli.arguments import targets
from pykafka4.cli.invocation import DONE, Invocation, show_errors, show_note
from pykafka4.cli.listing import as_json_option, execute_option
from pykafka4.cli.local import down, status, up
from pykafka4.cli.replicas import elect_leaders, reassign
from pykafka4.cli.show import at_time, console, error_json, print_json, table
from pykafka4.errors import KafkaError

if TYPE_CHECKING:
    from pykafka4.core.admin.cluster import Features, QuorumDescription
    from pykafka4.core.admin.replicas import LogDir
    from pykafka4.records import TopicPartition

__all__ = ["cluster"]


@click.group(short_help="The cluster: brokers, quorum, log directories, …")
def cluster() -> None:
    """The cluster: brokers, quorum, features, log directories, replicas, leaders.

    Features, replicas, leaders and registrations are changed only with --execute.
    """


for command in (up, down, status, reassign, elect_leaders):
    cluster.add_command(command)


@cluster.command(
    short_help="The brokers.",
    epilog="""\b
Example:
  pykafka4 cluster describe --json | jq '.brokers[] | select(.is_fenced)'
""",
)
@as_json_option
@click.pass_obj
def describe(invocation: Invocation, json_: bool) -> int:
    """Show the cluster's id and brokers, and the broker that takes requests for the controller."""
    with invocation.admin() as admin:
        found = admin.describe_cluster(invocation.timeout)
    if json_:
        print_json(attrs.asdict(found))
        return DONE
    states = {True: "fenced", False: "up", None: "up"}  # None: brokers before 4.0 list only brokers that are up
    rows = [(one.id, one.host, one.port, one.rack, states[one.is_fenced]) for one in found.brokers]
    title = f"cluster {found.cluster_id}, requests for the controller go to broker {found.controller}"
    console().print(table(("broker", "host", "port", "rack", "state"), rows, title))
    return DONE


@cluster.command(
    short_help="The controllers and observers, with their lag.",
    epilog="""\b
Example:
  pykafka4 cluster quorum -b localhost:9092
""",
)
@as_json_option
@click.pass_obj
def quorum(invocation: Invocation, json_: bool) -> int:
    """Show the voters and observers of the quorum: the leader, and how far each node is behind."""
    with invocation.admin() as admin:
        found = admin.describe_quorum(invocation.timeout)
    if json_:
        print_json(attrs.asdict(found, value_serializer=_texts) | {"max_lag": found.max_lag})
        return DONE
    title = f"leader {found.leader}, epoch {found.leader_epoch}, high watermark {found.high_watermark}, highest lag {found.max_lag}"
    console().print(table(("node", "role", "end", "lag", "last fetch", "caught up", "directory"), _replica_rows(found), title))
    return DONE


def _texts(_: Any, __: Any, value: Any) -> Any:
    return value if isinstance(value, (int, str, tuple, type(None))) or attrs.has(type(value)) else str(value)


def _replica_rows(found: QuorumDescription) -> Iterable[tuple[object, ...]]:
    for role, replicas in (("voter", found.voters), ("observer", found.observers)):
        for one in replicas:
            shown = "leader" if one.id == found.leader else role
            yield one.id, shown, one.log_end_offset, one.lag, at_time(one.last_fetch_ms), at_time(one.last_caught_up_ms), one.directory_id


@cluster.command(
    short_help="Levels of features.",
    epilog="""\b
Examples:
  pykafka4 cluster features -b localhost:9092
  pykafka4 cluster features --set streams.version=1 --execute
""",
)
@click.option("--set", "levels", multiple=True, metavar="NAME=LEVEL", help="Set a level; 0 removes the feature. Can be repeated.")
@click.option(
    "--downgrade",
    type=click.Choice(["no", "safe", "unsafe"]),
    default="no",
    show_default=True,
    help="Allow lower levels; safe is refused if metadata would be lost.",
)
@execute_option
@as_json_option
@click.pass_obj
def features(invocation: Invocation, levels: tuple[str, ...], downgrade: Any, execute: bool, json_: bool) -> int:
    """Show the cluster's features, and the levels that brokers support; or set levels."""
    wanted = dict(map(_level, levels))
    with invocation.admin() as admin:
        before = admin.describe_features(invocation.timeout)
        if wanted:
            admin.update_features(wanted, downgrade=downgrade, validate_only=not execute, timeout=invocation.timeout)
    _show_features(before, wanted, json_)
    if wanted:
        show_note("the levels are set" if execute else "nothing has been changed; the cluster accepts these levels: --execute sets them")
    return DONE


def _level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not name or not equals or not (level.isascii() and level.isdigit()):
        raise click.BadParameter(f"{text!r}: must be NAME=LEVEL, such as metadata.version=25", param_hint="--set")
    return name, int(level)


def _show_features(found: Features, wanted: Mapping[str, int], json_: bool) -> None:
    chosen = [one for one in found.features.values() if not wanted or one.name in wanted]
    if json_:
        for one in chosen:
            print_json({**attrs.asdict(one), **({"new": wanted[one.name]} if wanted else {})})
        return
    columns = ("feature", "level", *(["new"] if wanted else []), "lowest", "highest")
    rows = [(one.name, one.level, *([wanted[one.name]] if wanted else []), one.lowest, one.highest) for one in chosen]
    console().print(table(columns, rows))


# ---- log directories


@cluster.command(
    "log-dirs",
    short_help="Log directories: bytes, free space, errors.",
    epilog="""\b
Examples:
  pykafka4 cluster log-dirs -b localhost:9092
  pykafka4 cluster log-dirs --topic orders --json | jq -s 'map(.size) | add'
""",
)
@click.option("--broker", "brokers", multiple=True, type=click.IntRange(0), help="Only this broker. Can be repeated.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:0,1,…]", help="Only replicas of this topic, or of some partitions. Can be repeated."
)
@as_json_option
@click.pass_obj
def log_dirs(invocation: Invocation, brokers: tuple[int, ...], topics: tuple[str, ...], json_: bool) -> int:
    """Show the log directories of brokers: bytes, free space, errors. With --topic: sizes and lags of its replicas."""
    chosen = set(targets(topics))
    with invocation.admin() as admin:
        found = admin.describe_log_dirs(brokers or None, invocation.timeout)
    directories = [(node, one) for node, some in found.items() if not isinstance(some, KafkaError) for one in some]
    if chosen:
        replicas = [_replica(node, one, tp) for node, one in directories for tp in one.replicas if tp in chosen or tp.topic in chosen]
        _show_replicas(sorted(replicas, key=lambda row: (row["topic"], row["partition"], row["broker"])), json_)
    else:
        _show_directories(directories, json_)
    errors: dict[Any, KafkaError] = {node: one for node, one in found.items() if isinstance(one, KafkaError)}
    seen = {name for _, one in directories for tp in one.replicas for name in (tp, tp.topic)}
    errors |= {
        item: KafkaError(f"{item}: no replica was found; `topics describe` shows the brokers that have one") for item in chosen - seen
    }
    return max(show_errors(errors), show_errors({(node, one.path): one.error for node, one in directories if one.error is not None}))


def _replica(node: int, directory: LogDir, tp: TopicPartition) -> dict[str, Any]:
    size = directory.replicas[tp]
    return {"topic": tp.topic, "partition": tp.partition, "broker": node, "path": directory.path, **attrs.asdict(size)}


def _show_replicas(replicas: list[dict[str, Any]], json_: bool) -> None:
    if json_:
        for row in replicas:
            print_json(row)
        return
    columns = ("topic", "partition", "broker", "size", "lag", "directory")
    places = {True: " (to come)", False: ""}
    rows = [
        (row["topic"], row["partition"], row["broker"], decimal(row["size"]), row["lag"], row["path"] + places[row["is_future"]])
        for row in replicas
    ]
    console().print(table(columns, rows))


def _show_directories(directories: list[tuple[int, LogDir]], json_: bool) -> None:
    if json_:
        for node, one in directories:
            row = {"broker": node, "path": one.path, "replicas": len(one.replicas), "size": one.size}
            error = error_json(one.error) if one.error is not None else {}
            print_json({**row, "usable_bytes": one.usable_bytes, "total_bytes": one.total_bytes, **error})
        return
    rows = [
        (node, one.path, len(one.replicas), decimal(one.size), _bytes(one.usable_bytes), _bytes(one.total_bytes), one.error or "ok")
        for node, one in directories
    ]
    console().print(table(("broker", "directory", "replicas", "size", "free", "volume", "state"), rows))


def _bytes(count: int | None) -> str | None:
    return None if count is None else decimal(count)


# ---- brokers that are gone


@cluster.command(
    short_help="Forget a broker that is gone for good.",
    epilog="""\b
Example:
  pykafka4 cluster unregister 4 -b localhost:9092 --execute
""",
)
@click.argument("broker", type=click.IntRange(0))
@execute_option
@as_json_option
@click.pass_obj
def unregister(invocation: Invocation, broker: int, execute: bool, json_: bool) -> int:
    """Have the controllers forget a broker that was removed for good. A broker that is up is refused: stop it first."""
    with invocation.admin() as admin:
        one = {one.id: one for one in admin.describe_cluster(invocation.timeout).brokers}.get(broker)
        if one is not None and not one.is_fenced:
            raise KafkaError(f"broker {broker} is up: unregistered, it would lose its replicas until it is restarted; stop it first")
        if execute:
            admin.unregister_broker(broker, invocation.timeout)
    state = "not listed" if one is None else "fenced"  # brokers before 4.0 do not list fenced brokers
    if json_:
        print_json({"broker": broker, "state": state, "executed": execute})
    else:
        console().print(table(("broker", "host", "state"), [(broker, None if one is None else one.host, state)]))
    show_note(f"broker {broker} is unregistered" if execute else "nothing has been changed; --execute unregisters it")
    return DONE
