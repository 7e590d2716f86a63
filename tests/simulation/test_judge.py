"""The judge raises no false alarm about what it sees itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.simulation.judge.invariants import Watch


class Accepting:
    """An accumulator to which another thread sends a record while the judge waits for its lock, as in the plain-Python core."""

    accepted = acked = failed = 0

    def unfinished(self) -> list[Any]:
        self.accepted += 1
        return [SimpleNamespace(done=lambda: False)]

    def census(self) -> None:
        """Nobody looks at it here."""


def test_a_record_sent_while_the_judge_waits_for_a_lock_is_queued() -> None:
    watch: Any = SimpleNamespace(accepted=0, offered=1, shed=0)
    stats = SimpleNamespace(partitions={}, dropped={})
    snapshot = SimpleNamespace(stats=lambda: stats)
    ledger = SimpleNamespace(acked=0, in_flight=0, failures_seen=0, failed={}, snapshot=lambda census, reserved: snapshot)
    sender: Any = SimpleNamespace(queues={}, ledger=ledger)
    accumulator: Any = Accepting()
    Watch.look_at_ledger(watch, sender, accumulator)
    assert accumulator.accepted == 1
