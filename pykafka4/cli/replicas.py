"""Moves replicas and elects leaders: `cluster reassign` and `cluster elect-leaders`. Without `--execute`, a command changes nothing."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from pykafka4.cli.arguments import targets
from pykafka4.cli.invocation import DONE, Invocation, show_errors, show_note
from pykafka4.cli.listing import as_json_option, execute_option
from pykafka4.cli.partitions import find_partitions
from pykafka4.cli.show import console, error_json, print_json, table
from pykafka4.errors import KafkaError, PartialFailure, short_name
from pykafka4.records import TopicPartition

if TYPE_CHECKING:
    from pykafka4.admin import AdminClient
    from pykafka4.admin.replicas import ReassignmentProgress
    from pykafka4.core.admin.topic_queries import PartitionDescription

__all__ = ["elect_leaders", "reassign"]


MOVE: Final = re.compile(r"(.+):(\d{1,9})=(\d{1,9}(?:,\d{1,9})*)")
MOVES_LOOK_S: Final = 0.5
SETTLING: Final = 10  # at most this many reads of the partitions, MOVES_LOOK_S apart, because brokers learn late that a move has ended
Targets = dict[TopicPartition, tuple[int, ...] | None]  # None: cancel


# ---- moves


@click.command(
    short_help="Move partitions to other brokers.",
    epilog="""\b
Examples:
  pykafka4 cluster reassign   the moves under way
  pykafka4 cluster reassign -b localhost:9092 orders:0=1,2,3 orders:1=2,3,1
  pykafka4 cluster reassign --from-file moves.json --execute --wait
  pykafka4 cluster reassign -b localhost:9092 --cancel orders --execute
