"""Lists, creates, renews and expires delegation tokens: `tokens`. Only `create` shows a secret; commands name a token by its id."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from pykafka4.admin import AdminClient
from pykafka4.cli.frame import Seconds
from pykafka4.cli.invocation import DONE, Invocation, show_note
from pykafka4.cli.listing import as_json_option, execute_option, print_rows
from pykafka4.cli.show import as_json, cell_text
from pykafka4.core.admin.tokens import DelegationToken
from pykafka4.errors import KafkaError

__all__ = ["tokens"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS: Final = ("token_id", "owner", "renewers", "issued", "expires", "max")
TIMES: Final = ("issued", "expires", "max")


@click.group(short_help="Delegation tokens: list, create, renew, expire.")
def tokens() -> None:
    """Delegation tokens: short-lived credentials of a user, for workers that should not have the password.

    A client logs in with SCRAM, sasl_delegation_token=True, the id as user name and the secret as password.
    """


@tokens.command("list", epilog="\b\nExample:\n  pykafka4 tokens list --owner User:alice")
@click.option("--owner", "owners", multiple=True, metavar="PRINCIPAL", help="Only tokens of this owner. Can be repeated.")
@as_json_option
@click.pass_obj
def list_(invocation: Invocation, owners: tuple[str, ...], json_: bool) -> int:
    """List the tokens that you may see, without their secrets."""
    with invocation.admin() as admin:
        found = admin.describe_tokens(owners or None, timeout=invocation.timeout)
    print_rows(COLUMNS, [_row(one, json_) for one in found], json_)
    return DONE


@tokens.command(epilog="\b\nExample:\n  pykafka4 tokens create --renewer User:scheduler --max-lifetime 86400 --json > token.json")
@click.option("--owner", metavar="PRINCIPAL", help="The owner, if it is another user; default: you.")
@click.option("--renewer", "renewers", multiple=True, metavar="PRINCIPAL", help="Who else may renew and expire the token. Can be repeated.")
@click.option(
    "--max-lifetime",
    type=Seconds(0, 1e12, min_open=True),
    metavar="SECONDS",
    help="Longest life of the token; default: the brokers' default.",
)
@as_json_option
@click.pass_obj
def create(invocation: Invocation, owner: str | None, renewers: tuple[str, ...], max_lifetime: float | None, json_: bool) -> int:
    """Create a token. Its secret is shown, as `password`."""
    with invocation.admin() as admin:
        token = admin.create_token(owner=owner, renewers=renewers, max_lifetime=max_lifetime, timeout=invocation.timeout)
    row = {**_row(token, json_), "password": token.password}
    click.echo(as_json(row) if json_ else "\n".join(f"{name:9} {cell_text(value)}" for name, value in row.items()))
    return DONE


@tokens.command(epilog="\b\nExample:\n  pykafka4 tokens renew TOKEN_ID --period 86400")
@click.argument("token_id")
@click.option(
    "--period",
    type=Seconds(0, 1e12, min_open=True),
    metavar="SECONDS",
    help="Life of the token from now on; default: the brokers' default.",
)
@click.pass_obj
def renew(invocation: Invocation, token_id: str, period: float | None) -> int:
    """Have a token expire later."""
    with invocation.admin() as admin:
        token = _named(admin, token_id, invocation.timeout)
        show_note(f"{token_id} expires at {_time(admin.renew_token(token, period=period, timeout=invocation.timeout))}")
    return DONE


@tokens.command(epilog="\b\nExample:\n  pykafka4 tokens expire TOKEN_ID --execute")
@click.argument("token_id")
@execute_option
@click.pass_obj
def expire(invocation: Invocation, token_id: str, execute: bool) -> int:
    """Have a token expire at once. Open connections stay logged in with it."""
    with invocation.admin() as admin:
        token = _named(admin, token_id, invocation.timeout)
        if execute:
            admin.expire_token(token, timeout=invocation.timeout)
    show_note(f"{token_id} of {cell_text(token.owner)} has expired" if execute else "nothing has been changed; --execute ends this token")
    return DONE


def _named(admin: AdminClient, token_id: str, timeout: float | None) -> DelegationToken:
    found = [one for one in admin.describe_tokens(timeout=timeout) if one.token_id == token_id]
    if not found:
        raise KafkaError(f"no token {token_id} is visible to you; `pykafka4 tokens list` shows the visible ones")
    return found[0]


def _row(token: DelegationToken, json_: bool) -> dict[str, Any]:
    """A token as a row: times are texts in a table, and milliseconds in JSON."""
    times = {name: getattr(token, f"{name}_ms") for name in TIMES}
    if json_:
        return {"token_id": token.token_id, "owner": token.owner, "requester": token.requester, "renewers": token.renewers, **times}
    return {
        "token_id": token.token_id,
        "owner": token.owner,
        "renewers": ", ".join(token.renewers),
        **{name: _time(value) for name, value in times.items()},
    }


def _time(ms: int) -> str:
    return (EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%SZ")
