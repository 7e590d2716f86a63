"""Finds the cluster of a command, makes its clients, and shows its errors.

Invariant: either the command line, or the environment, or the default profile names the cluster. So PYKAFKA4_BOOTSTRAP cannot redirect
`--profile prod`, and the passwords of PYKAFKA4_PROFILE do not go to the servers of --bootstrap.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from pykafka4.cli.profiles import DEFAULT, profile, profiles, profiles_file
from pykafka4.cli.streams import explained, lose
from pykafka4.errors import ConfigError, KafkaError, PartialFailure
from pykafka4.errors.peer_text import escaped

if TYPE_CHECKING:
    from pykafka4.admin import AdminClient
    from pykafka4.client.client import Client
    from pykafka4.consumer import Consumer
    from pykafka4.options.config import ClientConfig
    from pykafka4.producer import Producer

__all__ = [
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "SERVERS",
    "USAGE",
    "Invocation",
    "show_error",
    "show_errors",
    "has_option",
    "show_note",
    "of_kind",
    "outcomes",
]

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED: Final = 130  # as shells report SIGINT
VARIABLES: Final = {"bootstrap": "PYKAFKA4_BOOTSTRAP", "config": "PYKAFKA4_CONFIG", "profile": "PYKAFKA4_PROFILE"}
SERVERS: Final = "bootstrap.servers"
# -X refuses these properties, because other users of the machine can read a command line, and the shell keeps it in its history.
SECRET_NAME: Final = re.compile(r"password|passphrase|secret|jaas|pem$|(private|keystore)[._]key$", re.IGNORECASE)
WAYS_OUT: Final = {"UNKNOWN_TOPIC_OR_PARTITION": "; `pykafka4 topics list` shows the topics that exist and that you may describe"}
SECRET_VALUE: Final = re.compile(r"://[^/@]*:[^/@]*@")  # a URL with a password, such as a proxy's

K = TypeVar("K")
T = TypeVar("T")


@attrs.define
class Invocation:
    """The cluster of a command, and the timeout of its calls.

    `admin`, `client`, `producer` and `consumer` take `options` of their class, which replace all others. These methods raise
    click.UsageError, ConfigError and OSError.
    """

    bootstrap: str | None = None
    config: str | None = None
    profile: str | None = None
    properties: dict[str, str] = attrs.field(factory=dict)
    timeout: float | None = None
    is_json: bool = False
    prefix: str = "--"  # the beginning of the options that name the cluster, for errors

    def add_properties(self, texts: Iterable[str]) -> None:
        """Add texts of the form `name=value`; a later text for a name replaces an earlier one. The servers get the name SERVERS, whatever
        they are called in other clients.

        Raises click.BadParameter for other forms and for secrets; the error does not show the value.
        """
        from pykafka4.other_clients.tables import OPTIONS  # imported here, because the help needs no table

        for text in texts:
            name, equals, value = map(str.strip, text.partition("="))
            if not equals or not name:
                raise click.BadParameter("must be NAME=VALUE, such as security.protocol=SSL")
            if SECRET_NAME.search(name) or SECRET_VALUE.search(value):
                raise click.BadParameter(
                    f"{escaped(name)}: other users can see a command line, so a secret does not belong there; write it into a file for "
                    f"--config, or into a profile of {profiles_file()}"
                )
            # Names with underscores stay, because clients refuse them.
            is_servers = "_" not in name and OPTIONS.get(name.replace(".", "_")) == "bootstrap_servers"
            self.properties[SERVERS if is_servers else name] = value

    def admin(self, **options: Any) -> AdminClient:
        from pykafka4.admin import AdminClient  # imported here and below, because the help needs no client
        from pykafka4.options.config import ClientConfig

        return self.make(AdminClient.from_properties, ClientConfig, options)

    def client(self, **options: Any) -> Client:
        from pykafka4.client.client import Client
        from pykafka4.options.config import ClientConfig

        return self.make(Client.from_properties, ClientConfig, options)

    def producer(self, **options: Any) -> Producer:
        from pykafka4.options.config import ProducerConfig
        from pykafka4.producer import Producer

        return self.make(Producer.from_properties, ProducerConfig, options)

    def consumer(self, **options: Any) -> Consumer[Any, Any]:
        from pykafka4.consumer import Consumer
        from pykafka4.options.config import ConsumerConfig

        return self.make(Consumer.from_properties, ConsumerConfig, options)

    def make(self, make: Callable[..., T], kind: type[ClientConfig], options: Mapping[str, Any]) -> T:
        """Make a client of the cluster by `make(source, **options)`; `kind` is the class of the client's options."""
        from pykafka4.options.from_properties import translate

        named = self._named_cluster()
        servers = {SERVERS: named["bootstrap"]} if "bootstrap" in named else {}
        try:
            given = {**translate(kind, {**self.properties, **servers}, {}).options, **options}
        except ConfigError as error:
            raise click.UsageError(str(error).removeprefix("the mapping: ")) from None
        if "profile" not in named:
            return self._from_file(make, named.get("config", {}), given)
        try:
            return make(of_kind(kind, profile(named["profile"])), **given)
        except ConfigError as error:
            raise click.UsageError(str(error).replace("the mapping", f"{profiles_file()}, [{named['profile']}]", 1)) from None

    def _named_cluster(self) -> dict[str, str]:
        """The options that name the cluster: from the command line, otherwise the environment, otherwise the default profile.

        Raises click.UsageError if no cluster is named, or both a file and a profile are.
        """
        given = {name: value for name in VARIABLES if (value := getattr(self, name)) is not None}
        if SERVERS in self.properties:  # `-X bootstrap.servers=…` also names the cluster
            given.setdefault("bootstrap", self.properties[SERVERS])
        found = given or {name: value for name, variable in VARIABLES.items() if (value := os.environ.get(variable))}
        if {"config", "profile"} <= found.keys():
            names = f"{self.prefix}config and {self.prefix}profile" if given else f"{VARIABLES['config']} and {VARIABLES['profile']}"
            raise click.UsageError(f"give one of {names}, not both")
        if found:
            return found
        if DEFAULT in profiles():
            return {"profile": DEFAULT}
        command = click.get_current_context().command_path
        raise click.UsageError(
            f"no cluster is named: {command} --bootstrap localhost:9092, or --config FILE with {SERVERS} in it, or --profile NAME; "
            f"the variable {VARIABLES['bootstrap']}, or a profile [{DEFAULT}] in {profiles_file()}, saves the typing"
        )

    def _from_file(self, make: Callable[..., T], source: str | Mapping[str, str], given: Mapping[str, Any]) -> T:
        try:
            return make(source, **given)
        except OSError as error:
            if isinstance(source, str) and error.filename == source:
                named_by = f"{self.prefix}config" if self.config is not None else VARIABLES["config"]
                raise click.UsageError(f"the file of {named_by} cannot be read: {_text(error)}") from None
            raise


