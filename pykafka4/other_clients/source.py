"""Reads properties from a file in the format of java.util.Properties, or from a mapping. Invariant: the text of a property shows no value
if the property's name matches SECRET."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown, with_article

__all__ = ["LARGEST_FILE", "Properties", "Property", "read"]

Properties: TypeAlias = str | os.PathLike[str] | Mapping[str, str | int | float | bool | None]

LARGEST_FILE: Final = 2**20  # bytes; a larger file is not a file of client properties
CONTENT: Final = re.compile(r"[=\n]|\w\w\s*:")  # in the text of a property, but hardly in a path; C:\ is a path
LINE_END: Final = re.compile(r"\r\n|\r|\n")
SECRET: Final = re.compile("user.?name|password|passphrase|jaas|key|token|secret|pem|certificate|credential|user.info|proxy", re.IGNORECASE)


@attrs.frozen
class Property:
    """A property, and its place in the source. `str` gives `name='value'`, or only the name if the name matches SECRET."""

    name: str
    value: Any = attrs.field(repr=False)
    where: str  # "client.properties, line 3", or "the mapping"

    def __str__(self) -> str:
        return self.name if self.secret else f"{self.name}={shown(self.value)}"

    @property
    def option_name(self) -> str:
        return self.name.replace(".", "_")

    @property
    def secret(self) -> bool:
        return SECRET.search(self.name) is not None

    @property
    def empty(self) -> bool:
        """An empty property leaves the default, except in `security._check_hostname`."""
        return self.value is None or (isinstance(self.value, str) and not self.value.strip())

    def text(self) -> str:
        if isinstance(self.value, bool) or not isinstance(self.value, (str, int, float)):
            raise self.error(f"must be text, not a {type(self.value).__name__}")
        return str.__str__(self.value) if isinstance(self.value, str) else str(self.value)

    def error(self, why: str) -> ConfigError:
        """The message has the place, the name, the reason, and the value unless the name matches SECRET."""
        return ConfigError(f"{self.where}: {self}: {why}")


def read(source: Properties) -> Iterator[Property]:
    """The properties of a file or mapping, in the source's order. Raises ConfigError, TypeError, OSError."""
    if isinstance(source, Mapping):
        return (_of_mapping(name, value) for name, value in source.items())
    if isinstance(source, (str, os.PathLike)):
        return _of_file(Path(source))
    raise TypeError(f"expected the path of a .properties file, or a mapping of names to values, not {with_article(type(source).__name__)}")


def _of_mapping(name: object, value: object) -> Property:
    if not isinstance(name, str):
        raise TypeError(f"the mapping: a name must be a str, not {shown(name)}")
    return Property(str.__str__(name), value, "the mapping")


def _of_file(path: Path) -> Iterator[Property]:
    from javaproperties import InvalidUEscapeError, KeyValue, parse  # imported here: few applications read such files

    elements, line = parse(_content(path)), 1
    while True:
        try:
            element = next(elements, None)
        except InvalidUEscapeError:  # its message has a part of the value, so the error must not become a `__context__`
            break
        if element is None:
            return
        if isinstance(element, KeyValue):
            yield Property(element.key, element.value.strip(), f"{path}, line {line}")
        line += len(LINE_END.findall(element.source))
    raise ConfigError(f"{path}, line {line}: \\u needs four hexadecimal digits; write \\\\ for a backslash")


def _content(path: Path) -> str:
    """The text of the file, read as UTF-8 if that is possible, otherwise as ISO-8859-1.

    Java reads ISO-8859-1, editors write UTF-8, and non-ASCII text in ISO-8859-1 is hardly ever valid UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError):
        if CONTENT.search(str(path)) is None:
            raise
        data = None
    if data is None:  # `path` may be text with a password, so the error above must not become a `__context__`
        raise ConfigError("the argument is not the path of a readable file, but perhaps the content of a file: pass the path, or a dict")
    if len(data) > LARGEST_FILE:
        raise ConfigError(f"{path}: larger than {LARGEST_FILE:,} bytes, so it is not a file of properties")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")
