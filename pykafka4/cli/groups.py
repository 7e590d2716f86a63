"""Shows groups and exports offsets: `groups list`, `describe`, `lag`, `export`. The error of one group hides no other group, and makes the
exit code 1, except in `lag --watch`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from pykafka4.admin import AdminClient
from pykafka4.admin.files import to_csv, to_json
from pykafka4.admin.values import GroupLag
from pykafka4.cli.frame import Seconds
from pykafka4.cli.invocation import DONE, FAILED, Invocation, show_error, show_errors, show_note
from pykafka4.cli.listing import as_json_option
from pykafka4.cli.offsets import create, delete, delete_offsets, rewind
from pykafka4.cli.show import cell_text, console, error_json, group_json, lag_json, lag_table, member_table, print_json, table
from pykafka4.cli.streams import STDOUT, named
from pykafka4.core.admin.values import CLASSIC, CONSUMER
from pykafka4.errors import ConfigError, KafkaError
from pykafka4.errors.peer_text import escaped

__all__ = ["groups", "watch"]

PROTOCOLS = ("consumer", "")  # the protocol types of groups that commit offsets of partitions
Lags = Mapping[str, "GroupLag | KafkaError"]


@click.group(short_help="Consumer groups: list, lag, rewind, delete, …")
def groups() -> None:
    """Consumer groups: look at them, move their offsets, delete them.

    Nothing is changed without --execute. The commands work with groups of both protocols, classic and consumer (KIP-848).
    """


all_option = click.option("--all", "all_", is_flag=True, help="All groups of consumers.")
groups_argument = click.argument("group", nargs=-1)


def chosen(admin: AdminClient, invocation: Invocation, names: Iterable[str], all_: bool) -> tuple[list[str], int]:
    """Return the ids of groups, and the exit code of the listing. Raises click.UsageError unless either ids or --all are given."""
    wanted = list(dict.fromkeys(names))
    if bool(wanted) == all_:
        raise click.UsageError("give the ids of groups, or --all")
    if not all_:
        return wanted, DONE
    found = admin.list_groups(types=(CLASSIC, CONSUMER), timeout=invocation.timeout)
    return [group.group_id for group in found if group.protocol_type in PROTOCOLS], show_errors(found.errors)


@groups.command(
    "list",
    epilog="""\b
Examples:
  pykafka4 groups list --state Stable
  pykafka4 groups list --json | jq -r .group_id
""",
)
@click.option("--state", "states", multiple=True, help="Only groups in this state: Stable, Empty, … Can be repeated.")
@click.option("--type", "types", multiple=True, help="Only groups of this type: classic, consumer, share, streams. Can be repeated.")
@click.option("--protocol", "protocols", multiple=True, help="Only groups of this protocol type: consumer, connect, … Can be repeated.")
@as_json_option
@click.pass_obj
def list_(invocation: Invocation, states: tuple[str, ...], types: tuple[str, ...], protocols: tuple[str, ...], json_: bool) -> int:
    """List groups with state, type, protocol type and coordinator."""
    with invocation.admin() as admin:
        found = admin.list_groups(states=states, types=types, protocol_types=protocols, timeout=invocation.timeout)
    if json_:
        print_json(*map(group_json, found), *({"broker": node, **error_json(error)} for node, error in found.errors.items()))
    else:
        columns = ("group", "state", "type", "protocol", "coordinator")
        rows = [(g.group_id, g.state, g.type, g.protocol_type, g.coordinator) for g in found]
        console().print(table(columns, rows))
    return show_errors(found.errors)


@groups.command(
    epilog="""\b
Example:
  pykafka4 groups describe billing
"""
)
@groups_argument
@all_option
@as_json_option
@click.pass_obj
def describe(invocation: Invocation, group: tuple[str, ...], all_: bool, json_: bool) -> int:
    """Show state, protocol, members, and the lag of each partition."""
    with invocation.admin() as admin:
        names, code = chosen(admin, invocation, group, all_)
        found = admin.group_lag(names, invocation.timeout)
    if json_:
        print_json(*lags_json(found))
    else:
        for one in found.values():
            if isinstance(one, GroupLag):
                console().print(described(one))
    return max(code, show_errors(errors_of(found)), failed_partitions(found))


def described(group: GroupLag) -> RenderableType:
    it = group.description
    lines = [
        f"group        {cell_text(it.group_id)}",
        f"state        {cell_text(it.state)}",
        f"type         {cell_text(it.type)}, protocol {cell_text(it.protocol_type)}, assignor {cell_text(it.assignor)}",
        f"coordinator  {it.coordinator} ({cell_text(it.coordinator_address)})",
        *([f"epochs       group {it.epoch}, assignment {it.assignment_epoch}"] if it.type == CONSUMER else []),
        f"members      {len(it.members)}",
        f"lag          {group.lag}",
    ]
    parts: list[RenderableType] = [Text("\n".join(lines)), Text()]
    if it.members:
        parts += [member_table(it), Text()]
    if group.partitions:
        parts += [lag_table({it.group_id: group}), Text()]
    return Group(*parts)


@groups.command(
    epilog="""\b
