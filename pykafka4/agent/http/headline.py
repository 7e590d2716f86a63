"""Puts the agent's state into plain words: whether messages flow, or the worst trouble with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from pykafka4.agent.http.look import AgentLook, offline, unknown_topics
from pykafka4.pages.brokers import away
from pykafka4.pages.headline import Headline, Level
from pykafka4.pages.outages import Outages

__all__ = ["headline"]


REPEATED: Final = "no broker reachable: "  # cut from the reason, because the headline already says that no broker is connected
NEARLY_FULL: Final = 0.9  # the headline warns if this part of max_buffer or more is in use
STATES: Final[Mapping[str, str]] = {
    "unreachable": "No broker can be reached",
    "connecting": "Connecting to the brokers",
    "unresponsive": "The producer does not respond",
    "crashed": "The producer has crashed",
    "closed": "The agent is ending",
    "forked": "The producer belongs to another process",
}


def headline(look: AgentLook, outages: Outages, discards_per_s: float) -> Headline:
    """Return the headline for the worst trouble, or for an agent without troubles.

    `discards_per_s` is the mean rate over the last few seconds.
    """
    losses = _discards(look, discards_per_s)
    for judge in JUDGES:
        found = judge(look, outages)
        if found is not None:
            return attrs.evolve(found, details=(*found.details, *losses)) if discards_per_s > 0 else found
    total = look.account.total
    if discards_per_s > 0:
        return Headline(Level.WARNING, "Messages are being discarded", losses)
    if total.queued or total.spooled:
        return Headline(Level.OK, "Messages flow", losses)
    if not total.accepted:
        return Headline(Level.OK, "Waiting for messages")
    return Headline(Level.OK, "No message waits" if total.discards.count else "All messages are delivered", losses)


def _cluster(look: AgentLook, outages: Outages) -> Headline | None:
    status = look.status
    if status["state"] == "connected":
        return None
    text = STATES.get(status["state"], f"The producer is {status['state']}")
    level = Level.WARNING if status["state"] in ("connecting", "closed") else Level.TROUBLE
    return Headline(
        level, text, _details(str(status["reason"] or "").removeprefix(REPEATED), _where_messages_go(look)), outages.since("cluster")
    )


def _spool(look: AgentLook, outages: Outages) -> Headline | None:
    if look.spool is None or look.spool.failure is None:
        return None
    if look.spool.only_syncs_fail:
        return Headline(Level.WARNING, "A loss of power would lose messages", _details(look.spool.failure), outages.since("spool"))
    return Headline(Level.TROUBLE, "The spool cannot be written", _details(look.spool.failure), outages.since("spool"))


def _partitions(look: AgentLook, outages: Outages) -> Headline | None:
    return _some(look, offline(look.status), "{} is offline", "{:,} partitions are offline", outages.since("partitions"))


def _topics(look: AgentLook, outages: Outages) -> Headline | None:
    found = unknown_topics(look.status)
    return _some(look, found, "Messages for {} wait", "Messages for {:,} topics wait", outages.since("unknown topics"))


def _some(look: AgentLook, rows: Mapping[str, Mapping[str, Any]], one: str, several: str, since: float | None) -> Headline | None:
    if not rows:
        return None
    name, row = next(iter(rows.items()))
    others = any(each["state"] == "online" for each in look.status.get("partitions", {}).values())
    text, reason = (one.format(name), row["reason"]) if len(rows) == 1 else (several.format(len(rows)), f"{name}: {row['reason']}")
    return Headline(Level.WARNING, text, _details(str(reason), "Messages of other partitions flow." if others else ""), since)


def _brokers(look: AgentLook, outages: Outages) -> Headline | None:
    down = away(look.status)
    if not down:
        return None
    first = down[0]
    text = f"Broker {first['node']} is away" if len(down) == 1 else f"{len(down)} brokers are away"
    return Headline(Level.WARNING, text, _details(str(first["error"])), outages.since(f"broker {first['node']}"))


def _memory(look: AgentLook, outages: Outages) -> Headline | None:
    if not look.max_buffer or look.buffered < NEARLY_FULL * look.max_buffer:
        return None
    text = f"{look.buffered / look.max_buffer:.0%} of max_buffer is in use"
    return Headline(Level.WARNING, "The memory for messages is nearly full", (f"{text}. {_when_it_is_full(look)}",))


def _when_it_is_full(look: AgentLook) -> str:
    return "Messages without room go to the disk." if look.spool is not None else "When it is full, new messages are discarded."


def _where_messages_go(look: AgentLook) -> str:
    total = look.account.total
    if look.spool is not None and look.spool.failure is not None and not look.spool.only_syncs_fail:
        return f"The spool {look.spool.failure}. New messages wait in memory: {total.queued:,} so far. Messages without room are discarded."
    if look.spool is not None:
        return f"New messages wait in memory and on disk: {total.queued:,} and {total.spooled:,} so far."
    return f"New messages wait in memory: {total.queued:,} so far. {_when_it_is_full(look)}" if total.accepted else ""


def _discards(look: AgentLook, per_s: float) -> tuple[str, ...]:
    rate = "" if per_s <= 0 else f" Now {per_s:,.0f} a second." if per_s >= 1 else " Now less than one a second."
    reasons = sorted(look.account.total.discards.by_reason.items(), key=lambda item: -item[1])
    most = ", ".join(f"{reason.value} ({count:,})" for reason, count in reasons[:3])
    return (f"Discarded since the start: {most}.{rate} The table of discarded messages lists the topics.",) if reasons else ()


def _details(*texts: str) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


# The worst trouble first: the first function that finds a trouble returns the headline. While no broker can be reached, partitions are
# also offline, and a headline about a partition would hide the cause.
JUDGES: Final[tuple[Callable[[AgentLook, Outages], Headline | None], ...]] = (_cluster, _spool, _partitions, _brokers, _topics, _memory)
