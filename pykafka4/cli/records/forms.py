"""Chooses the form in which `consume` writes records. A form turns a list of records into bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from pykafka4.cli.records.dump import dump_form
from pykafka4.cli.records.json_text import json_form
from pykafka4.cli.records.template import Form, Records, template_form

__all__ = ["Form", "Records", "form_of"]

OTHERS: Final[Mapping[str, Form]] = {"json": json_form, "hex": dump_form}
RAW: Final = "%s"


def form_of(wanted: Mapping[str, bool], template: str | None, separator: str | None, null: bool) -> Form:
    """The form that `wanted` or `template` names; otherwise lines of values, after keys if there is a `separator`. Raises
    click.UsageError."""
    named = [name for name, is_wanted in wanted.items() if is_wanted]
    options = [f"--{name}" for name in named] + ["--format"] * (template is not None) + ["--key-separator"] * (separator is not None)
    if len(options) > 1:
        raise click.UsageError(f"{' and '.join(options)} are different forms of a record: give one of them")
    if named and named[0] in OTHERS:
        return OTHERS[named[0]]
    if named:
        template = RAW
    elif template is None:
        template = r"%s\n" if separator is None else "%k" + separator.replace("%", "%%") + r"%s\n"
    return template_form(template, b"NULL" if null else b"")