Examples:
  pykafka4 groups lag billing --watch 5
  pykafka4 groups lag --all --json | jq '{group_id, lag}'
"""
)
@groups_argument
@all_option
@click.option("--watch", "seconds", type=Seconds(0.1, 1e9), metavar="SECONDS", help="Repeat every SECONDS, until Ctrl-C.")
@as_json_option
@click.pass_obj
def lag(invocation: Invocation, group: tuple[str, ...], all_: bool, seconds: float | None, json_: bool) -> int:
    """Show the lag of each partition, with its owner."""
    with invocation.admin() as admin:

        def look() -> tuple[Lags, int]:
            names, code = chosen(admin, invocation, group, all_)
            return admin.group_lag(names, invocation.timeout), code

        if seconds is not None:
            return watch(look, seconds, console(), json_)
        found, code = look()
    if json_:
        print_json(*lags_json(found))
    else:
        console().print(lag_table({name: one for name, one in found.items() if isinstance(one, GroupLag)}))
    return max(code, show_errors(errors_of(found)), failed_partitions(found))


def watch(
    look: Callable[[], tuple[Lags, int]], seconds: float, out: Console, json_: bool, wait: Callable[[float], object] = time.sleep
) -> int:
    """Show the result of `look` every `seconds`, until Ctrl-C. A ConfigError is raised; any other KafkaError is shown, because the
    next call may succeed.
    """
    with Live(console=out, auto_refresh=False) if out.is_terminal and not json_ else nullcontext() as live:
        try:
            while True:
                try:
                    found, _ = look()
                except ConfigError:  # each call would fail
                    raise
                except KafkaError as error:
                    found = {"": error}
                if json_:
                    print_json(*lags_json(found))
                elif live is not None:
                    live.update(lag_table(found, time.strftime("%H:%M:%S"), out.height), refresh=True)  # at most a screen of rows
                else:
                    out.print(lag_table(found))
                wait(seconds)
        except KeyboardInterrupt:
            return DONE


def lags_json(found: Lags) -> list[dict[str, Any]]:
    return [{"group_id": name, **error_json(one)} if isinstance(one, KafkaError) else lag_json(one) for name, one in found.items()]


def errors_of(found: Lags) -> dict[str, KafkaError]:
    return {name: one for name, one in found.items() if isinstance(one, KafkaError)}


def failed_partitions(found: Lags) -> int:
    """FAILED if the end of a partition is unknown; the result has the errors."""
    rows = [row for one in found.values() if isinstance(one, GroupLag) for row in one.partitions]
    return FAILED if any(row.error is not None for row in rows) else DONE


@groups.command(
    epilog="""\b
Example:
  pykafka4 groups export billing --output billing.csv
"""
)
@groups_argument
@all_option
@click.option("--format", "format_", type=click.Choice(["csv", "json"]), default="csv", help="csv has the format of kafka-consumer-groups.")
@click.option("--output", type=click.Path(dir_okay=False), default="-", metavar="FILE", help="Default: standard output.")
@click.pass_obj
def export(invocation: Invocation, group: tuple[str, ...], all_: bool, format_: str, output: str) -> int:
    """Write committed offsets, for `rewind --from-file` or for Kafka's own tool."""
    with invocation.admin() as admin:
        names, code = chosen(admin, invocation, group, all_)
        found = admin.group_offsets(names, invocation.timeout)
    good = {name: one for name, one in found.items() if not isinstance(one, KafkaError)}
    for name in (name for name, one in good.items() if not one):
        show_note(f"group {name} has committed no offsets")
    code = max(code, show_errors({name: one for name, one in found.items() if isinstance(one, KafkaError)}))
    if output != "-" and not any(good.values()):  # the file may have the offsets of an earlier export
        return show_error(f"there are no offsets to write, so {output} is left as it is")
    text = to_csv(good, named=len(names) > 1) if format_ == "csv" else to_json(good)
    with named(STDOUT if output == "-" else output), click.open_file(output, "w", encoding="utf-8") as file:
        if file.isatty() and (safe := "\n".join(map(escaped, text.split("\n")))) != text:
            show_note("control characters are shown as escapes; --output FILE writes them as they are")
            text = safe
        file.write(text)
    return code


for command in (create, rewind, delete, delete_offsets):
    groups.add_command(command)
