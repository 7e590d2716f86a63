"""The command line's frame. Rule: exit code 0 if all that was asked for is done, 1 if some was refused or failed, 2 for wrong usage."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pykafka4.cli.arguments import Seconds
from pykafka4.cli.cluster import cluster
from pykafka4.cli.groups import groups
from pykafka4.cli.invocation import DONE, INTERRUPTED, USAGE, Invocation, complain
from pykafka4.cli.show import as_json, error_json
from pykafka4.cli.watch import watch
from pykafka4.errors import ConfigError, KafkaError
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import translate

__all__ = ["run"]

# `pykafka4.__main__` runs them; \b keeps click from filling the lines.
OTHERS = """\b
More commands, each with a help of its own (-h):
  agent  A daemon that takes messages of local programs and sends them to Kafka.
  send   Hand messages to that agent.
  demo   A producer, a group and a killed broker in ten seconds; needs no cluster.
"""


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Options of the form `name=value`."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():  # without the text, which may be a password
            raise click.BadParameter("must be NAME=VALUE, such as security.protocol=SSL", param_hint="-X")
        found[name.strip()] = value.strip()
    return found


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=OTHERS,
)
@click.option("-b", "--bootstrap", metavar="SERVERS", help="Brokers to begin with: host:port, host:port, …")
@click.option("-c", "--config", metavar="FILE", help="A .properties file with options of the client, such as those of TLS and SASL.")
@click.option(
    "-X", "options", multiple=True, metavar="NAME=VALUE", help="An option as in the file; it wins. Passwords belong into the file."
)
@click.option("--timeout", type=Seconds(0, 1e9, min_open=True), metavar="SECONDS", help="For each look or change; default 60.")
@click.version_option(package_name="pykafka4", prog_name="pykafka4")
@click.pass_context
def cli(context: click.Context, bootstrap: str | None, config: str | None, options: tuple[str, ...], timeout: float | None) -> None:
    """Look at a Kafka cluster and change it.

    Exit codes: 0 all is done, 1 something was refused or failed (the message says what), 2 wrong usage.
    """
    if context.invoked_subcommand == watch.name:  # it needs no cluster
        return
    given = _pairs(options)
    if bootstrap is not None:
        given["bootstrap.servers"] = bootstrap
    if config is None and not {"bootstrap.servers", "bootstrap_servers"} & given.keys():
        raise click.UsageError(
            "which cluster? Give, before the command, --bootstrap host:port, or --config with a file that has bootstrap.servers: "
            "python -m pykafka4 --bootstrap host:port groups list"
        )
    try:
        found = translate(ClientConfig, given, {}).options
    except ConfigError as error:
        raise click.UsageError(str(error).removeprefix("the mapping: ")) from None
    context.obj = Invocation(config, found, timeout)


cli.add_command(groups)
cli.add_command(cluster)
cli.add_command(watch)


def run(arguments: Sequence[str]) -> int:
    """Run a command; returns the exit code."""
    try:
        code = cli.main(list(arguments), prog_name="python -m pykafka4", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return USAGE
    except ConfigError as error:
        complain(error)
        return USAGE
    except (KafkaError, OSError) as error:
        if "--json" in arguments and isinstance(error, KafkaError):  # a program that reads the result gets a document in any case
            click.echo(as_json(error_json(error)))
        return complain(error)
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else DONE
