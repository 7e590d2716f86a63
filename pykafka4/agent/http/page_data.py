"""Makes the JSON of the web page. Invariant: the JSON's size is bounded for any number of topics, and a table that is cut off comes with
the number of all its rows."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nlargest
from operator import itemgetter
from typing import Any, Final

from pykafka4.agent.http.headline import headline
from pykafka4.agent.http.look import AgentLook, TopicQueue, offline, queues, unknown_topics
from pykafka4.pages.brokers import brokers_json
from pykafka4.pages.outages import Outages
from pykafka4.pages.rates import STEP_S, Rates

__all__ = ["TOPIC_COLUMNS", "page_data"]

# The most rows of tables: browsers request the JSON every second, and clients may name any number of topics.
MOST_TOPICS: Final = 1_000
MOST_DISCARDS: Final = 200
MOST_OFFLINE: Final = 100
MOST_OUTAGES: Final = 100
CURVES: Final = ("accepted", "acknowledged")
NOTHING: Final = TopicQueue()
TOPIC_COLUMNS: Final = (
    "topic", "new", "batch", "waiting", "in_flight", "spooled", "oldest_s", "accepted", "acknowledged", "discarded"
)  # fmt: skip

Json = dict[str, Any]


def page_data(look: AgentLook, rates: Rates, outages: Outages, head: Json) -> Json:
    """Return the JSON of the page. `head` has the fields of /server_info/json."""
    now = rates.now()
    words = headline(look, outages, now["discarded"])
    return {
        **head,
        "at": look.at,
        "headline": words.as_json(),
        "rates": {"step_s": STEP_S, "now": now, **rates.curves(CURVES)},
        "balance": _balance(look),
        "topics": _topics(look),
        "discards": _discards(look),
        "refused": {reason.value: count for reason, count in look.account.refused.items() if count},
        "inputs": [_input(entry) for entry in look.inputs],
        "brokers": brokers_json(look.status),
        "partitions": _partitions(look),
        "spool": _spool(look),
        "outages": outages.as_json(MOST_OUTAGES),
    }


def _balance(look: AgentLook) -> Json:
    account, total = look.account, look.account.total
    ages = [queue.oldest_s for queue in queues(look.status).values() if queue.oldest_s is not None]
    return {
        "accepted": total.accepted,
        "acknowledged": total.acknowledged,
        "queued": total.queued,
        "spooled": total.spooled,
        "discarded": total.discards.count,
        "oldest_s": max(ages, default=None),
        "memory": {"bytes": look.buffered, "max_size": look.max_buffer},
        "restored": account.restored,
        "possible_duplicates": account.possible_duplicates,
    }


def _topics(look: AgentLook) -> Json:
    found, accounts = queues(look.status), look.account.topics
    rows: list[list[Any]] = []
    for topic in {**accounts, **found}:
        queue, row = found.get(topic, NOTHING), accounts.get(topic)
        counts = (0, 0, 0, 0) if row is None else (row.spooled, row.accepted, row.acknowledged, row.discards.count)
        oldest = None if queue.oldest_s is None else round(queue.oldest_s, 1)
        rows.append([topic, queue.new, queue.batch, queue.waiting, queue.in_flight, counts[0], oldest, *counts[1:]])
    chosen = nlargest(MOST_TOPICS, rows, key=lambda row: (row[1] + row[2] + row[3] + row[4] + row[5], row[7]))
    return {"columns": TOPIC_COLUMNS, "rows": chosen, "count": len(rows)}


def _discards(look: AgentLook) -> Json:
    rows = [
        {
            "topic": topic,
            "reason": reason.value,
            "count": count,
            "first_ms": row.discards.first_ms,
            "last_ms": row.discards.last_ms,
        }
        for topic, row in (*look.account.topics.items(), ("", look.account.others))
        for reason, count in row.discards.by_reason.items()
        if count > 0
    ]
    reasons = {reason.value: count for reason, count in look.account.total.discards.by_reason.items() if count}
    return {"rows": nlargest(MOST_DISCARDS, rows, key=itemgetter("count")), "count": len(rows), "by_reason": reasons}


def _input(entry: Any) -> Json:
    return {
        "kind": entry.source.value,
        "address": entry.address,
        "open": entry.open,
        "clients": entry.clients,
        "messages": entry.messages,
        "bytes": entry.bytes,
        "refused": entry.refused,
    }


def _partitions(look: AgentLook) -> Json:
    known: Mapping[str, Any] = look.status.get("partitions", {})
    rows = [
        {
            "name": name,
            "reason": row["reason"],
            "since": None if row["since"] is None else look.at - row["since"],
            "waiting": row.get("queued", 0) + row.get("in_flight", 0),
        }
        for name, row in _not_flowing(look).items()
    ]
    online = sum(1 for row in known.values() if row["state"] == "online")
    return {"offline": nlargest(MOST_OFFLINE, rows, key=itemgetter("waiting")), "offline_count": len(rows), "online_count": online}


def _not_flowing(look: AgentLook) -> Mapping[str, Any]:
    """Return a row for each offline partition, with its counts of messages, and for each unknown topic."""
    known = look.status.get("partitions", {})
    rows = {name: {**known.get(name, {}), **row} for name, row in look.status.get("offline", {}).items()}
    return {
        **offline({"offline": rows, "partitions": known}),
        **{f"{name} (topic)": row for name, row in unknown_topics(look.status).items()},
    }


def _spool(look: AgentLook) -> Json | None:
    spool = look.spool
    if spool is None:
        return None
    oldest = [topic.oldest_ms for topic in spool.topics.values() if topic.oldest_ms is not None]
    return {
        "bytes": spool.bytes,
        "max_size": spool.max_size,
        "messages": sum(topic.messages for topic in spool.topics.values()),
        "replaying": sum(topic.sent for topic in spool.topics.values()),
        "oldest_ms": min(oldest, default=None),
        "failure": spool.failure,
        "failing_for_s": spool.failing_for_s,
        "damaged_bytes": spool.damaged_bytes,
        "counting": spool.counting,
    }
