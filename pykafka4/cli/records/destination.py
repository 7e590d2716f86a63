"""Finds the cluster and the topic that `copy` writes to. Invariant: a client for another cluster has no option of the client that reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import click

from pykafka4.cli.invocation import SERVERS, Invocation, has_option, of_kind
from pykafka4.options.config import ConsumerConfig, ProducerConfig

__all__ = ["Destination", "destination_options"]

PREFIX: Final = "--to-"


@attrs.frozen
class Destination:
    """The options of the client that writes, and the topic to write to (None: the name of the topic that is read)."""

    bootstrap: str | None
    config: str | None
    profile: str | None
    properties: Mapping[str, str]
    topic: str | None

    def cluster(self, source: Invocation, topics: tuple[str, ...]) -> Invocation:
        if self.topic is not None and len(topics) > 1:
            raise click.UsageError("--to-topic takes one topic: copy several topics one by one")
        for name, value in source.properties.items():
            if has_option(ProducerConfig, name, value) and not has_option(ConsumerConfig, name, value):
                raise click.UsageError(f"-X {name}: -X is for the client that reads; give --to-X {name}={value} for the client that writes")
        place = self.bootstrap, self.config, self.profile, self.properties.get(SERVERS)
        if place != (None,) * len(place):
            return Invocation(self.bootstrap, self.config, self.profile, {**self.properties}, prefix=PREFIX)
        if self.topic is None or self.topic in topics:
            raise click.UsageError(
                "give --to-bootstrap, --to-config or --to-profile for another cluster, or --to-topic for another topic of this one"
            )
        return attrs.evolve(source, properties={**of_kind(ProducerConfig, source.properties), **self.properties})


def _properties(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> Mapping[str, str]:
    found = Invocation()
    found.add_properties(texts)
    return found.properties


def destination_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to `command`, which gets a `Destination`."""
    options = (
        click.option("--to-bootstrap", metavar="SERVERS", help="Brokers of the cluster to write to; default: the cluster that is read."),
        click.option("--to-config", metavar="FILE", help="A .properties file for the cluster to write to."),
        click.option("--to-profile", metavar="NAME", help="A profile for the cluster to write to."),
        click.option(
            "--to-X",
            "to_properties",
            multiple=True,
            callback=_properties,
            metavar="NAME=VALUE",
            help="An option of the client that writes. Can be repeated.",
        ),
        click.option("--to-topic", metavar="NAME", help="The topic to write to, if it has another name."),
    )

    @functools.wraps(command)
    def with_destination(**given: Any) -> int:
        destination = Destination(**{field.name: given.pop(f"to_{field.name}") for field in attrs.fields(Destination)})
        return command(destination=destination, **given)

    for option in reversed(options):
        option(with_destination)
    return with_destination
