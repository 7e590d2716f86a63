"""Which cluster a command is about, and exit codes. Rule: a command returns the code of the worst that happened.

Invariant: one place names the cluster. If the command line has servers, --config or --profile, the three variables do not count: so
PYKAFKA4_BOOTSTRAP cannot redirect `--profile prod`, and the passwords of PYKAFKA4_PROFILE do not go to the servers of --bootstrap.
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
from pykafka4.errors.words import escaped

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
    "complain",
    "complain_of",
    "has_option",
    "note",
    "of_kind",
    "outcomes",
]

DONE, FAILED, USAGE = 0, 1, 2
INTERRUPTED: Final = 130  # as shells report it
VARIABLES: Final = {"bootstrap": "PYKAFKA4_BOOTSTRAP", "config": "PYKAFKA4_CONFIG", "profile": "PYKAFKA4_PROFILE"}
SERVERS: Final = "bootstrap.servers"
# Other users of the machine can read a command line, and the shell keeps it.
SECRET_NAME: Final = re.compile(r"password|passphrase|secret|jaas|pem$|(private|keystore)[._]key$", re.IGNORECASE)
WAYS_OUT: Final = {"UNKNOWN_TOPIC_OR_PARTITION": "; `pykafka4 topics list` shows the topics that there are and that you may describe"}
SECRET_VALUE: Final = re.compile(r"://[^/@]*:[^/@]*@")  # of a proxy, for example

K = TypeVar("K")
T = TypeVar("T")


@attrs.define
class Invocation:
    """Which cluster, and how long to wait for it. The frame fills it from the options before and after the command's name.

    `admin` and the other clients take `options` of their class, which win. They raise click.UsageError, ConfigError and OSError.
    """

    bootstrap: str | None = None
    config: str | None = None
    profile: str | None = None
    properties: dict[str, str] = attrs.field(factory=dict)
    timeout: float | None = None
    is_json: bool = False
    prefix: str = "--"  # of the options that name the cluster, for errors

    def add_properties(self, texts: Iterable[str]) -> None:
        """Options of the form `name=value`; the last one wins. Raises click.BadParameter without the text, which may be a password."""
        for text in texts:
            name, equals, value = map(str.strip, text.partition("="))
            if not equals or not name:
                raise click.BadParameter("must be NAME=VALUE, such as security.protocol=SSL")
            if SECRET_NAME.search(name) or SECRET_VALUE.search(value):
                raise click.BadParameter(
                    f"{escaped(name)}: other users can see a command line, so a secret does not belong there; write it into a file for "
                    f"--config, or into a profile of {profiles_file()}"
                )
            self.properties[name] = value

    def admin(self, **options: Any) -> AdminClient:
        """An admin client for the command."""
        from pykafka4.admin import AdminClient  # imported here and below: the help needs none of them
        from pykafka4.options.config import ClientConfig

        return self.make(AdminClient.from_properties, ClientConfig, options)

    def client(self, **options: Any) -> Client:
        """A client that producers and consumers can share."""
        from pykafka4.client.client import Client
        from pykafka4.options.config import ClientConfig

        return self.make(Client.from_properties, ClientConfig, options)

    def producer(self, **options: Any) -> Producer:
        """A producer; `-X` and files may have its options."""
        from pykafka4.options.config import ProducerConfig
        from pykafka4.producer import Producer

        return self.make(Producer.from_properties, ProducerConfig, options)

    def consumer(self, **options: Any) -> Consumer[Any, Any]:
        """A consumer; `-X` and files may have its options."""
        from pykafka4.consumer import Consumer
        from pykafka4.options.config import ConsumerConfig

        return self.make(Consumer.from_properties, ConsumerConfig, options)

    def make(self, make: Callable[..., T], kind: type[ClientConfig], options: Mapping[str, Any]) -> T:
        """The result of `make(properties, **options)`, where `kind` is the class of its options."""
        from pykafka4.options.from_properties import translate

        place = self._place()
        servers = {SERVERS: place["bootstrap"]} if "bootstrap" in place else {}
        try:
            given = {**translate(kind, {**self.properties, **servers}, {}).options, **options}
        except ConfigError as error:
            raise click.UsageError(str(error).removeprefix("the mapping: ")) from None
        if "profile" not in place:
            return self._from_file(make, place.get("config", {}), given)
        try:
            return make(of_kind(kind, profile(place["profile"])), **given)
        except ConfigError as error:
            raise click.UsageError(str(error).replace("the mapping", f"{profiles_file()}, [{place['profile']}]", 1)) from None

    def _place(self) -> dict[str, str]:
        """What names the cluster: of the command line, else of the environment, else the default profile."""
        given = {name: value for name in VARIABLES if (value := getattr(self, name)) is not None}
        if SERVERS in self.properties:
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
        except OSError as error:  # also of --config "", which is no file
            if isinstance(source, str) and error.filename == source:
                place = f"{self.prefix}config" if self.config is not None else VARIABLES["config"]
                raise click.UsageError(f"the file of {place} cannot be read: {_text(error)}") from None
            raise


def of_kind(kind: type[ClientConfig], properties: Mapping[str, str]) -> dict[str, str]:
    """Properties without the ones for other clients, such as `compression.type` for one that produces nothing."""
    from pykafka4.options.config import ConsumerConfig, ProducerConfig

    others = [other for other in (ProducerConfig, ConsumerConfig) if other is not kind]
    return {
        name: value
        for name, value in properties.items()
        if has_option(kind, name, value) or not any(has_option(other, name, value) for other in others)
    }


def has_option(kind: type[ClientConfig], name: str, value: str) -> bool:
    """Whether clients of this kind have the property."""
    from pykafka4.options.from_properties import translate

    try:
        translate(kind, {name: value}, {})
    except ConfigError:
        return False
    return True


def note(text: str) -> None:
    """A line beside the result."""
    try:
        sys.stderr.write(f"{escaped(text)}\n")
    except OSError:  # nobody reads it, or after SIGHUP there is no terminal: the exit code tells
        lose(sys.stderr)


def complain(error: BaseException | str) -> int:
    """Show an error; returns the exit code."""
    for line in (f"error: {_text(error)}", *getattr(error, "__notes__", ())):
        note(line)
    return FAILED


def _text(error: BaseException | str) -> str:
    """An error's text, with a way out where one is known."""
    if isinstance(error, OSError) and not isinstance(error, KafkaError):
        return explained(error)
    text = str(error)
    return text + next((way for ending, way in WAYS_OUT.items() if text.endswith(ending)), "")


def complain_of(errors: Mapping[Any, KafkaError]) -> int:
    """Show several; returns the exit code."""
    for error in {str(error): error for error in errors.values()}.values():  # all may have the same
        complain(error)
    return FAILED if errors else DONE


def outcomes(change: Callable[[], Any], keys: Iterable[K]) -> dict[K, Any]:
    """What became of each of `keys` in a change by an admin client: its result, or its KafkaError."""
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
