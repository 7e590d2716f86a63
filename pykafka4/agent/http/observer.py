"""Reads the agent's figures on a thread of the pages, remembers rates and outages, and makes the answers.

Invariant: only this thread uses looks, rates and outages; readers share looks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from pykafka4.agent.http import dory
from pykafka4.agent.http.account_data import account_data
from pykafka4.agent.http.look import AgentLook, WatchedAgent, queues
from pykafka4.agent.http.metrics import exposition
from pykafka4.agent.http.page_data import page_data
from pykafka4.agent.http.troubles import troubles
from pykafka4.errors import KafkaError
from pykafka4.pages.outages import Outages
from pykafka4.pages.rates import Rates, Sample
from pykafka4.pages.shared_look import SharedLook

__all__ = ["ThreadBusy", "Observer"]

log = logging.getLogger("pykafka4.agent.http")
SHARE: Final = 20  # without readers, a look of 100 ms is taken every 2 s: a twentieth of a core
MOST_WAITING: Final = 32  # answers, half of MOST_CONNECTIONS; further readers get 503 at once

T = TypeVar("T")


class ThreadBusy(Exception):
    """Raised if too many answers wait for the thread."""


class Observer:
    """The thread of the pages, with its look, rates and outages. `monotonic` and `wall_clock` are in seconds."""

    def __init__(
        self, watched: WatchedAgent, monotonic: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._watched, self._wall_clock = watched, wall_clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pykafka4-agent-pages")
        self._waiting = 0
        self._looks = SharedLook(self._take_look, monotonic)
        self._page = b""
        self._page_at = -1.0
        self._rates, self._outages = Rates(("accepted", "acknowledged", "discarded")), Outages()
        self._labelled: set[str] = set()  # topics with their own label in the metrics
        self._sampler: asyncio.Task[None] | None = None
        self._bug = ""  # the last unexpected error that was logged

    def start(self) -> None:
        """Begin to take samples, because the curves of rates must exist before somebody opens the page. The agent's loop calls this."""
        self._sampler = asyncio.get_running_loop().create_task(self._sample_forever())

    async def stop(self) -> None:
        if self._sampler is not None:
            self._sampler.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sampler
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def answer(self, make: Callable[[], T]) -> T:
        """Run `make` on the thread. Raises ThreadBusy, or the exception of `make`, such as the KafkaError of `WatchedAgent.look`."""
        if self._waiting >= MOST_WAITING:
            raise ThreadBusy
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, make)
        finally:
            self._waiting -= 1

    # ---------------------------------------------------------------- answers, on the thread

    def page(self) -> bytes:
        """Return the web page's JSON, which is made at most once for each look."""
        look = self._looks.get()
        if self._page_at != self._looks.taken_at:
            data = page_data(look, self._rates, self._outages, self._process().head())
            self._page = json.dumps(data, separators=(",", ":")).encode()
            self._page_at = self._looks.taken_at
        return self._page

    def metrics(self) -> bytes:
        watched, look = self._watched, self._looks.get()
        return exposition(look, watched.counters(look.account), watched.version, watched.started_at, self._labelled)

    def account(self) -> dict[str, Any]:
        data = account_data(self._looks.get().account, self._watched.total_report())
        return {**self._process().head(), **data}

    def dory_page(self, page: str, form: str) -> str:
        """Return one of Dory's pages. `form` is "json" or "plain"."""
        process = self._process()
        value = DORY[page](self, process)
        return dory.dump(value) if form == "json" else dory.in_plain_text(page, process, value)

    def server_info(self, process: dory.PageHead) -> dict[str, Any]:
        return dory.server_info(process)

    def counters(self, process: dory.PageHead) -> dict[str, Any]:
        return dory.counters(process, self._watched.counters(self._looks.get().account))

    def discards(self, process: dory.PageHead) -> dict[str, Any]:
        watched = self._watched
        return dory.discards(process, watched.report_interval_s, watched.unfinished_report(), watched.finished_report())

    def queue_counts(self, process: dory.PageHead) -> dict[str, Any]:
        return dory.queue_counts(process, queues(self._looks.get().status))

    def metadata_fetch_time(self, process: dory.PageHead) -> dict[str, Any]:
        look = self._looks.get()
        # The status has ages at the time of the look, not of the answer.
        now = dory.PageHead(self._watched.version, self._watched.started_at, look.at)
        return dory.metadata_fetch_time(now, look.status["metadata"])

    # ---------------------------------------------------------------- looks

    def sample(self) -> None:
        """Note rates and outages, unless a reader's look has just done so."""
        self._looks.get()

    def _take_look(self, now: float) -> AgentLook:
        look = self._watched.look()
        total = look.account.total
        counts = {"accepted": total.accepted, "acknowledged": total.acknowledged, "discarded": total.discards.count}
        self._rates.add(Sample(now, counts))
        self._outages.note(look.at, troubles(look))
        return look

    def _process(self) -> dory.PageHead:
        return dory.PageHead(self._watched.version, self._watched.started_at, self._wall_clock())

    async def _sample_forever(self) -> None:
        while True:
            try:
                await self.answer(self.sample)
            except (KafkaError, ThreadBusy, TimeoutError):
                pass  # the next look that succeeds reports the state
            except Exception as error:  # a bug in the pages is no reason to end the agent, or to fill its log
                if repr(error) != self._bug:
                    self._bug = repr(error)
                    log.exception("pages: no figures")
            await asyncio.sleep(self._looks.pause_s(SHARE))


DORY: Final[dict[str, Callable[[Observer, dory.PageHead], dict[str, Any]]]] = {
    "server_info": Observer.server_info,
    "counters": Observer.counters,
    "discards": Observer.discards,
    "queues": Observer.queue_counts,
    "metadata_fetch_time": Observer.metadata_fetch_time,
}
