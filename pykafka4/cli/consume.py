"""Writes the records of topics to standard output: `consume`. Invariant: a group commits only records that were written or
filtered out."""

from __future__ import annotations

import sys
from typing import Any, Final

import attrs
import click

from pykafka4.cli.invocation import DONE, FAILED, Invocation, show_error
from pykafka4.cli.records.extents import ExtentOptions, extent_options
from pykafka4.cli.records.filters import Chosen, chosen_by
from pykafka4.cli.records.forms import Form, Records, form_of
from pykafka4.cli.records.output import standard_output
from pykafka4.cli.records.progress import Meter
from pykafka4.cli.records.reading import Reading, opened
from pykafka4.consumer.reading.forms import ListForm

__all__ = ["consume"]

MOST: Final = 2_000  # records in a list; a longer list may not fit into the CPU's caches


@click.command(
    short_help="Write the records of topics to standard output.",
    epilog="""\b
Examples:
  pykafka4 consume orders                             values as lines
  pykafka4 consume orders --follow --from latest      new records, as they come
  pykafka4 consume orders --from -1h --json | jq .value
  pykafka4 consume orders -f '%t-%p %o %T %k: %s\\n' --limit 10
  pykafka4 consume orders --group billing >> log      continues at the group's offsets
""",
)
@extent_options(done="read", group="Read as a member of this group, and commit the offsets of the written records.")
@click.option("-f", "--format", "template", metavar="TEMPLATE", help=r"Template as in kcat: %t %p %o %T %k %K %s %S %R %h %% \n \t \x41.")
@click.option("-J", "--json", "json_", is_flag=True, help="One JSON object a line; bytes that are not UTF-8 are base64.")
@click.option("--hex", "hex_", is_flag=True, help="A dump for people.")
@click.option("--raw", is_flag=True, help="Values, with nothing between them.")
@click.option("-K", "--key-separator", metavar="TEXT", help="Write lines of the key, then this text, then the value.")
@click.option("-Z", "--null", is_flag=True, help="Write NULL for a null key or value.")
@click.option("-k", "--key", "keys", multiple=True, metavar="KEY", help="Only records with this key. Can be repeated.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header. Can be repeated.")
@click.option("-n", "--limit", type=click.IntRange(0), metavar="N", help="At most this many records.")
@click.pass_obj
def consume(
    invocation: Invocation,
    /,
    extent: ExtentOptions,
    limit: int | None,
    keys: tuple[str, ...],
    headers: tuple[str, ...],
    **forms: Any,
) -> int:
    """Write records to standard output, by default the value of each as a line, and end where the topics end now.

    Without --group nothing is committed. Records of one partition are in order. Without --group and --follow, deleted records are
    reported, and make the exit code 1.
    """
    wanted = {"json": forms["json_"], "hex": forms["hex_"], "raw": forms["raw"]}
    form = form_of(wanted, forms["template"], forms["key_separator"], forms["null"])
    writing = Writing(chosen_by(keys, headers), form, limit)
    with (
        opened(invocation, extent) as (session, reading),
        Meter(" ".join(extent.topics), reading.total, shows=not sys.stdout.isatty()) as meter,
    ):
        writing.run(session.records, reading, meter)
    for loss in reading.losses:
        show_error(str(loss))
    return FAILED if reading.losses else DONE


@attrs.frozen
class Writing:
    chosen: Chosen
    form: Form
    limit: int | None

    def run(self, lists: ListForm, reading: Reading, meter: Meter) -> None:
        """Write lists up to the limit, each before requesting the next one: that request finishes the written records, which the group
        then commits.
        """
        write, left = standard_output(), float("inf") if self.limit is None else self.limit
        if left == 0:
            return
        for records in reading.lists(lists, int(min(MOST, left))):
            found = self.chosen(records)
            if len(found) >= left:  # a group must not finish the records after the limit
                found, rest = _cut(found, records, int(left))
                reading.give_back(rest)
            data = self.form(found)
            write(data)
            left -= len(found)
            if not left:
                return
            meter.advance(len(found), len(data), len(records))


def _cut(found: Records, records: Records, left: int) -> tuple[Records, Records]:
    """Return the first `left` records of `found`, and the part of `records` after them, which the group has to read again."""
    last = found[left - 1]
    at = next(number for number, record in enumerate(records) if record is last)
    return found[:left], records[at + 1 :]
