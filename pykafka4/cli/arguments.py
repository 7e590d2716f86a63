"""Converts texts of the command line to values. Invariant: a text in a wrong form ends the command with a usage error that shows the
right form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from pykafka4.admin.arguments import Destination, as_goal
from pykafka4.admin.files import from_text
from pykafka4.cli.invocation import SECRET_NAME
from pykafka4.cli.streams import named
from pykafka4.errors import ConfigError
from pykafka4.misuse import check_topic
from pykafka4.records import TopicPartition

__all__ = ["GoalOptions", "duration", "goal_options", "instant", "is_given", "settings_of", "targets"]

UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DIGITS: Final = 12  # a number with fewer digits is not later than 3 March 1973 as milliseconds, and probably something else
SHORT: Final = re.compile(r"(\d{1,9})([smhdw])")
ISO: Final = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.\d+)?S)?)?")


def targets(texts: Iterable[str]) -> list[str | TopicPartition]:
    """Parse topics and partitions: `orders`, or `orders:0,1` as for Kafka's tools."""
    found: list[str | TopicPartition] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        try:
            check_topic(topic)
        except ConfigError as error:
            raise click.BadParameter(str(error), param_hint="--topic") from None
        if not colon:
            found.append(topic)
            continue
        parts = numbers.split(",")
        if not all(part.isascii() and part.isdigit() and len(part) <= 10 for part in parts):
            raise click.BadParameter(f"{text!r}: must be a topic, or a topic and partitions: {topic}:0,1", param_hint="--topic")
        found += [TopicPartition(topic, int(part)) for part in parts]
    return found


def settings_of(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse settings: `retention.ms=3600000`, or `ssl.keystore.password=@password.txt` for a value in a file."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r}: must be NAME=VALUE, such as retention.ms=3600000", param_hint=option)
        if value.startswith("@"):
            with named(value[1:]):
                found[name] = Path(value[1:]).read_text(encoding="utf-8").rstrip("\n")
        elif SECRET_NAME.search(name):
            raise click.BadParameter(
                f"{name}: other users can see a command line; write the value into a file: {name}=@FILE", param_hint=option
            )
        else:
            found[name] = value
    return found


def duration(text: str) -> timedelta:
    """Parse a duration: `90s`, `15m`, `2h`, `1d`, or ISO 8601 as for Kafka's tools: `PT1H30M`."""
    try:
        found = _duration(text)
        as_goal(found, None)  # raises ConfigError for a time before 1970
    except (OverflowError, ConfigError):
        raise click.BadParameter(f"{text!r}: is before 1970; --to-earliest moves to the first offsets", param_hint="--ago") from None
    return found


def _duration(text: str) -> timedelta:
    if short := SHORT.fullmatch(text):
        return timedelta(seconds=int(short[1]) * UNITS[short[2]])
    iso = ISO.fullmatch(text)
    if iso is None or not any(iso.groups()):
        raise click.BadParameter(f"{text!r}: must be a duration such as 90s, 15m, 2h, 1d, or PT1H30M", param_hint="--ago")
    days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def instant(text: str) -> datetime:
    """Parse an ISO 8601 time (in UTC if it has no zone, as for Kafka's tools), or milliseconds since 1970.

    A small number is refused, because a time in seconds, or `20260131`, would mean the first offsets if it were read as milliseconds.
    """
    try:
        if text.isascii() and text.isdigit():
            if len(text.lstrip("0")) < DIGITS:
                raise click.BadParameter(
                    f"{text!r}: as milliseconds since 1970 that is not later than 3 March 1973; is it a date, or seconds? "
                    "Give 2026-01-31T12:00:00, or milliseconds: 1769860800000",
                    param_hint="--to-time",
                )
            return EPOCH + timedelta(milliseconds=int(text))
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r}: must be a time such as 2026-01-31T12:00:00, with a zone (Z, +01:00) or in UTC", param_hint="--to-time"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def is_given(value: object) -> bool:
    """Whether the option with this value was given: the value 0 counts as given."""
    return value is not None and value is not False


class GoalOptions:
    """The goal of a command that moves offsets: exactly one of its options."""

    def __init__(self, options: dict[str, Any]) -> None:
        given = {name: value for name, value in options.items() if is_given(value)}
        if len(given) != 1:
            names = ", ".join(option.opts[0] for option in GOALS)
            have = f", not {' and '.join('--' + name.replace('_', '-') for name in given)}" if given else ""
            raise click.UsageError(f"give one of {names}{have}")
        ((self.name, self._value),) = given.items()

    @property
    def is_file(self) -> bool:
        """Whether the offsets come from a file, which also names the partitions."""
        return self.name == "from_file"

    def options(self, group: str) -> dict[str, Any]:
        """Arguments for `plan_offsets`."""
        return {"shift": self._value} if self.name == "shift" else {"to": self._destination(group)}

    def _destination(self, group: str) -> Destination:
        """A file can have offsets of several groups, so the argument `to` depends on the group."""
        value = self._value
        if self.name == "from_file":
            path = Path(value)
            try:
                text = path.read_bytes().decode("utf-8-sig")  # bytes, to keep line ends, which a group id may contain
            except (OSError, UnicodeDecodeError) as error:
                raise click.BadParameter(f"{value}: cannot be read: {error}", param_hint="--from-file") from None
            return from_text(text, group, value)
        if self.name == "to_time":
            return instant(value)
        if self.name == "ago":
            return duration(value)
        return int(value) if self.name == "to_offset" else self.name.removeprefix("to_")


GOALS: Final = [
    click.Option(["--to-earliest"], is_flag=True, help="The first offset of each partition."),
    click.Option(["--to-latest"], is_flag=True, help="The end of each partition."),
    click.Option(["--to-current"], is_flag=True, help="The committed offset; the end of a partition that has none."),
    click.Option(["--to-offset"], type=click.IntRange(0), help="This offset."),
    click.Option(["--to-time"], metavar="TIME", help="The first record at this time or later: 2026-01-31T12:00:00 (UTC, or with a zone)."),
    click.Option(["--ago"], metavar="DURATION", help="The first record that is not older than this: 90s, 15m, 2h, 1d, PT1H30M."),
    click.Option(["--shift"], type=int, metavar="N", help="N offsets forward, or back if N is negative."),
    click.Option(["--from-file"], metavar="FILE", help="Offsets from a file of `groups export`, or a CSV file of kafka-consumer-groups."),
]


def goal_options(command: click.Command) -> click.Command:
    command.params += GOALS
    return command