def of_kind(kind: type[ClientConfig], properties: Mapping[str, str]) -> dict[str, str]:
    """Leave out properties that only other kinds of clients have. A consumer would refuse the `compression.type` of a profile."""
    from pykafka4.options.config import ConsumerConfig, ProducerConfig

    others = [other for other in (ProducerConfig, ConsumerConfig) if other is not kind]
    return {
        name: value
        for name, value in properties.items()
        if has_option(kind, name, value) or not any(has_option(other, name, value) for other in others)
    }


def has_option(kind: type[ClientConfig], name: str, value: str) -> bool:
    from pykafka4.options.from_properties import translate

    try:
        translate(kind, {name: value}, {})  # also knows Java's and librdkafka's names
    except ConfigError:
        return False
    return True


def show_note(text: str) -> None:
    try:
        sys.stderr.write(f"{escaped(text)}\n")
    except OSError:  # no reader, or no terminal after SIGHUP: the exit code still shows the outcome
        lose(sys.stderr)


def show_error(error: BaseException | str) -> int:
    for line in (f"error: {_text(error)}", *getattr(error, "__notes__", ())):
        show_note(line)
    return FAILED


def _text(error: BaseException | str) -> str:
    if isinstance(error, OSError) and not isinstance(error, KafkaError):
        return explained(error)
    text = str(error)
    return text + next((way for ending, way in WAYS_OUT.items() if text.endswith(ending)), "")


def show_errors(errors: Mapping[Any, KafkaError]) -> int:
    """Show each error, equal ones once; return the exit code."""
    for error in {str(error): error for error in errors.values()}.values():
        show_error(error)
    return FAILED if errors else DONE


def outcomes(change: Callable[[], Any], keys: Iterable[K]) -> dict[K, Any]:
    """Carry out a change by an admin client, and return the outcome of each of `keys`: its result, or its KafkaError.

    Raises ConfigError.
    """
    kept = list(keys)
    if not kept:
        return {}
    try:
        done, errors = change() or {}, dict[K, KafkaError]()
    except PartialFailure as failure:
        done, errors = failure.done, failure.errors
    except ConfigError:
        raise
    except KafkaError as error:
        done, errors = {}, dict.fromkeys(kept, error)
    return {key: errors.get(key, done.get(key)) for key in kept}
