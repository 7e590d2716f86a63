"""Opens the parts of the agent in order, and closes them in the opposite one."""

from __future__ import annotations

import asyncio
import logging

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.inputs.opening import Inputs
from pykafka4.agent.message import Reason
from pykafka4.agent.producing import producer_options
from pykafka4.agent.router import Router
from pykafka4.agent.service.ending import deliver
from pykafka4.agent.service.privileges import become, identity_of
from pykafka4.agent.settings.values import AgentSettings
from pykafka4.producer import Producer
from pykafka4.records import ProducerRecord

__all__ = ["Parts"]

log = logging.getLogger("pykafka4.agent")


class Parts:
    """The parts of a running agent, which `start` opens."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self.inputs = Inputs.bind(settings.inputs)
        self._become_user()
        self.producer = Producer(**producer_options(settings))
        self.router = Router(self.producer, self.ledger)

    def _become_user(self) -> None:
        user = self.settings.service.user
        if user is None:
            return
        identity = identity_of(user, self.settings.service.group)
        if become(identity):
            log.info("agent: runs as user %s from here on", identity.name)

    async def start(self) -> None:
        """Open the pages, and read the inputs."""
        self.inputs.start(self.router, asyncio.get_running_loop())

    def stop_inputs(self) -> None:
        """Read what clients have sent so far, and take nothing more."""
        self.inputs.close()

    async def deliver(self, shutdown_s: float, hurried: asyncio.Event) -> int:
        """Deliver what waits, spool the rest or discard it; how many messages were discarded."""
        undelivered = await deliver(self.producer, shutdown_s, hurried)
        return self._discard(undelivered)

    def _discard(self, records: list[ProducerRecord]) -> int:
        for record in records:
            message = (record.topic, record.value, record.key, None, record.timestamp_ms or 0)
            self.ledger.discarded(message, Reason.SERVER_SHUTDOWN)
        return len(records)

    async def close(self) -> None:
        """Close what is open still."""

    def apply(self, settings: AgentSettings) -> None:
        """Change the settings that can change while the agent runs."""
        self.settings = settings

    def reopen(self) -> None:
        """Open the discard log again: its file was moved away."""

    def look(self) -> tuple[str, str]:
        """The producer's state, and a line about it all for `systemctl status`. Waits for the producer's thread."""
        status, stats = self.producer.status(), self.producer.stats()
        why = f" ({status['reason']})" if status.get("reason") else ""
        waiting = stats.queued + stats.in_flight
        return status["state"], f"{stats.acked:,} messages acknowledged, {waiting:,} wait; cluster {status['state']}{why}"
