"""Lists the current problems of an agent, with their reasons: the cluster, brokers, partitions, unknown topics, the spool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka4.agent.http.look import AgentLook, offline, unknown_topics
from pykafka4.pages.brokers import away

__all__ = ["troubles"]


def troubles(look: AgentLook) -> dict[str, str]:
    status, found = look.status, dict[str, str]()
    if status["state"] not in ("connected", "closed"):
        found["cluster"] = str(status["reason"] or status["state"])
    found.update({f"broker {broker['node']}": str(broker["error"]) for broker in away(status)})
    for subject, rows in (("partitions", offline(status)), ("unknown topics", unknown_topics(status))):
        if rows:
            found[subject] = _first_of(rows)
    if look.spool is not None and look.spool.failure is not None:
        found["spool"] = look.spool.failure
    return found


def _first_of(rows: Mapping[str, Any]) -> str:
    name, row = next(iter(rows.items()))
    rest = len(rows) - 1
    return f"{name}: {row['reason']}" + (f" (and {rest} more)" if rest else "")
