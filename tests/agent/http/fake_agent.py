"""An agent with invented figures, for tests of its pages. To look at the page: python -m tests.agent.http.fake_agent [port] [topics]."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from pykafka4.agent.account.values import Account, Discards, Repeats, Report, TopicAccount
from pykafka4.agent.http.look import AgentLook, InputState
from pykafka4.agent.http.server import PageServer
from pykafka4.agent.message import Reason, Source
from pykafka4.agent.settings.values import HttpSettings
from pykafka4.agent.spool.values import SpooledTopic, SpoolState

NAMES = ("clicks", "orders", "payments.settled", "audit", "page-views", "sensor.temperature", "mail.out", "search-queries")
WAIT_S = 10.0
MIB = 1024 * 1024


def partition(queued: int = 0, open_: int = 0, parked: int = 0, in_flight: int = 0, **more: Any) -> dict[str, Any]:
    """A row of `Producer.status()["partitions"]`."""
    row = {
        "state": "online",
        "since": None,
        "reason": None,
        "queued": queued,
        "queued_bytes": queued * 120,
        "open": open_,
        "parked": parked,
        "oldest_age": 0.4 if queued + in_flight else None,
        "in_flight": in_flight,
        "last_error": None,
        "last_error_age": None,
    }
    return {**row, **more}


def broker(node: int, error: str | None = None) -> dict[str, Any]:
    """A row of `Producer.status()["brokers"]`."""
    state = "ready" if error is None else "waiting"
    return {
        "node": node,
        "address": f"broker{node}.example:9092",
        "state": state,
        "in_flight": 1 if error is None else 0,
        "throttled_ms": 0,
        "error": error,
        "failures": 0 if error is None else 3,
    }


def status(**more: Any) -> dict[str, Any]:
    """`Producer.status()` of a cluster without trouble."""
    quiet = {
        "state": "connected",
        "reason": None,
        "cluster_id": "c1",
        "controller": 1,
        "brokers": [broker(1), broker(2), broker(3)],
        "metadata": {"age": 12.0, "changed": 60.0},
        "offline": {},
        "topics": {},
        "partitions": {},
        "producer": {},
    }
    return {**quiet, **more}


def account(topics: Mapping[str, TopicAccount], refused: Mapping[Reason, int] | None = None) -> Account:
    """An account whose total is the sum of the topics."""
    reasons: dict[Reason, int] = {}
    for row in topics.values():
        for reason, count in row.discards.by_reason.items():
            reasons[reason] = reasons.get(reason, 0) + count
    sums = {name: sum(getattr(row, name) for row in topics.values()) for name in ("accepted", "acknowledged", "queued", "spooled")}
    return Account(TopicAccount(**sums, discards=Discards(reasons)), topics, TopicAccount(0, 0, 0, 0), refused or {})


def topic(acknowledged: int, queued: int = 0, spooled: int = 0, discards: Discards | None = None) -> TopicAccount:
    """A row that balances."""
    lost = discards or Discards()
    return TopicAccount(acknowledged + queued + spooled + lost.count, acknowledged, queued, spooled, lost)


QUIET = AgentLook(1_000_000.0, account({}), status())


@attrs.define
class FakeAgent:
    """See WatchedAgent. `current` is what the next look finds, or the error that it raises."""

    current: AgentLook | Exception = QUIET
    version: str = "0.1.0"
    started_at: float = 999_000.5
    report_interval_s: float = 600.0
    counts: dict[str, int] = attrs.Factory(dict)
    unfinished: Report = attrs.Factory(lambda: Report(3, 1_000_000))
    finished: Report | None = None
    not_ready: str | None = None
    looks: int = 0
    refreshes: int = 0

    def look(self) -> AgentLook:
        self.looks += 1
        if isinstance(self.current, Exception):
            raise self.current
        return self.current

    def counters(self, account: Account) -> Mapping[str, int]:
        return self.counts

    def unfinished_report(self) -> Report:
        return self.unfinished

    def finished_report(self) -> Report | None:
        return self.finished

    def total_report(self) -> Report:
        return self.unfinished

    def refresh_metadata(self) -> None:
        self.refreshes += 1

    def unready(self) -> str | None:
        return self.not_ready


@attrs.define
class Served:
    """Pages that are served by a thread."""

    server: PageServer
    loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def serving(watched: Any, settings: HttpSettings | None = None, monotonic: Callable[[], float] = time.monotonic) -> Iterator[Served]:
    """Serve the pages of an agent on a free port, on a loop in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="pages", daemon=True)
    thread.start()
    server = PageServer(settings or HttpSettings(port=0), watched, monotonic)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(WAIT_S)
        yield Served(server, loop)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(WAIT_S)
        asyncio.run_coroutine_threadsafe(loop.shutdown_default_executor(), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WAIT_S)
        loop.close()


# ---------------------------------------------------------------- figures that move


