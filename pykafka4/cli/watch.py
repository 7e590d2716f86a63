"""Shows the status page of a running client in the terminal: `pykafka4 watch`. Invariant: no text of a page is shown with its control
characters."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from pykafka4.cli.invocation import DONE, FAILED, show_error, show_note
from pykafka4.cli.show import cell_text, console, print_json, table
from pykafka4.net.transport import explain
from pykafka4.pages.processes import Process, folder, serving

__all__ = ["watch"]

ANSWER_S: Final = 20.0
EVERY_S: Final = 1.0
MOST_BYTES: Final = 1 << 23  # the most bytes of a page
LINES_AROUND: Final = 14  # lines above and below the partitions: headline, rates, brokers and titles
LEAST_NAME: Final = 24  # columns for the name of a partition
STYLES: Final = {"ok": "green", "warning": "yellow", "trouble": "bold red"}
BARS: Final = " ▁▂▃▄▅▆▇█"
BAD: Final = ("offline", "stopped")
HIDDEN: Final = ("queued_bytes", "leader", "last_error")  # columns without room on a narrow terminal
TEXTS: Final = ("name", "state", "last_error")
NAMES: Final = {"name": "partition", "since_s": "for", "oldest_s": "oldest", "in_flight": "in flight", "fetched_from": "from"}


class NoPage(OSError):
    """Raised if there is no page to show: the process does not respond, or serves none."""


@click.command(
    epilog="""\b
Examples:
  pykafka4 watch   the processes that serve a page
  pykafka4 watch --pid 4711
  pykafka4 watch --url http://127.0.0.1:8080/ --json | jq .headline
