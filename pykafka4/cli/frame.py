"""Imports a command when it is used, and adds the options of the connection to commands that use a cluster.

The options can be before or after a command's name, and fill the one `Invocation` of the context. A command's own option keeps its names;
the option of the connection is added without them.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from pykafka4.cli.completion import NAMES
from pykafka4.cli.invocation import Invocation

__all__ = ["Frame", "Row", "Seconds", "connection_options"]

Row = tuple[str, str, str]  # module, attribute, a line of help
LONGEST: Final = 200  # characters of a command's line of help
# These commands get no options of the connection.
WITHOUT_CLUSTER: Final = frozenset({"completion", "watch", "cluster up", "cluster down", "cluster status"})


class Seconds(click.FloatRange):
    """A number of seconds from `min` to `max`; both are required."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(click.FLOAT.convert(value, param, ctx))
        assert self.min is not None
        assert self.max is not None
        if not self.min <= found <= self.max or (self.min_open and found == self.min):  # nan, too
            self.fail(f"{value!r} is not a number of seconds: {self._describe_range()}, at most {self.max:,.0f}", param, ctx)
        return found

    def _describe_range(self) -> str:
        """The help leaves out upper limits, which only catch mistyped numbers."""
        return "more than 0" if self.min_open else f"at least {self.min:g}"


class Frame(click.Group):
    """Commands from a table of rows. The help shows the rows; a command is imported only to run or complete it, or to show its help."""

    def __init__(self, rows: Mapping[str, Row], **attributes: Any) -> None:
        super().__init__(**attributes)
        self._rows = rows

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._rows:
            return None
        module, attribute, text = self._rows[cmd_name]
        found = getattr(importlib.import_module(module), attribute)
        if not isinstance(found, click.Command):
            return _program(cmd_name, found, text)
        _connect(found, cmd_name)
        return found

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The error for an unknown command names a similar command, if there is one."""
        near = difflib.get_close_matches(args[0], self._rows, n=1)
        if args[0] not in self._rows and near and not ctx.resilient_parsing:  # shells complete without errors
            ctx.fail(f"No such command {args[0]!r}; did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in self._rows.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(name, help=row[2]) for name, row in self._rows.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def _program(name: str, main: Callable[[list[str]], int], text: str) -> click.Command:
    """Make a command from `main`, which parses its own arguments."""

    @click.command(name, short_help=text, add_help_option=False, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def run(arguments: tuple[str, ...]) -> int:
        return main(list(arguments))

    return run


# -- options of all commands


class ConnectionOption(click.Option):
    """An option whose value goes to the `Invocation`."""


def connection_options() -> list[click.Option]:
    """Make the options of the connection: new ones for each command, because `_connect` changes them."""
    return [
        _option("-b", "--bootstrap", metavar="SERVERS", help="Brokers to connect to first: host:port,host:port,…"),
        _option("-c", "--config", metavar="FILE", help="A .properties file with options of the client, as for Kafka's tools."),
        _option("--profile", metavar="NAME", help="Options of the client from ~/.config/pykafka4/profiles.toml."),
        _option(
            "-X", "properties", multiple=True, metavar="NAME=VALUE", help="A client option; overrides a file or profile. No passwords."
        ),
        _option(
            "--timeout", type=Seconds(0, 1e9, min_open=True), metavar="SECONDS", help="Time limit of each query or change; default 60."
        ),
    ]


def _option(*names: str, **attributes: Any) -> ConnectionOption:
    return ConnectionOption(names, expose_value=False, callback=_keep, **attributes)


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    invocation = context.ensure_object(Invocation)
    if option.name == "properties":
        invocation.add_properties(value)
    elif value == "":  # `--config "$FILE"` with an unset variable must not mean another cluster
        raise click.BadParameter("is empty; check the variable of the shell")
    elif value is not None:
        setattr(invocation, str(option.name), value)


def _connect(command: click.Command, path: str) -> None:
    if path in WITHOUT_CLUSTER or any(isinstance(param, ConnectionOption) for param in command.params):
        return
    is_group = isinstance(command, click.Group)
    taken = {name for param in command.params for name in param.opts}  # the names of the command's own options
    for option in connection_options():
        option.opts = [name for name in option.opts if name not in taken]
        option.hidden = is_group  # the help of each subcommand has them
        if option.opts:
            command.params.append(option)
    for param in command.params:
        if "--json" in param.opts:
            param.default = _json_before
        if param.type is click.STRING and param.name in NAMES:
            param.type = NAMES[param.name]
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            each.short_help = each.get_short_help_str(LONGEST)  # click would cut the line off; with LONGEST the list folds it
            _connect(each, f"{path} {name}")


def _json_before() -> bool:
    """Whether `--json` is before the command's name."""
    return click.get_current_context().ensure_object(Invocation).is_json
