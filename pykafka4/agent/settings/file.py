"""Reads the agent's TOML file. Invariant: an error in a setting is reported with the file, the setting, and the line of its key or
of a table around it, unless the file has neither."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from pykafka4.agent.settings import kafka
from pykafka4.agent.settings.fields import SECTION, short
from pykafka4.agent.settings.lines import Lines
from pykafka4.agent.settings.values import AgentSettings, TopicSettings, TopicsSettings
from pykafka4.errors import ConfigError, shown

__all__ = ["LARGEST_FILE", "SettingsError", "dotted", "parse_settings", "read_settings", "sections"]

LARGEST_FILE: Final = 2**20  # bytes
SYNTAX: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
KEY: Final = re.compile(r"[A-Za-z0-9_-]+")

Where = tuple[str, ...]


class SettingsError(ConfigError):
    """Raised for a file with errors. `problems` has one text for each error."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def read_settings(path: Path) -> AgentSettings:
    """The settings in the file. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)  # one byte more shows that a file is too large
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror}"]) from None
    if len(data) > LARGEST_FILE:
        raise SettingsError([f"{path}: is larger than {LARGEST_FILE:,} bytes"])
    try:
        return parse_settings(data.decode(), str(path))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError([f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8"]) from None


def parse_settings(text: str, file: str) -> AgentSettings:
    """The settings in `text`; errors name `file`. Raises SettingsError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_syntax_error(str(error), text, file)]) from None
    reader = _Reader(file, Lines(text))
    settings: AgentSettings | None = reader.section(AgentSettings, table, ())
    if settings is None:
        raise SettingsError(reader.problems)
    return settings


def _syntax_error(message: str, text: str, file: str) -> str:
    found = SYNTAX.search(message)
    line = int(found[1]) if found and found[1] else text.removesuffix("\n").count("\n") + 1
    column = f", column {found[2]}" if found and found[2] else ""
    return f"{file}:{line}: not TOML: {SYNTAX.sub('', message)}{column}"


class _Reader:
    """Turns tables into values, and collects the problems of all tables."""

    def __init__(self, file: str, lines: Lines) -> None:
        self._file, self._lines = file, lines
        self._found: list[tuple[int, str]] = []

    @property
    def problems(self) -> list[str]:
        return [f"{self._file}:{line}: {text}" if line else f"{self._file}: {text}" for line, text in sorted(self._found)]

    def section(self, kind: type[Any], table: object, where: Where, default: object = None) -> Any:
        """The table as a `kind`; None if it has problems. Settings that the table lacks are as in `default`."""
        table, before = short(kind, table), len(self._found)
        if not isinstance(table, Mapping):
            self._problem(where, f"{dotted(where)}={shown(table)}: must be a table")
            return None
        values = self._values(kind, table, where)
        if len(self._found) > before:
            return None
        try:
            return attrs.evolve(default, **values) if isinstance(default, kind) else kind(**values)
        except ConfigError as error:
            self._add(kind, where, error)
        return None

    def _values(self, kind: type[Any], table: Mapping[str, Any], where: Where) -> dict[str, Any]:
        fields = {name: field for name, field in attrs.fields_dict(kind).items() if SECTION in field.metadata or field.validator}
        values: dict[str, Any] = {}
        if kind is TopicsSettings:  # each table in [topics] is a topic, except `default`
            topics = {key: value for key, value in table.items() if isinstance(value, Mapping) and key != "default"}
            values["named"] = self._topics(topics, where)
            table = {key: value for key, value in table.items() if key not in topics}
        rest = {key: value for key, value in table.items() if key not in fields}
        for name, field in fields.items():
            if name in table:
                values[name] = self._value(kind, field, table[name], (*where, name))
            elif field.default is attrs.NOTHING:
                self._problem((*where, name), f"{dotted((*where, name))} is missing: {field.metadata['doc']}")
        if kind is AgentSettings:
            values["kafka"] = self._kafka(rest.pop("kafka", None))
        for key in rest:
            way_out = _quoted_topic((*where, key), table[key]) if kind is TopicSettings else None
            self._problem((*where, key), f"{dotted((*where, key))}: unknown key; {way_out or hint(key, kind, where)}")
        return values

    def _value(self, kind: type[Any], field: attrs.Attribute[Any], value: Any, where: Where) -> Any:
        if (inner := field.metadata.get(SECTION)) is not None:
            return self.section(inner, value, where, field.default)
        # Each value is checked separately, so a wrong value does not hide the problems of other values.
        try:
            made = value if field.converter is None else field.converter(value)  # type: ignore[operator]
            if field.validator is not None:
                field.validator(None, field, made)
        except ConfigError as error:
            self._add(kind, where[:-1], error)
        return value

    def _topics(self, tables: Mapping[str, Any], where: Where) -> dict[str, TopicSettings]:
        return {key: self.section(TopicSettings, each, (*where, key)) for key, each in tables.items()}

    def _kafka(self, table: object) -> dict[str, Any]:
        if not isinstance(table, Mapping):
            missing = "is missing: it has the producer's options" if table is None else "must be a table with the producer's options"
            self._problem(("kafka",), f'[kafka] {missing}, at least bootstrap_servers = "host:9092"')
            return {}
        options, problems = kafka.options_of(table)
        for where, text in problems:
            self._problem(("kafka", *where), text)
        return options

    def _add(self, kind: type[Any], where: Where, error: ConfigError) -> None:
        """Add an error of the table `where`. The error's text begins with a key, unless the error concerns the table itself."""
        text = str(error)
        found = KEY.match(text)
        name = found[0] if found and found[0] in attrs.fields_dict(kind) else None
        self._problem(
            (*where, name) if name else where, ".".join([*filter(None, [dotted(where)]), text]) if name else f"{dotted(where)}: {text}"
        )

    def _problem(self, where: Where, text: str) -> None:
        self._found.append((self._lines.find(where) or 0, text))


def dotted(where: Where) -> str:
    """The keys, with quotes where TOML needs them: `topics."my topic".linger_ms`."""
    # The escapes that `json.dumps` writes are also TOML's.
    return ".".join(key if KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False) for key in where)


def hint(key: str, kind: type[Any], where: Where) -> str:
    known = [name for name in attrs.fields_dict(kind) if name != "named"]
    plain = key.replace("-", "_").replace(".", "_").lower()
    near = [plain] if plain in known else difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    if plain in attrs.fields_dict(AgentSettings):
        return f"[{plain}] is a table of its own; as a key it must come before the first table"
    others = [f"[{dotted(path)}]" for path, other, _ in sections() if other is not kind and plain in attrs.fields_dict(other)]
    if others:
        return f"it is a key of {' and '.join(others)}"
    return f"{f'[{dotted(where)}]' if where else 'the file'} has {', '.join(known)}"


def _quoted_topic(where: Where, value: object) -> str | None:
    """The way out for `[topics.page.views]`, which TOML reads as a table `views` in a topic `page`."""
    if len(where) < 3 or where[0] != "topics" or not isinstance(value, Mapping):
        return None
    return f"a topic with dots is quoted: [{dotted(('topics', '.'.join(where[1:])))}]"


def sections(kind: type[Any] = AgentSettings, where: Where = (), default: object = None) -> list[tuple[Where, type[Any], object]]:
    """The tables of the file, without [kafka] and the tables of named topics; the file itself first: (keys, class, default)."""
    inner = [((*where, name), field) for name, field in attrs.fields_dict(kind).items() if SECTION in field.metadata]
    return [(where, kind, default)] + [each for path, field in inner for each in sections(field.metadata[SECTION], path, field.default)]
