"""Gets, sets and unsets settings of topics, brokers, groups and client metrics: `settings`. A change affects only the settings that it
names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import click

from pykafka4.admin.topic_arguments import as_resource
from pykafka4.cli.arguments import settings_of
from pykafka4.cli.invocation import DONE, Invocation, show_errors, show_note
from pykafka4.cli.listing import as_json_option
from pykafka4.cli.show import console, error_json, print_json, table
from pykafka4.core.admin.configs import ALL_BROKERS, KINDS, Append, ConfigEntry, Operation, Resource, Subtract
from pykafka4.errors import ConfigError, KafkaError

__all__ = ["settings"]
LISTS: Final[Mapping[str, Callable[..., Append | Subtract]]] = {"+": Append, "-": Subtract}  # by the sign before the `=`


class ResourceType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.4
    """The type of an argument such as `topic:orders` or `broker:1`; `broker` alone stands for all brokers."""

    name = "resource"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Resource:
        kind, colon, name = str(value).partition(":")
        try:
            return as_resource((kind, name if colon else ALL_BROKERS))
        except (ConfigError, TypeError):
            self.fail(
                f"{value!r}: must be topic:NAME, broker:NUMBER, broker, broker-logger:NUMBER, group:NAME or client-metrics:NAME", param, ctx
            )


resource_argument = click.argument("resource", type=ResourceType(), metavar="KIND:NAME")
dry_run_option = click.option("--dry-run", is_flag=True, help="Have the brokers check the change; nothing is changed.")


def written(resource: Resource) -> str:
    kind, name = resource
    return kind if name is ALL_BROKERS else f"{kind}:{name}"


@click.group(short_help="Settings of topics, brokers, groups, client metrics: get, set, unset.")
def settings() -> None:
    """Settings of topics, brokers, groups and client metrics.

    \b
    A setting belongs to
      topic:orders              a topic
      broker:1                  a broker; `broker` alone: all brokers
      broker-logger:1           the levels of a broker's loggers
      group:billing             a group
      client-metrics:all        a subscription to metrics of clients
    """


@settings.command("list")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Only resources of this kind. Can be repeated.")
@as_json_option
@click.pass_obj
def list_(invocation: Invocation, kinds: tuple[str, ...], json_: bool) -> int:
    """List topics, brokers and broker loggers, and the groups and client-metrics subscriptions that have settings.

    Needs Kafka 4.1; with only --kind client-metrics, Kafka 3.7.

    Example: pykafka4 settings list --kind client-metrics
    """
    with invocation.admin() as admin:
        found = admin.list_config_resources(kinds, timeout=invocation.timeout)
    if json_:
        for kind, name in found:
            print_json({"kind": kind, "name": name})
    else:
        console().print(table(("kind", "name"), found))
    return DONE


@settings.command()
@click.argument("resource", nargs=-1, required=True, type=ResourceType(), metavar="KIND:NAME…")
@click.option("--name", "names", multiple=True, metavar="NAME", help="Only this setting. Can be repeated.")
@click.option("--all", "all_", is_flag=True, help="Also settings that have their default.")
@click.option("--docs", is_flag=True, help="Also Kafka's own text about each setting.")
@as_json_option
@click.pass_obj
def get(invocation: Invocation, resource: tuple[Resource, ...], names: tuple[str, ...], all_: bool, docs: bool, json_: bool) -> int:
    """Show settings with their source.

    By default, only settings that do not have their default are shown. --name chooses settings, --all shows all.

    \b
    Examples:
      pykafka4 settings get topic:orders
      pykafka4 settings get broker:1 --all --json | jq -r .setting
    """

    def wanted(entry: ConfigEntry) -> bool:
        return entry.name in names if names else all_ or not entry.is_default

    with invocation.admin() as admin:
        found = admin.describe_configs(list(resource), documentation=docs, timeout=invocation.timeout)
    errors = {key: one for key, one in found.items() if isinstance(one, KafkaError)}
    rows = [(key, entry) for key, one in found.items() if not isinstance(one, KafkaError) for entry in one.values() if wanted(entry)]
    if json_:
        for key, entry in rows:
            print_json({"kind": key[0], "name": key[1], "setting": entry.name, **_entry(entry)})
        for key, error in errors.items():
            print_json({"kind": key[0], "name": key[1], **error_json(error)})
    else:
        columns = ("resource", "setting", "value", "source", *(["documentation"] if docs else []))
        shown = [(written(key), one.name, _value(one), one.source, *([one.documentation] if docs else [])) for key, one in rows]
        console().print(table(columns, shown))
    return show_errors(errors)


def _value(entry: ConfigEntry) -> str | None:
    return "(secret)" if entry.is_sensitive else entry.value


def _entry(entry: ConfigEntry) -> dict[str, Any]:
    found = attrs.asdict(entry)
    del found["name"]
    return found


@settings.command("set")
@resource_argument
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE…")
@dry_run_option
@as_json_option
@click.pass_obj
def set_(invocation: Invocation, resource: Resource, changes: tuple[str, ...], dry_run: bool, json_: bool) -> int:
    """Set some settings; all others stay.

    For a list, `NAME+=VALUE` adds a value and `NAME-=VALUE` removes one. A secret is read from a file: `NAME=@FILE`.

    \b
    Examples:
      pykafka4 settings set topic:orders retention.ms=3600000 cleanup.policy+=compact
      pykafka4 settings set broker:1 listener.name.tls.ssl.keystore.password=@password.txt
    """
    wanted: dict[str, Operation] = {}
    for name, value in settings_of(changes, "NAME=VALUE").items():
        if name[-1] in LISTS:  # `NAME+=VALUE` is divided at the `=`
            wanted[name[:-1]] = LISTS[name[-1]](*value.split(","))
        else:
            wanted[name] = value
    return _alter(invocation, resource, wanted, dry_run, json_)


@settings.command()
@resource_argument
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@dry_run_option
@as_json_option
@click.pass_obj
def unset(invocation: Invocation, resource: Resource, names: tuple[str, ...], dry_run: bool, json_: bool) -> int:
    """Reset settings to their defaults.

    Example: pykafka4 settings unset topic:orders retention.ms
    """
    return _alter(invocation, resource, dict.fromkeys(names), dry_run, json_)


def _alter(invocation: Invocation, resource: Resource, changes: dict[str, Operation], dry_run: bool, json_: bool) -> int:
    with invocation.admin() as admin:
        admin.alter_configs({resource: changes}, validate_only=dry_run, timeout=invocation.timeout)
    if json_:
        print_json({"kind": resource[0], "name": resource[1], "settings": list(changes), "changed": not dry_run})
    show_note(f"{written(resource)}: {', '.join(changes)} {'would be changed' if dry_run else 'changed'}")
    return DONE
