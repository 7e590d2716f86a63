"""Lists, adds and removes access control lists: `acls`. `remove` takes the options of `add`; without `--execute` it only shows the ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, Final, TypeVar

import attrs
import click

from pykafka4.cli.invocation import DONE, Invocation, show_note
from pykafka4.cli.listing import as_json_option, execute_option, print_rows
from pykafka4.cli.show import counted
from pykafka4.core.admin.acls import Acl, AclFilter

__all__ = ["acls"]

F = TypeVar("F", bound=Callable[..., Any])
Named = tuple[str, str | None]  # a type of resource, and a name
COLUMNS: Final = ("principal", "permission", "operation", "resource_type", "resource_name", "pattern", "host")
NAMES: Final = ("principal", "right", "operation", "on", "name", "pattern", "host")  # headings of the table, which has to fit 80 columns
CLUSTER: Final[Named] = ("cluster", "kafka-cluster")
# The type of resource in an `Acl`, by option.
TYPES: Final = {
    "topics": "topic",
    "groups": "group",
    "transactional_ids": "transactional-id",
    "delegation_tokens": "delegation-token",
    "user_principals": "user",
}
# The operations on each type of resource for --producer and --consumer, as in kafka-acls.
PRODUCER: Final = {"topic": ("WRITE", "DESCRIBE", "CREATE"), "transactional-id": ("WRITE", "DESCRIBE")}
CONSUMER: Final = {"topic": ("READ", "DESCRIBE"), "group": ("READ",)}


@click.group(short_help="Rights: list, add, remove access control lists.")
def acls() -> None:
    """Rights: who may perform which operation on which resource.

    Most options are options of kafka-acls. Operations are Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs,
    AlterConfigs, IdempotentWrite, CreateTokens, DescribeTokens, TwoPhaseCommit, All. A principal is User:NAME; User:* is everybody.
    """


def resource_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--topic", "topics", multiple=True, metavar="NAME", help="A topic; '*' stands for all. Can be repeated."),
            click.option("--group", "groups", multiple=True, metavar="ID", help="A group. Can be repeated."),
            click.option("--cluster", is_flag=True, help="The cluster."),
            click.option(
                "--transactional-id", "transactional_ids", multiple=True, metavar="ID", help="A transactional id. Can be repeated."
            ),
            click.option(
                "--delegation-token", "delegation_tokens", multiple=True, metavar="ID", help="A delegation token. Can be repeated."
            ),
            click.option(
                "--user-principal",
                "user_principals",
                multiple=True,
                metavar="PRINCIPAL",
                help="A user, for CreateTokens and DescribeTokens. Can be repeated.",
            ),
        )
    ):
        command = option(command)
    return command


def rights_options(command: F) -> F:
    for option in reversed(
        (
            click.option(
                "--allow-principal", "allow", multiple=True, metavar="PRINCIPAL", help="A principal to allow: User:NAME. Can be repeated."
            ),
            click.option("--deny-principal", "deny", multiple=True, metavar="PRINCIPAL", help="A principal to deny. Can be repeated."),
            click.option("--operation", "operations", multiple=True, metavar="WORD", help="An operation; default: All. Can be repeated."),
            click.option("--allow-host", "hosts", multiple=True, metavar="ADDRESS", help="Only from this address. Can be repeated."),
            click.option("--prefixed", is_flag=True, help="The given names are prefixes."),
            click.option("--producer", is_flag=True, help="The rights that a producer needs on topics and transactional ids."),
            click.option("--consumer", is_flag=True, help="The rights that a consumer needs on topics and groups."),
            click.option("--idempotent", is_flag=True, help="With --producer: also idempotence, for brokers before Kafka 2.8."),
        )
    ):
        command = option(command)
    return command


def named(options: dict[str, Any]) -> list[Named]:
    found: list[Named] = [(kind, name) for option, kind in TYPES.items() for name in options[option]]
    return found + ([CLUSTER] if options["cluster"] else [])


def operations(options: dict[str, Any], resources: Iterable[Named]) -> Iterator[tuple[str, Named]]:
    shortcuts = [row for row, given in ((PRODUCER, options["producer"]), (CONSUMER, options["consumer"])) if given]
    if options["idempotent"] and not options["producer"]:
        raise click.UsageError("--idempotent goes with --producer")
    if not shortcuts:
        yield from product(options["operations"] or ("ALL",), resources)
        return
    if options["operations"]:
        raise click.UsageError("--operation cannot be combined with --producer or --consumer")
    chosen = [*resources, *([("cluster", CLUSTER[1])] if options["idempotent"] else [])]
    kinds = {kind for kind, _ in chosen}
    if "topic" not in kinds or (options["consumer"] and "group" not in kinds):
        raise click.UsageError("--producer needs --topic; --consumer needs --topic and --group")
    used = {**dict.fromkeys(kinds, ()), **({"cluster": ("IDEMPOTENT_WRITE",)} if options["idempotent"] else {})}
    for row in shortcuts:
        used = {kind: (*used.get(kind, ()), *row.get(kind, ())) for kind in kinds}
    if idle := [kind for kind in kinds if not used[kind]]:
        raise click.UsageError(f"the {idle[0]} has no effect with the given --producer or --consumer: leave its option out")
    yield from ((word, resource) for resource in chosen for word in dict.fromkeys(used[resource[0]]))


def wanted(options: dict[str, Any]) -> list[Acl]:
    who = [(principal, "ALLOW") for principal in options["allow"]] + [(principal, "DENY") for principal in options["deny"]]
    resources = named(options)
    if not who or not resources:
        raise click.UsageError(
            "give a principal and a resource: --allow-principal User:NAME (or --deny-principal), and --topic, --group, --cluster, …"
        )
    pattern = "PREFIXED" if options["prefixed"] else "LITERAL"
    found = (
        Acl(
            principal, word, kind, *(() if name is None else (name,)), permission=permission, host=host, pattern=kind_pattern(kind, pattern)
        )
        for word, (kind, name) in operations(options, resources)
        for principal, permission in who
        for host in options["hosts"] or ("*",)
    )
    return list(dict.fromkeys(found))  # options can name an ACL twice


def kind_pattern(kind: str, pattern: str) -> str:
    """The pattern for a type of resource: the cluster has one name, which is not a prefix."""
    return "LITERAL" if kind == "cluster" else pattern


@acls.command("list", epilog="\b\nExample:\n  pykafka4 acls list --topic orders --match")
@click.option("--principal", metavar="PRINCIPAL", help="Only ACLs of this principal.")
@click.option("--operation", metavar="WORD", help="Only ACLs about this operation.")
@click.option("--match", is_flag=True, help="All ACLs that apply to the resource, including ACLs for prefixes and for '*'.")
@resource_options
@as_json_option
@click.pass_obj
def list_(invocation: Invocation, /, principal: str | None, operation: str | None, match: bool, json_: bool, **options: Any) -> int:
    """List all ACLs, or only the ACLs that match the options."""
    pattern = "MATCH" if match else None
    filters = [
        AclFilter(principal=principal, operation=operation, resource_type=kind, resource_name=name, pattern=pattern)
        for kind, name in named(options)
    ] or [AclFilter(principal=principal, operation=operation)]
    with invocation.admin() as admin:
        found = [acl for one in filters for acl in admin.describe_acls(one, timeout=invocation.timeout)]
    _print(dict.fromkeys(found), json_)
    return DONE


@acls.command(epilog="\b\nExample:\n  pykafka4 acls add --allow-principal User:billing --consumer --topic orders --group billing")
@rights_options
@resource_options
@as_json_option
@click.pass_obj
def add(invocation: Invocation, /, json_: bool, **options: Any) -> int:
    """Add ACLs; existing ACLs stay."""
    chosen = wanted(options)
    with invocation.admin() as admin:
        admin.create_acls(chosen, timeout=invocation.timeout)
    _print(chosen, json_)
    show_note(f"{counted(len(chosen), 'ACL')} added")
    return DONE


@acls.command(epilog="\b\nExample:\n  pykafka4 acls remove --principal User:billing --execute")
@click.option("--principal", metavar="PRINCIPAL", help="All ACLs of this principal, instead of single ones.")
@rights_options
@resource_options
@execute_option
@as_json_option
@click.pass_obj
def remove(invocation: Invocation, /, principal: str | None, execute: bool, json_: bool, **options: Any) -> int:
    """Remove the ACLs that `add` with the same options adds, or all ACLs of a principal."""
    if principal is not None and any(options.values()):
        raise click.UsageError("--principal removes all ACLs of a principal; name single ACLs with the options of `add`")
    filters: list[Acl | AclFilter] = [*wanted(options)] if principal is None else [AclFilter(principal=principal)]
    with invocation.admin() as admin:
        if execute:
            deleted = admin.delete_acls(filters, timeout=invocation.timeout)
            found = [acl for acls in deleted.values() for acl in acls]
        else:
            found = [acl for one in filters for acl in admin.describe_acls(_exactly(one), timeout=invocation.timeout)]
    _print(dict.fromkeys(found), json_)
    show_note(f"{counted(len(found), 'ACL')} removed" if execute else "nothing has been changed; --execute removes these ACLs")
    return DONE


def _exactly(one: Acl | AclFilter) -> AclFilter:
    return one if isinstance(one, AclFilter) else AclFilter(**attrs.asdict(one))


def _print(found: Iterable[Acl], json_: bool) -> None:
    print_rows(COLUMNS, [{name: getattr(acl, name) for name in COLUMNS} for acl in found], json_, NAMES)