@attrs.define
class LivelyAgent(FakeAgent):
    """Figures that change with time. `away_since` None: the cluster is there."""

    topics: int = len(NAMES)
    begun: float = attrs.Factory(time.time)
    away_since: float | None = None
    acknowledged_before: float = 0.0

    def look(self) -> AgentLook:
        self.looks += 1
        now = time.time()
        return look_at(now, now - self.begun, self.topics, None if self.away_since is None else now - self.away_since)


def look_at(now: float, seconds: float, topics: int, away_s: float | None) -> AgentLook:
    """The figures after so many seconds; the cluster has been away for the last `away_s`."""
    rows, partitions, offline = {}, {}, {}
    for number in range(topics):
        name = NAMES[number] if number < len(NAMES) else f"service-{number:04d}.events"
        rate = 4000.0 / (number + 1)
        taken = int(rate * (seconds + 600 + 8 * math.sin(seconds / 20 + number)))
        kept = int(rate * (away_s if away_s is not None else 0.8))
        lost = (
            Discards({Reason.RATE_LIMIT: 4200 // (number + 1)}, int((now - 1500) * 1000), int((now - 900) * 1000))
            if number in (0, 4)
            else Discards()
        )
        spooled = kept // 3 if away_s is not None else 0
        rows[name] = TopicAccount(taken, taken - kept - lost.count, kept - spooled, spooled, lost)
        memory = kept - spooled
        trouble = {"state": "offline", "reason": "broker2.example:9092 connection refused", "since": away_s, "oldest_age": away_s}
        partitions[f"{name}-0"] = partition(
            memory - memory // 3, memory // 8, 0, 0 if away_s is not None else memory // 3, **(trouble if away_s is not None else {})
        )
        if away_s is not None:
            offline[f"{name}-0"] = {"reason": trouble["reason"], "since": away_s}
    if away_s is not None:
        rows["new-service"] = topic(0, 40)
        partitions["new-service (no partition yet)"] = partition(40, 0, 40, state="offline", reason="its partitions are not known yet")
    more: dict[str, Any] = {"partitions": partitions}
    if away_s is not None:
        why = "no broker reachable: broker1.example:9092, broker2.example:9092 and broker3.example:9092 connection refused"
        more |= {"state": "unreachable", "reason": why, "offline": offline, "brokers": [broker(n, "connection refused") for n in (1, 2, 3)]}
    figures = account(rows, {Reason.MALFORMED: 17, Reason.UNCLEAN_TCP: 2})
    total = figures.total.accepted
    inputs = (
        InputState(Source.UNIX_DATAGRAM, "/run/pykafka4/agent.sock", True, total - total // 5, total * 100, 17),
        InputState(Source.UNIX_STREAM, "/run/pykafka4/agent.stream", True, total // 6, total * 20, 0, 12),
        InputState(Source.TCP, "127.0.0.1:9101", True, total // 5 - total // 6, total * 3, 2, 3),
    )
    on_disk = {name: SpooledTopic(row.spooled, 0, row.spooled * 140, 0, int((now - (away_s or 0)) * 1000)) for name, row in rows.items()}
    spool = SpoolState(figures.total.spooled * 140 + 65_536, 1024 * MIB, on_disk if away_s else {})
    more["producer"] = {"buffered_bytes": min(figures.total.queued * 130, 128 * MIB)}
    return AgentLook(now, figures, status(**more), inputs, spool, 128 * MIB)


REPORT = Report(
    7,
    1_700_000_000,
    refused={Reason.MALFORMED: 2, Reason.UNCLEAN_UNIX: 1, Reason.UNCLEAN_TCP: 3, Reason.API_KEY: 4, Reason.VERSION: 5},
    topics={
        "clicks": Discards({Reason.RATE_LIMIT: 6, Reason.NO_MEM: 1}, 1000, 2000),
        'a"b<script>\n': Discards({Reason.BAD_TOPIC: 2}, 5, 6),
    },
    possible_duplicates={"orders": Repeats(9, 10, 11)},
    versions={1: 3, 7: 2},
    recent_malformed=(b"\x00\x01",),
    recent_unclean_unix=(b"unix",),
    recent_unclean_tcp=(b"tcp",),
    recent_bad_topics=('a"b<script>\n',),
    recent_too_long=(b"clicks value",),
)


def main() -> None:
    """Serve figures that move, until Ctrl-C; each second half minute without brokers."""
    port, topics = (int(word) for word in [*sys.argv[1:], "9091", "40"][:2])
    agent = LivelyAgent(topics=topics, started_at=time.time() - 4000, unfinished=REPORT)
    with serving(agent, HttpSettings(port=port)) as served, contextlib.suppress(KeyboardInterrupt):
        print(served.url)
        while True:
            time.sleep(30)
            agent.away_since = time.time() if agent.away_since is None else None


if __name__ == "__main__":
    main()
