"""A clock that tests move, and messages."""

from __future__ import annotations

from pykafka4.agent.account.values import Account
from pykafka4.agent.message import Message

__all__ = ["Clock", "check_balance", "message"]


class Clock:
    """Seconds; stands still."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def message(topic: str = "clicks", value: bytes | None = b"v", key: bytes | None = None, timestamp_ms: int = 0) -> Message:
    return topic, value, key, None, timestamp_ms


def check_balance(account: Account) -> None:
    """Each row adds up, no count is negative, and the rows add up to the total."""
    rows = [account.others, *account.topics.values()]
    for row in [account.total, *rows]:
        assert row.accepted == row.acknowledged + row.queued + row.spooled + row.discards.count
        assert min(row.acknowledged, row.queued, row.spooled, *row.discards.by_reason.values()) >= 0, row
    assert account.total.accepted == sum(row.accepted for row in rows)
    for field in ("acknowledged", "queued", "spooled"):
        assert getattr(account.total, field) == sum(getattr(row, field) for row in rows)
    for reason, count in account.total.discards.by_reason.items():
        assert count == sum(row.discards.by_reason.get(reason, 0) for row in rows)
