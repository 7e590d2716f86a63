"""Reads profiles, which name clusters, from the user's file. Invariant: an error names the file and, if it is known, the profile, but
shows no value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

__all__ = ["DEFAULT", "profile", "profiles", "profiles_file"]

DEFAULT: Final = "default"  # the profile for commands that name no cluster


def profiles_file() -> Path:
    """`~/.config/pykafka4/profiles.toml`, with `$XDG_CONFIG_HOME` instead of `~/.config` if it is set."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "pykafka4" / "profiles.toml"


def profiles() -> dict[str, dict[str, str]]:
    """The properties of each profile; an empty dict without a file. Raises click.UsageError."""
    import tomllib  # imported here: most command lines name the cluster themselves

    path = profiles_file()
    try:
        found = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"{path}: cannot be read: {error}") from None
    for name, content in found.items():
        if not isinstance(content, dict):
            raise click.UsageError(f"{path}: {name} is outside of a profile; write [{DEFAULT}], or [NAME] for another profile, above it")
    return {name: dict(_flat(path, f"[{name}] ", content)) for name, content in found.items()}


def profile(name: str) -> dict[str, str]:
    known = profiles()
    if name not in known:
        have = f"it has {', '.join(known)}" if known else "there is none yet"
        raise click.UsageError(
            f"{profiles_file()} has no profile {name!r}; {have}. A profile: [{name}] and bootstrap.servers = 'host:9092'"
        )
    return known[name]


def _flat(path: Path, place: str, content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """TOML reads `sasl.mechanism = …` as a table in a table, so dots join the names again."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(path, place, value, f"{prefix}{key}.")
        elif isinstance(value, bool):  # before the check for int, because a bool is an int
            yield prefix + key, str(value).lower()
        elif isinstance(value, (str, int, float)):
            yield prefix + key, str(value)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield prefix + key, ",".join(value)
        else:
            raise click.UsageError(f"{path}: {place}{prefix}{key}: must be a text, a number, true, false, or a list of texts")