""",
)
@click.argument("moves", nargs=-1, metavar="[TOPIC:PARTITION=BROKER,…]…")
@click.option("--from-file", metavar="FILE", help="Moves from a JSON file of kafka-reassign-partitions.")
@click.option("--cancel", multiple=True, metavar="TOPIC[:0,1,…]", help="Cancel the moves of a topic, or of some partitions.")
@click.option("--wait", is_flag=True, help="Wait for the end of the moves, with a progress bar on a terminal.")
@execute_option
@as_json_option
@click.pass_obj
def reassign(
    invocation: Invocation, moves: tuple[str, ...], from_file: str | None, cancel: tuple[str, ...], wait: bool, execute: bool, json_: bool
) -> int:
    """Move partitions to other brokers, or cancel such moves; without moves: show the moves under way.

    The first broker of a list is the preferred leader. With neither moves nor --cancel, --wait waits for all moves that are under way.
    """
    wanted: Targets = {**(_of_file(from_file) if from_file else {}), **dict(map(_move, moves))}
    with invocation.admin() as admin:
        if not wanted and not cancel:
            return _under_way(admin, invocation, wait, json_)
        stopped, errors = _to_cancel(admin, targets(cancel), invocation.timeout) if cancel else ({}, {})
        return _carry_out(admin, invocation, {**wanted, **stopped}, errors, ReassignFlags(wait=wait, execute=execute, json=json_))


def _move(text: str) -> tuple[TopicPartition, tuple[int, ...]]:
    found = MOVE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r}: must be TOPIC:PARTITION=BROKER,BROKER,… such as orders:0=1,2,3")
    return TopicPartition(found[1], int(found[2])), tuple(map(int, found[3].split(",")))


def _of_file(name: str) -> Targets:
    try:
        rows = json.loads(Path(name).read_bytes())["partitions"]
        return {TopicPartition(str(row["topic"]), int(row["partition"])): tuple(map(int, row["replicas"])) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        form = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}'
        raise click.BadParameter(f"{name}: cannot be read as {form}: {error!r}", param_hint="--from-file") from None


def _to_cancel(admin: AdminClient, items: Iterable[str | TopicPartition], timeout: float | None) -> tuple[Targets, dict[Any, KafkaError]]:
    """Return the moves to cancel, and an error for each item without a move."""
    under_way = admin.list_reassignments(timeout=timeout)
    found: Targets = {}
    errors: dict[Any, KafkaError] = {}
    for item in items:
        chosen = [tp for tp in under_way if item in (tp, tp.topic)]
        found.update(dict.fromkeys(chosen))
        if not chosen:
            errors[item] = KafkaError(f"{item}: no move is under way")
    return found, errors


@attrs.frozen
class Planned:
    """A move, or its cancellation (`new` is None): replicas before and after, and the bytes to copy, or None."""

    partition: TopicPartition
    current: tuple[int, ...]
    new: tuple[int, ...] | None
    bytes: int | None

    @property
    def adding(self) -> list[int]:
        return [node for node in self.new or () if node not in self.current]

    def cells(self) -> tuple[object, ...]:
        new = None if self.new is None else _nodes(self.new)
        return *self.partition, _nodes(self.current), new, _nodes(self.adding), _size(self.bytes)


@attrs.frozen(kw_only=True)
class ReassignFlags:
    wait: bool
    execute: bool
    json: bool


def _carry_out(admin: AdminClient, invocation: Invocation, wanted: Targets, errors: dict[Any, KafkaError], wanting: ReassignFlags) -> int:
    parts, missing = find_partitions(admin, wanted, invocation.timeout)
    sizes = _sizes(admin, parts, invocation.timeout)
    plan = [_planned(tp, part, wanted[tp], sizes) for tp, part in parts.items()]
    # With --execute the controller itself refuses unknown brokers.
    errors |= missing | ({} if wanting.execute else _unplaced(admin, plan, invocation.timeout))
    if wanting.execute and plan:
        try:
            admin.alter_reassignments({row.partition: row.new for row in plan}, timeout=invocation.timeout)
        except PartialFailure as failure:  # the other moves and cancellations have begun
            errors |= failure.errors
    _show_plan(plan, errors, wanting)
    moved = [row for row in plan if row.partition not in errors and row.new is not None]
    if not wanting.execute and plan:
        show_note("nothing has been changed; --execute carries out this plan")
    elif wanting.wait and moved:
        errors |= _awaited(admin, moved, invocation.timeout)
    return show_errors(errors)


def _unplaced(admin: AdminClient, plan: Sequence[Planned], timeout: float | None) -> dict[Any, KafkaError]:
    """An error for each move to an unknown broker."""
    nodes = sorted(one.id for one in admin.describe_cluster(timeout=timeout).brokers)
    return {
        row.partition: KafkaError(f"{row.partition}: the cluster has no broker {_nodes(strange)}; its brokers are {_nodes(nodes)}")
        for row in plan
        if (strange := [node for node in row.new or () if node not in nodes])
    }


def _planned(tp: TopicPartition, part: PartitionDescription, new: tuple[int, ...] | None, sizes: Mapping[TopicPartition, int]) -> Planned:
    if new is None or tp not in sizes:
        return Planned(tp, part.replicas, new, None)
    return Planned(tp, part.replicas, new, sizes[tp] * len([node for node in new if node not in part.replicas]))


def _sizes(admin: AdminClient, parts: Mapping[TopicPartition, PartitionDescription], timeout: float | None) -> dict[TopicPartition, int]:
    """The size of the largest replica of each partition; a partition that no broker reports has no entry."""
    nodes = sorted({node for part in parts.values() for node in part.replicas})
    found: dict[TopicPartition, int] = {}
    for directories in admin.describe_log_dirs(nodes, timeout).values() if nodes else ():
        for directory in () if isinstance(directories, KafkaError) else directories:
            for tp in parts.keys() & directory.replicas.keys():
                found[tp] = max(found.get(tp, 0), directory.replicas[tp].size)
    return found


def _show_plan(plan: Sequence[Planned], errors: Mapping[Any, KafkaError], wanting: ReassignFlags) -> None:
    if wanting.json:
        for row in plan:
            error = error_json(errors[row.partition]) if row.partition in errors else {}
            shown = {"topic": row.partition.topic, "partition": row.partition.partition, "replicas": row.current, "new": row.new}
            print_json({**shown, "bytes": row.bytes, "executed": wanting.execute and not error, **error})
    elif plan:
        outcomes = {False: ("would begin", "would be cancelled"), True: ("begun", "cancelled")}[wanting.execute]
        done = {row.partition: outcomes[row.new is None] for row in plan} | {tp: short_name(error) for tp, error in errors.items()}
        cells = [(*row.cells(), done[row.partition]) for row in plan]
        console().print(table(("topic", "partition", "from", "to", "copied to", "size", "outcome"), cells))


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


def _size(count: int | None) -> str | None:
    return None if count is None else decimal(count)


# ---- moves under way


def _under_way(admin: AdminClient, invocation: Invocation, wait: bool, json_: bool) -> int:
    found = admin.reassignment_progress(timeout=invocation.timeout)
    if json_:
        for tp, one in found.items():
            shown = {"topic": tp.topic, "partition": tp.partition, **attrs.asdict(one.reassignment)}
            print_json({**shown, "copied_bytes": one.copied_bytes, "total_bytes": one.total_bytes})
    elif found:
        rows = [(*tp, *_move_cells(one)) for tp, one in found.items()]
        console().print(table(("topic", "partition", "brokers", "adding", "removing", "copied", "size"), rows))
    else:
        show_note("no move is under way")
    if not wait or not found:
        return DONE
    plan = [Planned(tp, one.reassignment.replicas, one.reassignment.target, one.total_bytes) for tp, one in found.items()]
    return show_errors(_awaited(admin, plan, invocation.timeout))


def _move_cells(one: ReassignmentProgress) -> tuple[object, ...]:
    move = one.reassignment
    return _nodes(move.replicas), _nodes(move.adding), _nodes(move.removing), _size(one.copied_bytes), _size(one.total_bytes)


def _awaited(admin: AdminClient, plan: Sequence[Planned], timeout: float | None) -> dict[Any, KafkaError]:
    """Wait for the end of the moves. Return an error for each partition that is then not on its new brokers."""
    totals = {row.partition: row.bytes or 0 for row in plan}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress:
            task = progress.add_task("copying")
            while found := admin.reassignment_progress(list(totals), timeout):
                totals |= {tp: one.total_bytes for tp, one in found.items() if one.total_bytes is not None}
                # A move that has ended counts as copied.
                done = sum(found[tp].copied_bytes or 0 if tp in found else total for tp, total in totals.items())
                progress.update(task, description=f"moves left: {len(found)} of {len(plan)}", completed=done, total=sum(totals.values()))
                time.sleep(MOVES_LOOK_S)
    except KeyboardInterrupt:
        show_note("the moves continue; `cluster reassign --wait` waits for them, --cancel cancels them")
        raise
    errors = _elsewhere(admin, plan, timeout)
    show_note(f"moves done: {len(plan) - len(errors)} of {len(plan)}")
    return errors


def _elsewhere(admin: AdminClient, plan: Sequence[Planned], timeout: float | None) -> dict[Any, KafkaError]:
    """Return an error for each partition that is not on its new brokers. Retry for a while, because brokers learn of a move's end late."""
    errors: dict[Any, KafkaError] = {}
    for _ in range(SETTLING):
        parts, missing = find_partitions(admin, [row.partition for row in plan], timeout)
        errors = dict(missing)
        for row in plan:
            if row.partition in parts and set(parts[row.partition].replicas) != set(row.new or ()):
                has = _nodes(parts[row.partition].replicas)
                errors[row.partition] = KafkaError(
                    f"{row.partition}: another move or a cancellation replaced this move; replicas now: {has}"
                )
        if not errors:
            break
        time.sleep(MOVES_LOOK_S)
    return errors


