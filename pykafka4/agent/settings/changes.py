"""Finds the settings that differ between two files, and marks settings that a running agent can change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from pykafka4.agent.settings.fields import LIVE
from pykafka4.agent.settings.file import dotted
from pykafka4.agent.settings.values import AgentSettings, TopicSettings

__all__ = ["Change", "changes", "with_live_changes"]

UNSET = TopicSettings()  # a topic without a table
ORDER: Final = "topics (the order of its patterns)"


@attrs.frozen
class Change:
    """A setting that differs between two files. `live`: a running agent can change it. `key` is the dotted key, or ORDER."""

    key: str
    live: bool


def changes(old: AgentSettings, new: AgentSettings) -> list[Change]:
    """The settings that differ. The order of patterns is also a setting, because the first matching pattern applies."""
    reordered = _patterns(old, new) != _patterns(new, old)
    return _changes(old, new, (), False) + [Change(ORDER, False)] * reordered


def with_live_changes(old: AgentSettings, new: AgentSettings) -> AgentSettings:
    """The settings `old`, with the settings of `new` that a running agent can change."""
    settings: AgentSettings = _merged(old, new)
    return settings


def _patterns(settings: AgentSettings, other: AgentSettings) -> list[str]:
    """The patterns of `settings` that `other` has too. A table with the exact name of a topic applies wherever it is in the file."""
    return [name for name in settings.topics.named if name in other.topics.named and not {*name}.isdisjoint("*?[")]


def _changes(old: Any, new: Any, where: tuple[str, ...], live: bool) -> list[Change]:
    if old == new:
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        unset = UNSET if where == ("topics",) else None
        found = []
        for name in sorted({*old, *new}):
            each = _changes(old.get(name, unset), new.get(name, unset), (*where, name), live)
            # An empty table of a topic is also a change: while a topic has a table, no pattern applies to the topic.
            found += each or [Change(dotted((*where, name)), False)] * ((name in old) != (name in new))
        return found
    if attrs.has(type(old)) and type(old) is type(new):
        found = []
        for name, field in attrs.fields_dict(type(old)).items():
            place = where if name == "named" else (*where, name)  # in the file, named topics are tables of [topics] itself
            found += _changes(getattr(old, name), getattr(new, name), place, live or field.metadata.get(LIVE, False))
        return found
    return [Change(dotted(where), live)]


def _merged(old: Any, new: Any) -> Any:
    if (
        isinstance(old, Mapping)
        and isinstance(new, Mapping)
        and any(isinstance(each, TopicSettings) for each in (*old.values(), *new.values()))
    ):
        return _merged_topics(old, new)
    if not attrs.has(type(old)) or type(old) is not type(new):
        return old
    taken = {}
    for name, field in attrs.fields_dict(type(old)).items():
        before, after = getattr(old, name), getattr(new, name)
        taken[name] = after if field.metadata.get(LIVE) else _merged(before, after)
    return attrs.evolve(old, **taken)


def _merged_topics(old: Mapping[str, TopicSettings], new: Mapping[str, TopicSettings]) -> dict[str, TopicSettings]:
    """A topic gets or loses its table only with a live change. Otherwise the limit of a pattern would end or begin at once, although the
    log says that the change needs a restart. A new table comes directly before the table that follows it in the file, because the first
    matching pattern applies."""
    order = list(old)
    following = None
    for name in reversed([*new]):
        if name not in old:
            order.insert(len(order) if following is None else order.index(following), name)
        following = name
    merged = {}
    for name in order:
        before = old.get(name, UNSET)
        after: TopicSettings = _merged(before, new.get(name, UNSET))
        if name in old if after == before else name in new or after != UNSET:
            merged[name] = after
    return merged
