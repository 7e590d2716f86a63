"""Runs the agent from start to end. Invariant: if the producer or a task crashes, the process ends, and waiting messages are delivered,
spooled, or discarded and counted, unless the producer's thread is stuck."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pykafka4.agent.inputs.opening import InputError
from pykafka4.agent.message import Reason
from pykafka4.agent.service.codes import Exit
from pykafka4.agent.service.ending import report
from pykafka4.agent.service.logs import Logs
from pykafka4.agent.service.notify import Notifier
from pykafka4.agent.service.parts import Parts
from pykafka4.agent.service.reload import reread
from pykafka4.agent.settings.values import AgentSettings
from pykafka4.agent.spool.folder import SpoolUnusable
from pykafka4.errors import KafkaError, KafkaTimeoutError

__all__ = ["Agent"]

log = logging.getLogger("pykafka4.agent")
CANNOT_START: Final = (OSError, KafkaError, InputError, SpoolUnusable)
BEAT_S: Final = 2.0  # the longest pause between two checks of the producer, in seconds
TICK_S: Final = 1.0  # seconds between two calls of `Ledger.tick`
QUIET_S: Final = 30.0  # seconds between two log lines about connections of the pages
CRASH_S: Final = 10.0  # seconds for deliveries after a part has failed; also the time beyond deliveries that systemd must grant


class Agent:
    """A running agent. `run` creates its parts."""

    def __init__(self, settings: AgentSettings, config: Path | None = None, logs: Logs | None = None) -> None:
        """`config` is the file that a reload reads; None: a reload is impossible."""
        self.settings = settings
        self._config, self._logs = config, logs
        self._notifier = Notifier()
        self._ended, self._hurried = asyncio.Event(), asyncio.Event()
        self._crash: str | None = None
        self._quiet_until = 0.0  # no log line about connections of the pages before this time
        self._parts: Parts | None = None

    async def run(self) -> Exit:
        """Take messages until `end` is called or a part fails, then deliver the waiting messages; return the exit code."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._handle_exception)
        self._watch_signals(loop)
        try:
            self._parts = parts = await Parts.started(self.settings)
        except CANNOT_START as error:
            log.critical("agent: cannot start: %s", error.strerror if isinstance(error, OSError) and error.strerror else error)
            return Exit.CANNOT_START
        self._notifier.ready("takes messages")
        tasks = [loop.create_task(self._beat(parts)), loop.create_task(self._tick(parts))]
        for task in tasks:
            task.add_done_callback(self._task_ended)
        await self._ended.wait()
        for task in tasks:
            task.cancel()
        return await self._finish(parts)

    def end(self) -> None:
        """Begin to end the agent; if the agent already ends, end the wait for deliveries. The loop calls this."""
        if self._ended.is_set():
            log.warning("agent: ends at once, without delivery of the waiting messages")
            self._hurried.set()
        self._ended.set()

    async def _finish(self, parts: Parts) -> Exit:
        shutdown_s = parts.settings.service.shutdown_ms / 1000 if self._crash is None else CRASH_S
        self._notifier.stopping("delivers the waiting messages", shutdown_s + CRASH_S)
        log.info("agent: ends; delivers the waiting messages for up to %g s", shutdown_s)
        parts.stop_inputs()
        await parts.deliver(shutdown_s, self._hurried)
        try:
            account = await parts.close()
        except KafkaTimeoutError as error:  # the producer's thread is stuck, so its counts cannot be read
            log.critical("agent: ends without a report: %s", error)
            return Exit.CRASHED
        report(account)
        if self._crash is not None:
            return Exit.CRASHED
        return Exit.UNDELIVERED if account.total.discards.by_reason.get(Reason.SERVER_SHUTDOWN) else Exit.OK

    # -- signals

    def _watch_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        actions: dict[signal.Signals, Callable[[], object]] = {
            signal.SIGTERM: self.end,
            signal.SIGINT: self.end,
            signal.SIGHUP: self._reload,
            signal.SIGUSR1: _say_that_logs_follow,
        }
        for number, action in actions.items():
            loop.add_signal_handler(number, action)

    def _reload(self) -> None:
        parts = self._parts
        if self._config is None or parts is None or self._ended.is_set():
            log.warning("agent: reload: impossible while the agent starts or ends, or without a settings file")
            return
        self._notifier.reloading()
        settings = reread(self._config, parts.settings)
        if settings is not None:
            parts.apply(settings)
            if self._logs is not None:
                self._logs.set_level(settings.service.log_level)
        self._notifier.ready("takes messages")

    # -- parts that fail

    async def _beat(self, parts: Parts) -> None:
        """Check the producer until it has crashed, and report signs of life to systemd."""
        watchdog_s = self._notifier.watchdog_s
        pause = BEAT_S if watchdog_s is None else min(BEAT_S, watchdog_s / 3)  # two beats may be late before systemd ends the process
        while True:
            state, text = await asyncio.to_thread(parts.look)
            if state == "crashed":
                self._fail(f"the producer has failed: {text}")
                return
            parts.cluster_is(state)
            if state != "unresponsive":  # no sign of life while the producer is stuck: systemd then restarts the agent
                self._notifier.alive()
            self._notifier.status(text)
            await asyncio.sleep(pause)

    async def _tick(self, parts: Parts) -> None:
        while True:
            parts.tick()
            await asyncio.sleep(TICK_S)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("agent: a bug", exc_info=error)
            self._fail(repr(error))

    def _handle_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the agent after an unhandled exception, unless it concerns a connection of the pages.

        If no file descriptor is left for such a connection, asyncio may call this method dozens of times every second, with the pages'
        socket in the context: one log line in QUIET_S is enough.
        """
        error = context.get("exception")
        if "socket" in context:
            self._say_that_pages_refuse(error)
            return
        log.critical("agent: %s", context["message"], exc_info=error)
        if "transport" not in context and "protocol" not in context:
            self._fail(repr(error))

    def _say_that_pages_refuse(self, error: object) -> None:
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_S
            log.error("agent: the pages cannot accept connections: %s", error)

    def _fail(self, why: str) -> None:
        if self._crash is None:
            self._crash = why
            log.critical("agent: ends, because a part has failed: %s", why)
            self._ended.set()


def _say_that_logs_follow() -> None:
    """SIGUSR1 makes some daemons reopen their logs; without a handler, SIGUSR1 would end the agent."""
    log.info("agent: the discard log follows a rotation of its file by itself; SIGUSR1 does nothing")
