"""Adds the options that choose the records for a command. Invariant: options that do not go together are refused before the first read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import attrs
import click

from pykafka4.cli.records.places import LOG_END, LOG_START, Place, PlaceType

__all__ = ["RESETS", "ExtentOptions", "extent_options"]

RESETS: Final = {LOG_START: "earliest", LOG_END: "latest"}


@attrs.frozen
class ExtentOptions:
    """The records to read. With a `group`, `partitions` must be empty, `start` None or one of RESETS, and `until` None or LOG_END."""

    topics: tuple[str, ...]
    partitions: tuple[int, ...]
    start: Place | None
    until: Place | None
    follow: bool
    group: str | None

    def check(self) -> None:
        if self.follow and self.until is not None:
            raise click.UsageError("--follow has no end: leave out --until")
        if self.start == LOG_END and not self.follow and self.group is None:  # a group begins at its committed offsets, if it has any
            raise click.UsageError("--from latest without --follow reads nothing: add --follow, or give --from -10 for the last records")
        if self.group is None:
            return
        if self.partitions or self.start not in (None, *RESETS) or self.until not in (None, LOG_END):
            raise click.UsageError(
                "--group reads the partitions that the group assigns, from the committed offsets to the end (with --follow, without an "
                "end): leave out --partition, --until, and a --from other than earliest and latest; `groups rewind` moves these offsets"
            )


def extent_options(*, done: str, group: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator for a command, which gets `ExtentOptions`. `done` (such as "read") and `group` are texts for the help."""
    places = "Where to begin: earliest (default), latest, -100 (the last 100 of each partition), an offset, -1h, a time."
    options = (
        click.argument("topics", nargs=-1, required=True, metavar="TOPIC…"),
        click.option("--from", "start", type=PlaceType(), metavar="PLACE", help=places),
        click.option(
            "--until",
            type=PlaceType(),
            metavar="PLACE",
            help=f"now (default), an offset, -5m, a time: the first record that is not {done}.",
        ),
        click.option("-F", "--follow", is_flag=True, help="Do not end: wait for new records."),
        click.option("-G", "--group", metavar="ID", help=group),
        click.option(
            "-p",
            "--partition",
            "partitions",
            multiple=True,
            type=click.IntRange(0),
            metavar="N",
            help="Only this partition. Can be repeated.",
        ),
    )

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_extent(**given: Any) -> int:
            extent = ExtentOptions(**{field.name: given.pop(field.name) for field in attrs.fields(ExtentOptions)})
            return command(extent=extent, **given)

        for option in reversed(options):
            option(with_extent)
        return with_extent

    return decorate