"""
)
@click.option("--url", help="The page's address: serve_status().url in the program.")
@click.option("--pid", type=int, help="A process of yours that serves a page.")
@click.option("--filter", "words", default="", help="Only partitions with this text in their names.")
@click.option("--once", is_flag=True, help="Show the page once.")
@click.option("--json", "is_json", is_flag=True, help="One JSON document a line, one a second (with --once: only one).")
def watch(url: str | None, pid: int | None, words: str, once: bool, is_json: bool) -> int:
    """Watch a running producer or consumer: do records flow, and if not, why?

    The program itself opens the page, with client.serve_status(). Without --url and --pid, the command lists the processes that serve
    pages. Ctrl-C ends the command.
    """
    if url is not None and pid is not None:
        raise click.UsageError("give --url or --pid, not both")
    if url is None and pid is None:
        return _list(is_json)
    address = url if url is not None else _address_of(pid or 0)
    if not address.startswith(("http://", "https://")):
        raise click.UsageError(f"--url {cell_text(address)}: must begin with http:// or https://")
    page = Page(address, words)
    if is_json:
        return _print_json(page, once)
    screen = console()
    if once or not screen.is_terminal:
        screen.print(_picture(page.read(20), screen, 20))
        return DONE
    return _live(page, screen)


# ---------------------------------------------------------------- pages


class Page:
    def __init__(self, url: str, words: str) -> None:
        self._url, self._words = url.rstrip("/"), words
        # The environment's proxy is not used, because 127.0.0.1 would then be the proxy's machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def read(self, most: int) -> dict[str, Any]:
        """Fetch the current figures, with up to `most` partitions. Raises NoPage."""
        query = urllib.parse.urlencode({"most": most, "filter": self._words})
        try:
            with self._opener.open(f"{self._url}/status.json?{query}", timeout=ANSWER_S) as answer:
                found: Any = json.loads(answer.read(MOST_BYTES))
        except urllib.error.HTTPError as error:
            raise NoPage(f"{self._url}: {cell_text(error.read(500).decode(errors='replace').strip())}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise NoPage(f"{self._url}: shows no status page ({_why(error)}); is the client closed, or has its process ended?") from None
        if not isinstance(found, dict) or "headline" not in found:
            raise NoPage(f"{self._url}: is not the status page of a client")
        return found


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return cell_text(explain(reason) if isinstance(reason, OSError | http.client.HTTPException) else error)


def _address_of(pid: int) -> str:
    found = next((process for process in serving() if process.pid == pid), None)
    if found is None or not found.pages:
        raise NoPage(f"process {pid} serves no page that {folder()} names; in the program: client.serve_status()")
    for page in found.pages[1:]:
        show_note(f"process {pid} also has {page['url']} ({page['kind']} {page['client_id']}); watch it with --url")
    return found.pages[0]["url"]


def _list(is_json: bool) -> int:
    found = serving()
    if is_json:
        for process in found:
            print_json({"pid": process.pid, "program": process.program, "since": process.since, "pages": list(process.pages)})
        return DONE
    if not found:
        show_note("No process of yours serves a status page. In the program: client.serve_status()")
        return DONE
    rows = [row for process in found for row in _rows_of(process)]
    console().print(table(("pid", "program", "class", "client", "url"), rows))
    return DONE


def _rows_of(process: Process) -> list[tuple[object, ...]]:
    return [(process.pid, process.program, page["kind"], page["client_id"], page["url"]) for page in process.pages]


def _print_json(page: Page, once: bool) -> int:
    while True:
        print_json(page.read(100))
        if once:
            return DONE
        time.sleep(EVERY_S)


# ---------------------------------------------------------------- the picture


def _live(page: Page, screen: Console) -> int:
    """Show the page until Ctrl-C, or until it cannot be read; the last picture stays."""
    most = max(3, screen.size.height - LINES_AROUND)
    picture = _picture(page.read(most), screen, most)
    with Live(picture, console=screen, auto_refresh=False, screen=False, vertical_overflow="crop") as live:
        while True:
            time.sleep(EVERY_S)
            most = max(3, screen.size.height - LINES_AROUND)
            try:
                live.update(_picture(page.read(most), screen, most), refresh=True)
            except NoPage as error:
                live.stop()
                show_error(error)
                return FAILED


def _picture(data: dict[str, Any], screen: Console, most: int) -> RenderableType:
    """Draw a page: headline, rates, membership, brokers, and up to `most` partitions."""
    headline = data["headline"]
    style = STYLES.get(headline["level"], "")
    since = "" if headline["since"] is None else f", for {_duration(data['at'] - headline['since'])}"
    parts: list[RenderableType] = [
        Text(
            f"{cell_text(data['kind'])} {cell_text(data['client_id'])}, {cell_text(data['program'])}, process {cell_text(data['pid'])}",
            style="dim",
        ),
        Text(f"● {cell_text(headline['text'])}{since}", style=style),
        *(Text(f"  {cell_text(line)}") for line in headline["details"][:3]),
        *_rates(data["rates"], screen.width),
    ]
    if data["member"]:
        member = data["member"]
        words = [
            f"{name} {cell_text(member[name])}" for name in ("group_id", "state", "generation", "epoch", "coordinator") if name in member
        ]
        parts.append(Text("  ".join(words), style="dim"))
    parts += [Text(), _brokers(data["brokers"]["rows"], screen.width)]
    if data["partitions"]["rows"]:
        parts += [Text(), _partitions(data["partitions"], screen.width, most)]
    return Group(*parts)


def _rates(rates: dict[str, Any], width: int) -> list[RenderableType]:
    found: list[RenderableType] = []
    top = max((value or 0.0 for name in rates["names"] for value in rates[name]), default=0.0) or 1.0
    for name in rates["names"]:
        values = rates[name][-min(60, max(10, width - 40)) :]
        bars = "".join(" " if value is None else BARS[min(8, round(value / top * 8))] for value in values)
        unit = f"{rates['now'][name]:>14,.0f} {'B/s' if name.endswith('bytes') else '/s '}"
        found.append(Text.assemble((f"{cell_text(name.removesuffix('_bytes')):<12} {unit} ", ""), (bars, "blue")))
    return found


def _brokers(rows: list[dict[str, Any]], width: int) -> RenderableType:
    found = RichTable(box=None, pad_edge=False, header_style="bold", width=None)
    for name in ("broker", "address", "state", "in flight"):
        found.add_column(name, no_wrap=name != "state", justify="right" if name == "in flight" else "left")
    for row in rows[:10]:
        node = "bootstrap" if row["node"] is None or row["node"] < 0 else str(row["node"])
        state = row["error"] or row["state"]
        found.add_row(node, cell_text(row["address"]), cell_text(state), cell_text(row["in_flight"]), style="red" if row["error"] else "")
    return found


def _partitions(partitions: dict[str, Any], width: int, most: int) -> RenderableType:
    """The columns depend on the width; offline and stopped partitions are red."""
    columns = [name for name in partitions["columns"] if name != "reason" and (width >= 120 or name not in HIDDEN)]
    at = {name: place for place, name in enumerate(partitions["columns"])}
    found = RichTable(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        found.add_column(NAMES.get(name, cell_text(name.replace("_", " "))), justify="left" if name in TEXTS else "right", no_wrap=True)
    found.add_column("reason", no_wrap=True, overflow="ellipsis")
    room = max(LEAST_NAME, width // 3)
    for row in partitions["rows"][:most]:
        cells = [_cell(name, row[at[name]]) for name in columns]
        cells[0] = _end(cells[0], room)
        found.add_row(*cells, cell_text(row[at["reason"]] or ""), style="red" if row[at["state"]] in BAD else "")
    rest = partitions["found"] - len(partitions["rows"][:most])
    return Group(found, Text(f"{rest:,} more", style="dim")) if rest > 0 else found


def _end(name: str, room: int) -> str:
    """Shorten a name at its beginning, because its end has the partition's number."""
    return name if len(name) <= room else f"…{name[1 - room :]}"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("since_s", "oldest_s"):
        return _duration(value)
    return f"{value:,}" if isinstance(value, int) else cell_text(value)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min {seconds % 60:.0f} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
