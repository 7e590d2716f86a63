"""Lists and deletes users that log in with SCRAM, and sets their passwords: `users`. Invariant: a password comes from a prompt, a file or
standard input, never from the command line."""

from __future__ import annotations

import sys
from typing import IO, Final

import click

from pykafka4.cli.invocation import DONE, FAILED, Invocation, show_error, show_note
from pykafka4.cli.listing import as_json_option, execute_option, print_rows
from pykafka4.cli.show import error_json
from pykafka4.cli.streams import STDIN, named
from pykafka4.core.admin.users import ABSENT, MECHANISMS, ScramCredential
from pykafka4.errors import KafkaError, broker_error

__all__ = ["users"]

COLUMNS: Final = ("user", "mechanism", "iterations")
mechanism_option = click.option(
    "--mechanism", "mechanisms", multiple=True, type=click.Choice(list(MECHANISMS), case_sensitive=False), help="Default: both."
)


@click.group(short_help="Users that log in with SCRAM: list, set passwords, delete.")
def users() -> None:
    """Users whose SCRAM credentials the cluster keeps."""


@users.command("list", epilog="\b\nExample:\n  pykafka4 users list alice bob")
@click.argument("user", nargs=-1)
@as_json_option
@click.pass_obj
def list_(invocation: Invocation, user: tuple[str, ...], json_: bool) -> int:
    """List users with mechanisms and iterations."""
    with invocation.admin() as admin:
        found = admin.describe_users(user, timeout=invocation.timeout) if user else admin.list_users(timeout=invocation.timeout)
    return _print(dict(found), json_)


@users.command("set", epilog="\b\nExample:\n  pykafka4 users set alice --password-file - < password.txt")
@click.argument("user")
@mechanism_option
@click.option(
    "--iterations", type=int, default=4096, show_default=True, help="How many times the password is hashed; brokers accept 4096 to 16384."
)
@click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="A file whose first line is the password; - is standard input.",
)
@click.pass_obj
def set_(invocation: Invocation, user: str, mechanisms: tuple[str, ...], iterations: int, password_file: IO[str] | None) -> int:
    """Set the password of a new or existing user. Without --password-file, the command asks for the password on the terminal."""
    if password_file is not None:
        with named(STDIN if password_file.name in (0, "<stdin>") else password_file.name):  # an error of the read has no file name
            password = password_file.readline().rstrip("\r\n")
    elif sys.stdin.isatty():
        password = click.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise click.UsageError(
            "standard input is not a terminal, so the password cannot be typed; give --password-file FILE, or - for standard input"
        )
    chosen = mechanisms or tuple(MECHANISMS)
    with invocation.admin() as admin:
        admin.upsert_users({user: password}, mechanisms=chosen, iterations=iterations, timeout=invocation.timeout)
    show_note(f"password of {user} set for {', '.join(chosen)}")
    return DONE


@users.command(epilog="\b\nExample:\n  pykafka4 users delete alice --execute")
@click.argument("user", nargs=-1, required=True)
@mechanism_option
@execute_option
@as_json_option
@click.pass_obj
def delete(invocation: Invocation, user: tuple[str, ...], mechanisms: tuple[str, ...], execute: bool, json_: bool) -> int:
    """Delete users, or their passwords for a mechanism. Open connections stay logged in."""
    only = mechanisms[0] if len({*mechanisms}) == 1 else None  # with both, as without the option, a user needs only one of them
    with invocation.admin() as admin:
        found = admin.describe_users(user, timeout=invocation.timeout)
        gone = {name: one if isinstance(one, KafkaError) else _of(name, one, only) for name, one in found.items()}
        chosen = [name for name, one in gone.items() if not isinstance(one, KafkaError)]
        if execute and chosen:
            admin.delete_users(chosen, mechanisms=None if only is None else (only,), timeout=invocation.timeout)
    code = _print(gone, json_)
    if chosen:
        show_note("these passwords are deleted" if execute else "nothing has been changed; --execute deletes these passwords")
    return code


def _of(name: str, credentials: tuple[ScramCredential, ...], only: str | None) -> tuple[ScramCredential, ...] | KafkaError:
    found = tuple(one for one in credentials if only in (None, one.mechanism))
    return found or broker_error(ABSENT, f"the {only} credential of user {name}")


def _print(found: dict[str, tuple[ScramCredential, ...] | KafkaError], json_: bool) -> int:
    errors = {name: one for name, one in found.items() if isinstance(one, KafkaError)}
    rows = [
        {"user": name, "mechanism": one.mechanism, "iterations": one.iterations}
        for name, credentials in found.items()
        if not isinstance(credentials, KafkaError)
        for one in credentials
    ]
    print_rows(COLUMNS, [*rows, *({"user": name, **error_json(error)} for name, error in errors.items() if json_)], json_)
    for error in errors.values():
        show_error(error)
    return FAILED if errors else DONE
