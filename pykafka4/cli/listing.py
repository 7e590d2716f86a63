"""Defines the options `--json` and `--execute`, and prints lists: as a table, or as one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from pykafka4.cli.show import console, print_json, table

__all__ = ["as_json_option", "execute_option", "print_rows"]

as_json_option = click.option("--json", "json_", is_flag=True, help="One JSON object a line instead of a table.")
execute_option = click.option("--execute", is_flag=True, help="Execute the plan. Without this option the command only shows the plan.")


def print_rows(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], json_: bool, names: Sequence[str] = ()) -> None:
    """Print rows on standard output. A table has only `columns`, with `names` as headings if given; JSON has the complete rows."""
    chosen = tuple(columns)
    if json_:
        print_json(*map(dict, rows))
    else:
        console().print(table(names or chosen, [[row[column] for column in chosen] for row in rows]))
