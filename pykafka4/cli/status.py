"""Shows the findings of a diagnosis: `status`. The exit code is 0 only if no finding has the outcome WRONG, or if a
reader closes the pipe. A diagnosis that leaves out steps for lack of time has a WRONG finding."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import attrs
import click
from rich.console import Console
from rich.text import Text

from pykafka4.cli.invocation import DONE, FAILED, Invocation
from pykafka4.cli.show import cell_text, console, print_json
from pykafka4.diagnosis.steps import NOT_LOOKED, diagnose
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors import listed
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import Properties, translate

__all__ = ["status"]

DEFAULT_S: Final = 30.0
MARK_WIDTH, STEP_WIDTH = 3, 11
LEAST_WIDTH: Final = 20  # columns for the text; a narrower terminal folds the lines itself
MARKS: Final = {Outcome.FINE: "✓", Outcome.NOTICE: "!", Outcome.WRONG: "✗", Outcome.UNSEEN: "?"}
WORDS: Final = {Outcome.FINE: "ok", Outcome.NOTICE: "!", Outcome.WRONG: "XX", Outcome.UNSEEN: "?"}  # if the encoding lacks the signs
STYLES: Final = {Outcome.FINE: "green", Outcome.NOTICE: "yellow", Outcome.WRONG: "bold red", Outcome.UNSEEN: "dim"}


@click.command(
    epilog="""\b
Examples:
  pykafka4 status -b kafka1:9092
  pykafka4 status -c client.properties --topic orders --group billing
  pykafka4 status -b kafka1:9092 --json | jq 'select(.outcome == "wrong")'
""",
)
@click.option("--topic", "topics", multiple=True, help="Check this topic, and your rights to it. Can be repeated.")
@click.option("--group", "groups", multiple=True, help="Check this group: members, lag, rights. Can be repeated.")
@click.option("--json", "json_", is_flag=True, help="JSON, one finding a line.")
@click.pass_obj
def status(invocation: Invocation, topics: tuple[str, ...], groups: tuple[str, ...], json_: bool) -> int:
    """Find out why nothing flows: names, ports, TLS, logins, listeners, the controller and its clock, leaders, replicas, groups.

    Causes come first. Nothing is changed. The command ends within --timeout, 30 seconds by default. Exit code 1: something is wrong.
    """
    logging.getLogger("pykafka4").addHandler(logging.NullHandler())  # the findings have the errors that the client would log
    limit = DEFAULT_S if invocation.timeout is None else invocation.timeout
    found = diagnose(invocation.make(_merged, ClientConfig, {}), topics=topics, groups=groups, timeout=limit)
    return _as_lines(found) if json_ else _as_page(found, console())


def _merged(source: Properties, **given: Any) -> dict[str, Any]:
    return {**translate(ClientConfig, source, given).options, **given}


def _as_lines(findings: Iterable[Finding]) -> int:
    code = DONE
    for finding in findings:
        print_json({**attrs.asdict(finding), "outcome": finding.outcome.value})
        code = max(code, _code(finding))
    return code


def _code(finding: Finding) -> int:
    return FAILED if finding.outcome is Outcome.WRONG else DONE


def _as_page(findings: Iterable[Finding], out: Console) -> int:
    """Show the findings while the diagnosis runs."""
    wrong = 0
    with out.status("looking …") if out.is_terminal else out:
        for same in _alike(findings):
            for line in _lines(same, out):
                out.print(line, soft_wrap=True)
            wrong += sum(map(_code, same))
    words = "nothing is wrong" if not wrong else "one thing is wrong" if wrong == 1 else f"{wrong} things are wrong: begin with the first"
    out.print(Text(words, style=STYLES[Outcome.WRONG if wrong else Outcome.FINE]))
    return FAILED if wrong else DONE


def _alike(findings: Iterable[Finding]) -> Iterator[list[Finding]]:
    """Put consecutive findings into one row if they are fine in the same way, or if their steps were not carried out."""
    for _, group in groupby(findings, lambda one: (one.step, one.what) if one.outcome is Outcome.FINE else one.what == NOT_LOOKED or one):
        yield list(group)


def _lines(same: list[Finding], out: Console) -> Iterator[Text]:
    """Yield lines: mark and step, then the folded text in its own column; a pipe gets whole lines."""
    first, (marks, arrow) = same[0], (MARKS, "→ ") if _has_signs() else (WORDS, "-> ")
    is_late = first.what == NOT_LOOKED
    text = Text(f"{NOT_LOOKED}: {', '.join(one.step for one in same)}", style="dim") if is_late else _text(same, arrow)
    beside = Text.assemble(
        (f"{marks[first.outcome]:<{MARK_WIDTH}}", STYLES[first.outcome]), f"{'' if is_late else first.step:<{STEP_WIDTH}}"
    )
    for line in text.wrap(out, max(LEAST_WIDTH, out.width - len(beside))):
        line.rstrip()
        yield Text.assemble(beside, line)
        beside = Text(" " * len(beside))


def _text(same: list[Finding], arrow: str) -> Text:
    first, text = same[0], Text()
    if first.about:
        text.append(f"{listed(same, lambda one: cell_text(one.about))}: ", style="bold")
    text.append(cell_text(first.what))
    if first.outcome is Outcome.FINE:
        return text.append(f" ({cell_text(first.evidence)})" if first.evidence and len(same) == 1 else "", style="dim")
    text.append(f"\n{cell_text(first.evidence)}" if first.evidence else "", style="dim")
    return text.append(f"\n{arrow}{cell_text(first.way_out)}" if first.way_out else "", style="cyan")


def _has_signs() -> bool:
    try:
        "✗→".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
