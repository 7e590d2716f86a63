"""Renders docs/agent-settings.md from `pykafka4.agent.settings.values`, as a part of `python -m tools.options`."""

from __future__ import annotations

from enum import Enum
from typing import Any

import attrs

from pykafka4.agent.settings.fields import KIB, LIVE, MIB, SECTION
from pykafka4.agent.settings.file import sections
from pykafka4.agent.settings.kafka import ELSEWHERE
from tools.rendered import ROOT

__all__ = ["PAGE", "render"]

PAGE = ROOT / "docs" / "agent-settings.md"
INTRODUCTION = """# Settings of the agent

<!-- Rendered from `pykafka4/agent/settings/values.py` by `make options`: change the settings there. -->

The headings name the tables of the agent's TOML file ([the agent](guide/agent.md)). `pykafka4 agent --config FILE --check` checks a file,
and names all its errors with their lines.

* Sizes are numbers of bytes, or text: `"64k"`, `"128MiB"`, `"1GiB"`; k means 1,024.
* A table in which only the path is set can be written as that path: `spool = "/var/spool/pykafka4"`.
* *reload* marks the settings that SIGHUP changes; other settings need a restart.
"""
KAFKA = """
## [kafka]

Options of the producer, under their own names ([options](options.md#producer), [security](options.md#security)), or under the dotted
names of librdkafka's and Java's clients ([properties](guide/properties.md)). `bootstrap_servers` is required. Values of secrets are
never shown. If `delivery_timeout_ms` is not set, it is as long as possible: messages wait for their cluster while there is room for them.

These options are set elsewhere, or belong to the agent:

| option | instead |
|---|---|
"""
LIVE_TABLES = {
    field.metadata[SECTION]
    for _, kind, _ in sections()
    for field in attrs.fields(kind)
    if SECTION in field.metadata and field.metadata.get(LIVE)
}


def render() -> str:
    text, done = INTRODUCTION, set()
    for _, kind, _ in sections()[1:]:
        if kind not in done:
            done.add(kind)
            places = [(where, default) for where, each, default in sections() if each is kind]
            text += f"\n## {' and '.join(title(where) for where, _ in places)}\n\n{meaning(kind)}\n\n{table(kind, places[0][1])}\n"
    return text + KAFKA + "".join(f"| `{name}` | {reason} |\n" for name, reason in ELSEWHERE.items())


def title(where: tuple[str, ...]) -> str:
    return f"[{'.'.join(where)}]" + (' and [topics."name"]' if where == ("topics", "default") else "")


def meaning(kind: type[Any]) -> str:
    return (kind.__doc__ or "").split("\n\n")[0]


def table(kind: type[Any], defaults: object) -> str:
    """Without tables among the settings. `defaults`, if it is of this class, has the defaults of the file."""
    rows = ["| setting | default | unit | range | reload | meaning |", "|---|---|---|---|---|---|"]
    for field in attrs.fields(kind):
        if SECTION not in field.metadata and "range" in field.metadata:
            live = "yes" if field.metadata[LIVE] or kind in LIVE_TABLES else ""
            unit, span = field.metadata["unit"], field.metadata["range"].replace("|", "\\|")
            value = getattr(defaults, field.name) if isinstance(defaults, kind) else field.default
            rows.append(f"| `{field.name}` | {shown(value, unit)} | {unit} | {span} | {live} | {meant(field)} |")
    return "\n".join(rows)


def meant(field: attrs.Attribute[Any]) -> str:
    """The meaning of a setting, in the words of TOML, which has no None."""
    return str(field.metadata["doc"]).replace("None:", "Not set:")


def shown(value: Any, unit: str) -> str:
    """A default in the form that the file has."""
    if value is attrs.NOTHING:
        return "required"
    if value in (None, ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, Enum):
        return f'`"{value.value}"`'
    if unit == "bytes" and value % KIB == 0:
        return f'`"{value // MIB}MiB"`' if value % MIB == 0 else f'`"{value // KIB}KiB"`'
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
