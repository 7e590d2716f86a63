"""Lists, sets and removes quotas of users, client ids and addresses: `quotas`. A change affects only the named quotas; `remove` without
names affects all quotas of the entity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from pykafka4.cli.invocation import DONE, Invocation, show_note
from pykafka4.cli.listing import as_json_option, execute_option, print_rows
from pykafka4.cli.show import counted
from pykafka4.core.admin.quotas import QuotaEntity, QuotaFilter, QuotaScope

__all__ = ["quotas"]

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS: Final = ("user", "client_id", "ip", "quota", "rate")
KINDS: Final = {"user": "user", "client_id": "client", "ip": "ip"}  # field -> the prefix of its option --…-defaults


@click.group(short_help="Limits of users, client ids and addresses: list, set, remove.")
def quotas() -> None:
    """Limits of users, client ids (or a client id of a user) and IP addresses.

    \b
    producer_byte_rate, consumer_byte_rate  bytes per second, at each broker
    request_percentage                      share of a thread's time, at each broker
    controller_mutation_rate                partitions created or deleted per second
    connection_creation_rate                connections per second, of addresses
    """


def entity_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--user", metavar="NAME", help="A user."),
            click.option("--user-defaults", is_flag=True, help="All users without a quota of their own."),
            click.option("--client-id", metavar="ID", help="A client id; with --user, a client id of this user."),
            click.option("--client-defaults", is_flag=True, help="All client ids without a quota of their own."),
            click.option("--ip", metavar="ADDRESS", help="An IP address."),
            click.option("--ip-defaults", is_flag=True, help="All addresses without a quota of their own."),
        )
    ):
        command = option(command)
    return command


def given(options: dict[str, Any]) -> dict[str, str | QuotaScope]:
    found: dict[str, str | QuotaScope] = {field: options[field] for field in KINDS if options[field] is not None}
    for field, begin in KINDS.items():
        if options[f"{begin}_defaults"]:
            if field in found:
                raise click.UsageError(
                    f"--{begin}-defaults is for all except --{field.replace('_', '-')} {found[field]}; give one of the two"
                )
            found[field] = QuotaScope.DEFAULT
    return found


def entity(options: dict[str, Any]) -> QuotaEntity:
    found = given(options)
    if not found:
        raise click.UsageError("no entity is named: give --user, --client-id, both, or --ip; --user-defaults, … for all others")
    return QuotaEntity(**found)


@quotas.command("list", epilog="\b\nExample:\n  pykafka4 quotas list --user alice")
@entity_options
@click.option(
    "--strict", is_flag=True, help="Only quotas of exactly these fields: with --user alone, not the quotas of the user's client ids."
)
@as_json_option
@click.pass_obj
def list_(invocation: Invocation, /, strict: bool, json_: bool, **options: Any) -> int:
    """List the quotas that are set: all, or only the quotas that match the options."""
    with invocation.admin() as admin:
        found = admin.describe_quotas(QuotaFilter(**given(options), strict=strict), timeout=invocation.timeout)
    _print(found, json_)
    return DONE


@quotas.command("set", epilog="\b\nExample:\n  pykafka4 quotas set --user alice producer_byte_rate=1000000 consumer_byte_rate=2000000")
@click.argument("quota", nargs=-1, required=True, metavar="NAME=RATE…")
@entity_options
@as_json_option
@click.pass_obj
def set_(invocation: Invocation, /, quota: tuple[str, ...], json_: bool, **options: Any) -> int:
    """Set quotas; other quotas of the same user, client id or address stay."""
    whom, rates = entity(options), dict(map(_rate, quota))
    with invocation.admin() as admin:
        admin.alter_quotas({whom: rates}, timeout=invocation.timeout)
    _print({whom: rates}, json_)
    return DONE


def _rate(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise click.BadParameter(f"{text!r}: must be NAME=RATE, such as producer_byte_rate=1000000", param_hint="QUOTA") from None


@quotas.command(epilog="\b\nExample:\n  pykafka4 quotas remove --user alice producer_byte_rate --execute")
@click.argument("quota", nargs=-1, metavar="[NAME]…")
@entity_options
@execute_option
@as_json_option
@click.pass_obj
def remove(invocation: Invocation, /, quota: tuple[str, ...], execute: bool, json_: bool, **options: Any) -> int:
    """Remove some quotas of a user, client id or address; without names: all of them."""
    whom = entity(options)
    with invocation.admin() as admin:
        found = admin.describe_quotas(QuotaFilter(**given(options), strict=True), timeout=invocation.timeout).get(whom, {})
        gone = {name: rate for name, rate in found.items() if not quota or name in quota}
        if execute and gone:
            admin.alter_quotas({whom: dict.fromkeys(gone)}, timeout=invocation.timeout)
    _print({whom: gone}, json_)
    show_note(f"{counted(len(gone), 'quota')} removed" if execute else "nothing has been changed; --execute removes these quotas")
    return DONE


def _print(found: dict[QuotaEntity, dict[str, float]], json_: bool) -> None:
    rows = []
    for whom, rates in found.items():
        names = {field: None if (value := getattr(whom, field)) is None else str(value) for field in KINDS}
        rows += [{**names, "quota": name, "rate": rate if rate % 1 else int(rate)} for name, rate in rates.items()]
    print_rows(COLUMNS, rows, json_)
