"""Runs the command of a command line. EPILOG lists the exit codes; after Ctrl-C, `groups lag --watch` exits with 0.
A reader that closes the pipe does not make a command fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
from click.shell_completion import shell_complete

from pykafka4.cli.completion import COMPLETE
from pykafka4.cli.frame import Frame, Row, connection_options
from pykafka4.cli.invocation import DONE, INTERRUPTED, USAGE, Invocation, show_error, show_note
from pykafka4.cli.streams import lose
from pykafka4.errors import ConfigError, KafkaError

__all__ = ["COMMANDS", "run"]

PROGRAM: Final = "pykafka4"

# The help lists the commands in this order.
COMMANDS: Final[dict[str, Row]] = {
    "produce": ("pykafka4.cli.produce", "produce", "Send lines, files or JSON to a topic."),
    "consume": ("pykafka4.cli.consume", "consume", "Write the records of topics to standard output."),
    "copy": ("pykafka4.cli.copy", "copy", "Copy topics, whole batches at a time, to another cluster or topic."),
    "topics": ("pykafka4.cli.topics", "topics", "Topics: list, describe, create, add partitions, delete."),
    "groups": ("pykafka4.cli.groups", "groups", "Consumer groups: list, lag, rewind, delete, …"),
    "acls": ("pykafka4.cli.acls", "acls", "Rights: list, add, remove access control lists."),
    "users": ("pykafka4.cli.users", "users", "Users that log in with SCRAM: list, set passwords, delete."),
    "quotas": ("pykafka4.cli.quotas", "quotas", "Limits of users, client ids and addresses: list, set, remove."),
    "tokens": ("pykafka4.cli.tokens", "tokens", "Delegation tokens: list, create, renew, expire."),
    "settings": ("pykafka4.cli.settings", "settings", "Settings of topics, brokers, groups, client metrics: get, set, unset."),
    "cluster": ("pykafka4.cli.cluster", "cluster", "The cluster: brokers, quorum, log directories, …"),
    "transactions": ("pykafka4.cli.transactions", "transactions", "Transactions: list, describe, find hanging ones, abort them, …"),
    "bench": ("pykafka4.cli.bench", "bench", "Measure your cluster: produce, consume, end-to-end latency."),
    "status": ("pykafka4.cli.status", "status", "Why is nothing flowing? Names, ports, TLS, logins, leaders, replicas, …"),
    "watch": ("pykafka4.cli.watch", "watch", "The status page of a running client, in the terminal."),
    "completion": ("pykafka4.cli.completion", "completion", "Print the script with which bash, zsh or fish completes commands and names."),
    "agent": ("pykafka4.agent.service.main", "main", "A daemon that takes messages from local programs and sends them to Kafka."),
    "send": ("pykafka4.agent.sending", "main", "Hand messages to a running agent."),
    "demo": ("pykafka4.testing.demo", "main", "A producer, a group and a killed broker in ten seconds; needs no cluster."),
}

EPILOG: Final = """\b
Examples:
  pykafka4 groups list --bootstrap localhost:9092
  pykafka4 --profile prod groups lag billing --json | jq .
  pykafka4 COMMAND --help
\b
Options of the connection can be before or after the command's name.
In their place: the variables PYKAFKA4_BOOTSTRAP, PYKAFKA4_CONFIG,
PYKAFKA4_PROFILE and PYKAFKA4_TIMEOUT, or a profile [default].
\b
Exit codes:
  0    everything is done
  1    something was refused or failed; the message says what
  2    wrong usage
  130  Ctrl-C
"""


def _keep_json(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.ensure_object(Invocation).is_json = value


cli = Frame(
    COMMANDS,
    name=PROGRAM,
    help="Look at a Kafka cluster, change it, and move records in and out.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=EPILOG,
    params=[
        *connection_options(),
        click.Option(["--json"], is_flag=True, expose_value=False, callback=_keep_json, help="JSON instead of tables, one object a line."),
    ],
)
# A command's own --timeout does not read the variable: otherwise the variable would replace a --timeout before the command's name.
next(param for param in cli.params if param.name == "timeout").envvar = "PYKAFKA4_TIMEOUT"
cli = click.version_option(package_name="pykafka4", prog_name=PROGRAM)(cli)


def run(arguments: Sequence[str]) -> int:
    if COMPLETE in os.environ:
        return shell_complete(cli, {"obj": Invocation()}, PROGRAM, COMPLETE, os.environ[COMPLETE])
    code = DONE
    try:
        code = _outcome(arguments)
        sys.stdout.flush()  # an error of the last write is handled below, not by the interpreter at exit
    except BrokenPipeError:
        lose(sys.stdout)
    except OSError as error:
        lose(sys.stdout)
        return show_error(error)
    except (KeyboardInterrupt, click.Abort):
        if sys.stderr.isatty():
            show_note("")  # the shell's next line begins below ^C
        return INTERRUPTED
    return code


def _outcome(arguments: Sequence[str]) -> int:
    try:
        return _invoke(arguments)
    except click.ClickException as error:
        try:
            error.show()
        except OSError:
            lose(sys.stderr)
        return error.exit_code
    except ConfigError as error:
        show_error(error)
        return USAGE
    except KafkaError as error:
        return _failed(error, arguments)


def _invoke(arguments: Sequence[str]) -> int:
    """Run a command without `click.Command.main`, which exits with code 1 after a closed pipe."""
    try:
        with cli.make_context(PROGRAM, list(arguments), obj=Invocation()) as context:
            code: Any = cli.invoke(context)
    except click.exceptions.Exit as ended:  # raised by --help and --version
        return ended.exit_code
    return code if isinstance(code, int) else DONE


def _failed(error: KafkaError, arguments: Sequence[str]) -> int:
    code = show_error(error)
    if "--json" in arguments or "-J" in arguments:  # a program that reads the result also gets an object for an error
        from pykafka4.cli.show import error_json, print_json

        try:
            print_json(error_json(error))
        except OSError as lost:
            lose(sys.stdout)
            if not isinstance(lost, BrokenPipeError):
                show_error(lost)
    return code
