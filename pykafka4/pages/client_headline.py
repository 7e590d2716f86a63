"""Says in plain words whether the records of a client flow, and if not, why and since when.

`client_headline` calls `JUDGES` in order until one returns a headline. The worst trouble comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from pykafka4.pages.brokers import away
from pykafka4.pages.headline import Headline, Level
from pykafka4.pages.outages import Outages
from pykafka4.pages.partition_rows import Partitions, is_bad
from pykafka4.pages.watched import Kind, Look

__all__ = ["View", "client_headline", "client_troubles"]

STATES: Final[Mapping[str, str]] = {
    "unreachable": "No broker can be reached",
    "connecting": "Connecting to the brokers",
    "unresponsive": "The client's thread does not respond",
    "crashed": "The {kind} has crashed",
    "closed": "The {kind} is closed",
    "forked": "The {kind} belongs to another process",
}
REPEATED: Final = "no broker reachable: "  # left out of the details, because the headline says the same
MEMBERS: Final[Mapping[Kind, str]] = {Kind.CONSUMER: "consumer", Kind.SHARE_CONSUMER: "share_consumer"}  # keys in `status()`


@attrs.frozen
class View:
    """A look, with its partitions, rates and outages. `settled` and `rates` are `Rates.settled` and the result of `Rates.now`."""

    kind: Kind
    look: Look
    partitions: Partitions
    rates: Mapping[str, float]
    settled: bool
    outages: Outages

    @property
    def status(self) -> Mapping[str, Any]:
        return self.look.status

    @property
    def stats(self) -> Mapping[str, Any]:
        return self.look.figures.stats

    @property
    def member(self) -> Mapping[str, Any]:
        """The state of a group member; empty for producers and clients."""
        found: Mapping[str, Any] = self.status.get(MEMBERS.get(self.kind, ""), {})
        return found


def client_headline(view: View) -> Headline:
    losses = _losses(view)
    found = next((found for judge in JUDGES if (found := judge(view)) is not None), None) or FLOWS[view.kind](view)
    return attrs.evolve(found, details=(*found.details, *losses))


def client_troubles(kind: Kind, look: Look, rows: Partitions) -> dict[str, str]:
    """The subjects that are out of order, each with the reason, for the timeline of outages."""
    status, found = look.status, dict[str, str]()
    if status["state"] != "connected":
        found["cluster"] = str(status["reason"] or status["state"])
    found.update({f"broker {broker['node']}": str(broker["error"]) for broker in away(status)})
    bad = [row for row in rows.rows if is_bad(row[1])]
    if bad:
        rest = f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else ""
        found["partitions"] = f"{bad[0][0]}: {bad[0][2]}{rest}"
    member = status.get(MEMBERS.get(kind, ""), {})
    if member.get("state") not in (None, "stable", "unjoined"):
        found["group"] = str(member["reason"] or member["state"])
    return found


def _client(view: View) -> Headline | None:
    state, reason = view.status["state"], view.status["reason"]
    if state == "connected":
        return None
    text = STATES.get(state, "The {kind} is {state}").format(kind=view.kind, state=state)
    level = Level.WARNING if state in ("connecting", "closed") else Level.TROUBLE
    return Headline(level, text, _details(str(reason or "").removeprefix(REPEATED), _waiting(view)), view.outages.since("cluster"))


def _ended_member(view: View) -> Headline | None:
    state, since = view.member.get("state"), view.outages.since("group")
    texts = {"crashed": f"The {view.kind} has crashed", "fatal": f"The group rejects this {view.kind}"}
    return Headline(Level.TROUBLE, texts[state], _details(str(view.member["reason"])), since) if state in texts else None


def _partitions(view: View) -> Headline | None:
    bad = [row for row in view.partitions.rows if is_bad(row[1])]
    if not bad:
        return None
    name, state, reason = bad[0][:3]
    is_one = len(bad) == 1
    text = f"{name} is {state}" if is_one else f"{len(bad):,} partitions are {'offline' if state == 'offline' else 'not read'}"
    others = "The other partitions work." if len(bad) < len(view.partitions.rows) else ""
    level = Level.WARNING if others else Level.TROUBLE
    why = str(reason) if is_one else f"{name}: {reason}"
    gone = "".join(f"Broker {broker['node']} is away: {broker['error']}" for broker in away(view.status)[:1])
    return Headline(level, text, _details(why, gone, others), view.outages.since("partitions"))


def _brokers(view: View) -> Headline | None:
    down = away(view.status)
    if not down:
        return None
    text = f"Broker {down[0]['node']} is away" if len(down) == 1 else f"{len(down)} brokers are away"
    return Headline(Level.WARNING, text, _details(str(down[0]["error"])), view.outages.since(f"broker {down[0]['node']}"))


def _member(view: View) -> Headline | None:
    """The headline while the member is joining or leaving, or its group is rebalancing."""
    member = view.member
    if not member or member["state"] in ("stable", "unjoined") or member["reason"] is None:
        return None
    return Headline(Level.WARNING, f"The group: {member['state']}", _details(str(member["reason"])), view.outages.since("group"))


def _topics(view: View) -> Headline | None:
    troubles = view.status.get("topics", {})
    unknown = view.member.get("unknown_topics", ())
    if not troubles and not unknown:
        return None
    name, why = next(iter(troubles.items())) if troubles else (unknown[0], "brokers report no partitions of this topic")
    return Headline(Level.WARNING, f"Topic {name} cannot be used", _details(str(why)))


def _share_errors(view: View) -> Headline | None:
    errors = view.member.get("errors") or {}
    if not errors:
        return None
    name, why = next(iter(errors.items()))
    return Headline(Level.WARNING, "Some records are not acquired", _details(f"{name}: {why}"))


def _unread(view: View) -> Headline | None:
    waiting = view.stats.get("buffered_bytes", 0) if view.kind is Kind.CONSUMER else 0
    # A new page makes no judgement, because a rate of 0 may mean only that the page has a single sample.
    if not waiting or not view.settled or view.rates["read_bytes"] > 0 or all(row[1] == "paused" for row in view.partitions.rows if row[6]):
        return None
    return Headline(Level.WARNING, "The application takes no records", (f"{waiting:,} bytes wait for its next poll.",))


def _reason(view: View) -> Headline | None:
    """The reason in `status()`, if no other judge has returned a headline."""
    return None if view.status["reason"] is None else Headline(Level.WARNING, "Something waits", _details(str(view.status["reason"])))


def _losses(view: View) -> tuple[str, ...]:
    if view.kind is not Kind.PRODUCER or not view.stats:
        return ()
    lost = {**view.stats["failed"], **{f"{reason}, dropped": count for reason, count in view.stats["dropped"].items()}}
    most = sorted(lost.items(), key=lambda item: -item[1])[:3]
    words = ", ".join(f"{count:,} ({reason})" for reason, count in most)
    return (f"Failed or dropped since the start: {words}.",) if words else ()


def _waiting(view: View) -> str:
    waiting = view.stats.get("queued", 0) + view.stats.get("in_flight", 0) if view.kind is Kind.PRODUCER else 0
    return f"Records that wait in memory: {waiting:,}." if waiting else ""


def _details(*texts: str) -> tuple[str, ...]:
    return tuple(text for text in texts if text)


# -- headlines if no judge has returned one


def _producer_flows(view: View) -> Headline:
    stats = view.stats
    if view.rates["lost"] > 0:
        return Headline(Level.WARNING, "Records are being lost")
    if not stats or not stats["accepted"]:
        return Headline(Level.OK, "Waiting for the first record")
    if stats["queued"] or stats["in_flight"]:
        return Headline(Level.OK, "Records flow")
    return Headline(Level.OK, "No record waits" if _losses(view) else "All records are delivered")


def _consumer_flows(view: View) -> Headline:
    rows = view.partitions.rows
    if not rows:
        return Headline(Level.OK, "No partition is assigned", _details(str(view.member.get("reason") or "")))
    if all(row[1] == "paused" for row in rows):
        return Headline(Level.OK, "All partitions are paused")
    lag = sum(row[5] or 0 for row in rows)
    return Headline(Level.OK, f"Reads, with a lag of {lag:,}" if lag else "Everything is read")


def _share_consumer_flows(view: View) -> Headline:
    return Headline(Level.OK, "Acquires records" if view.partitions.rows else "No partition is assigned")


def _client_flows(view: View) -> Headline:
    return Headline(Level.OK, "Connected")


FLOWS: Final[Mapping[Kind, Callable[[View], Headline]]] = {
    Kind.PRODUCER: _producer_flows,
    Kind.CONSUMER: _consumer_flows,
    Kind.SHARE_CONSUMER: _share_consumer_flows,
    Kind.CLIENT: _client_flows,
}
JUDGES: Final[tuple[Callable[[View], Headline | None], ...]] = (
    *(_client, _ended_member, _partitions, _brokers, _member, _topics, _share_errors, _unread, _reason),
)
