"""Makes the JSON of the complete account, with figures that Dory's pages lack: reasons per topic, messages on disk, refused bytes."""

from __future__ import annotations

from typing import Any

from pykafka4.agent.account.values import Account, Discards, Report, TopicAccount

__all__ = ["account_data", "discards_data"]


def account_data(account: Account, report: Report) -> dict[str, Any]:
    """Return /account/json without its head. `report` is the report since the start."""
    return {
        "total": _row(account.total),
        "topics": {topic: _row(row) for topic, row in sorted(account.topics.items())},
        "other_topics": _row(account.others),
        "refused": {reason.value: count for reason, count in account.refused.items()},
        "refused_bytes": {reason.value: count for reason, count in report.refused_bytes.items()},
        "restored": account.restored,
        "possible_duplicates": account.possible_duplicates,
    }


def _row(row: TopicAccount) -> dict[str, Any]:
    return {
        "accepted": row.accepted,
        "acknowledged": row.acknowledged,
        "queued": row.queued,
        "spooled": row.spooled,
        "discarded": row.discards.count,
        "discards": discards_data(row.discards),
    }


def discards_data(discards: Discards) -> dict[str, Any]:
    """Timestamps are in milliseconds since the epoch, null if unknown."""
    reasons = {reason.value: count for reason, count in discards.by_reason.items()}
    return {"by_reason": reasons, "first_timestamp": discards.first_ms, "last_timestamp": discards.last_ms}
