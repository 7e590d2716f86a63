"""Opens and closes the parts of the agent in order: the reading of inputs starts last and ends first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Self

from pykafka4 import __version__
from pykafka4.agent.account.books import Books, Counting
from pykafka4.agent.account.discard_log import DiscardLog
from pykafka4.agent.account.hooks import BatchOutcomes, count_undelivered
from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.account.values import Account
from pykafka4.agent.http.agent_view import AgentView
from pykafka4.agent.inputs.opening import Inputs
from pykafka4.agent.limits import ArrivalLimits
from pykafka4.agent.producing import producer_options
from pykafka4.agent.router import Router
from pykafka4.agent.service.ending import deliver
from pykafka4.agent.service.on_loop import LoopCalls
from pykafka4.agent.service.privileges import become, identity_of
from pykafka4.agent.settings.values import AgentSettings, Empty
from pykafka4.agent.spool.spool import Spool
from pykafka4.agent.spool.values import SpoolState
from pykafka4.agent.unknown import UnknownTopics
from pykafka4.producer import Producer

if TYPE_CHECKING:
    from pykafka4.agent.http.server import PageServer

__all__ = ["Parts"]

log = logging.getLogger("pykafka4.agent")
SPOOL_SHARE = 4  # messages from the disk may use a quarter of the pool; the rest is for topics without messages on disk
OUTCOMES_S: Final = 5.0  # seconds to wait until the hook has counted the last failures


class Parts:
    """The parts of a running agent."""

    def __init__(self, settings: AgentSettings) -> None:
        """Bind the sockets, which may need root; then become the agent's user, and open the other parts, except the pages.

        Raises InputError, ConfigError, SpoolUnusable or OSError, after closing the open parts.
        """
        self.settings = settings
        self._pages: PageServer | None = None
        with ExitStack() as opened:
            self.inputs = Inputs.bind(settings.inputs)
            opened.callback(self.inputs.close)
            self._become_user()
            self._open(opened)
            opened.pop_all()

    @classmethod
    async def started(cls, settings: AgentSettings) -> Self:
        """Return running parts. Raises InputError, ConfigError, SpoolUnusable or OSError, after closing all parts."""
        parts = cls(settings)
        try:
            await parts.start()
        except BaseException:
            parts.stop_inputs()
            await parts.deliver(0.0, asyncio.Event())
            await parts.close()
            raise
        return parts

    def _become_user(self) -> None:
        user = self.settings.service.user
        if user is not None and become(identity := identity_of(user, self.settings.service.group)):
            log.info("agent: runs as user %s from now on", identity.name)

    def _open(self, opened: ExitStack) -> None:
        settings, calls = self.settings, LoopCalls(asyncio.get_running_loop())
        self._calls = calls
        reasons = Reasons(settings.topics.autocreate)
        self._discard_log = None if settings.discard_log is None else DiscardLog(settings.discard_log)
        self.ledger = Ledger(settings.reports, self._discard_log)
        self._spool = None if settings.spool is None else Spool(settings.spool, self.ledger, self._empty)
        if self._spool is not None:
            opened.callback(self._spool.abandon)
        self._outcomes = BatchOutcomes(self.ledger, reasons, keeps_undelivered=self._spool is not None)
        unknown = UnknownTopics(reasons.of("UNKNOWN_TOPIC_OR_PARTITION"))
        self.producer = Producer(**{**producer_options(settings), "hooks": (self._outcomes, unknown)})
        opened.callback(self.producer.close, 0.0)
        self.router = Router(self.producer, self.ledger, ArrivalLimits.of(settings.topics), self._spool, unknown)
        counting: list[Counting] = [_InputCounts(self.inputs), self.router]
        if self._discard_log is not None:
            self._discard_log.start()
            opened.callback(self._discard_log.close)
            counting.append(self._discard_log)
        self.books = Books(self.producer, self.ledger, reasons, counting, self._spool, calls)
        counts, spool = (settings.inputs, self.inputs.counters), None if self._spool is None else self._spool_state
        self._view = AgentView(self.producer, self.books, counts, __version__, settings.reports.interval_s, spool)

    async def start(self) -> None:
        if self.settings.http is not None:
            from pykafka4.agent.http.server import PageServer  # needs aiohttp, which only the pages need

            self._pages = PageServer(self.settings.http, self._view)
            await self._pages.start()
        if self._spool is not None:
            self._spool.start(self.router, self.settings.inputs.max_buffer // SPOOL_SHARE)
        self.inputs.start(self.router, asyncio.get_running_loop())
        self._view.inputs_open = True
        log.info("agent: takes messages at %s", ", ".join(self._addresses()))

    def _addresses(self) -> list[str]:
        inputs = self.settings.inputs
        unix = [str(each.path) for each in (inputs.unix_datagram, inputs.unix_stream) if each is not None]
        return [*unix, f"{inputs.tcp.host}:{self.inputs.tcp_port}"] if inputs.tcp is not None else unix

    @property
    def _empty(self) -> bytes | None:
        return None if self.settings.inputs.empty is Empty.NULL else b""

    def _spool_state(self) -> SpoolState:
        """Any thread may call this."""
        assert self._spool is not None
        return self._calls(self._spool.state)

    def tick(self) -> None:
        self.ledger.tick()

    def cluster_is(self, state: str) -> None:
        """With a spool, send new messages to disk at once while the cluster is unreachable. `state` comes from `look`."""
        if self._spool is not None:
            self._spool.cluster_away = state == "unreachable"

    def stop_inputs(self) -> None:
        self._view.inputs_open = False
        self.inputs.close()

    async def deliver(self, shutdown_s: float, hurried: asyncio.Event) -> None:
        """Deliver the waiting messages, for up to `shutdown_s` seconds. Undelivered messages are spooled, or discarded and counted."""
        # The spool stops first: otherwise the producer's flush would find new messages again and again.
        if self._spool is not None:
            await self._spool.stop()
        undelivered = await deliver(self.producer, shutdown_s, hurried)
        if self._spool is not None:
            without_room = self._spool.close(undelivered)
            count_undelivered(self.ledger, without_room)

    async def close(self) -> Account:
        """Close the pages, the ledger and the discard log; return the last account.

        Raises KafkaTimeoutError, after closing them, if the producer's thread is stuck.
        """
        if self._pages is not None:
            await self._pages.stop()
        await asyncio.to_thread(self._outcomes.wait, OUTCOMES_S)
        self.ledger.close()
        if self._discard_log is not None:
            await asyncio.to_thread(self._discard_log.close)
        return await asyncio.to_thread(self.books.account)

    def apply(self, settings: AgentSettings) -> None:
        before, self.settings = self.settings, settings
        if settings.topics != before.topics:  # new limits begin new intervals for all topics
            self.router.limit(ArrivalLimits.of(settings.topics))

    def look(self) -> tuple[str, str]:
        """Return the producer's state, and a line for `systemctl status`. Waits for the producer's thread."""
        status = self.producer.status()
        counts, why = status["producer"], f" ({status['reason']})" if status.get("reason") else ""
        # A producer that does not respond has no counts in its status, and its `stats` would raise.
        figures = f"messages: {counts['acked']:,} acknowledged, {counts['queued'] + counts['in_flight']:,} waiting; " if counts else ""
        return status["state"], f"{figures}cluster {status['state']}{why}"


class _InputCounts:
    """Implements Counting with the counters of the inputs."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def counters(self) -> Mapping[str, int]:
        return self._inputs.counters.named()
