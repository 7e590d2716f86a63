"""The settings that differ between two files, and whether a running agent can change them."""

from __future__ import annotations

from typing import Any

import attrs

from pykafka4.agent.settings.fields import LIVE
from pykafka4.agent.settings.file import dotted
from pykafka4.agent.settings.values import AgentSettings

__all__ = ["Change", "changes"]


@attrs.frozen
class Change:
    """A setting that differs. `live`: a running agent can change it."""

    key: str
    live: bool


def changes(old: AgentSettings, new: AgentSettings) -> list[Change]:
    """The settings that differ, by their dotted keys, in the order of the schema."""
    return _changes(old, new, (), False)


def _changes(old: Any, new: Any, where: tuple[str, ...], live: bool) -> list[Change]:
    if old == new:
        return []
    if attrs.has(type(old)) and type(old) is type(new):
        fields = attrs.fields_dict(type(old)).items()
        rows = [(name, getattr(old, name), getattr(new, name), bool(field.metadata.get(LIVE, live))) for name, field in fields]
    elif isinstance(old, dict) and isinstance(new, dict):
        rows = [(name, old.get(name), new.get(name), live) for name in sorted({*old, *new})]
    else:
        return [Change(dotted(where), live)]
    return [change for name, before, after, each in rows for change in _changes(before, after, _place(where, name), each)]


def _place(where: tuple[str, ...], name: str) -> tuple[str, ...]:
    """`named` is no key of the file: its topics are tables of [topics] themselves."""
    return where if where == ("topics",) and name == "named" else (*where, name)