# ---- leaders


@click.command(
    "elect-leaders",
    short_help="Have the preferred replicas lead.",
    epilog="""\b
Examples:
  pykafka4 cluster elect-leaders -b localhost:9092 --all
  pykafka4 cluster elect-leaders orders payments:0,1 --execute
""",
)
@click.argument("topics", nargs=-1, metavar="[TOPIC[:0,1,…]]…")
@click.option("--all", "all_", is_flag=True, help="All topics, internal ones too.")
@click.option("--unclean", is_flag=True, help="Elect any replica that is up, only for partitions without a leader. Records may be lost.")
@execute_option
@as_json_option
@click.pass_obj
def elect_leaders(invocation: Invocation, topics: tuple[str, ...], all_: bool, unclean: bool, execute: bool, json_: bool) -> int:
    """Elect the preferred replica of each partition, the first in its replica list, as leader. Partitions with this leader are left out."""
    if bool(topics) == all_:
        raise click.UsageError("give topics, or --all")
    with invocation.admin() as admin:
        items = list(admin.list_topics(internal=True, timeout=invocation.timeout)) if all_ else targets(topics)
        parts, errors = find_partitions(admin, items, invocation.timeout)
        # An unclean election is for leaderless partitions only.
        needed = {tp: part for tp, part in parts.items() if part.leader is None or not (unclean or part.leader == part.replicas[0])}
        if execute and needed:
            try:
                admin.elect_leaders(needed, unclean=unclean, timeout=invocation.timeout)
            except PartialFailure as failure:  # the other leaders are elected
                errors |= failure.errors
    _show_elections(needed, errors, execute, json_)
    if not execute and needed:
        show_note("nothing has been changed; --execute elects these leaders")
    if not needed and not errors:
        show_note("no election is needed")
    return show_errors({str(error): error for error in errors.values()})


def _show_elections(
    needed: Mapping[TopicPartition, PartitionDescription], errors: Mapping[Any, KafkaError], execute: bool, json_: bool
) -> None:
    if json_:
        for tp, part in needed.items():
            error = error_json(errors[tp]) if tp in errors else {}
            shown = {"topic": tp.topic, "partition": tp.partition, "leader": part.leader, "preferred": part.replicas[0], "isr": part.isr}
            print_json({**shown, "executed": execute and not error, **error})
        return
    done = "elected" if execute else "would be elected"
    rows = [
        (*tp, part.leader, part.replicas[0], _nodes(part.isr), short_name(errors[tp]) if tp in errors else done)
        for tp, part in needed.items()
    ]
    if rows:
        console().print(table(("topic", "partition", "leader", "preferred", "in sync", "outcome"), rows))
