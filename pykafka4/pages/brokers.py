"""Joins the connections in `status()["brokers"]` into one row for each broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["away", "brokers", "brokers_json"]

MOST_BROKERS: Final = 200


def brokers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A row for each broker, with an error only if no connection is ready and an attempt to connect has failed.

    A connection that has ended, as after a restart of the broker, keeps its error until a request needs the connection, perhaps for hours.
    This error would show a healthy broker as away.
    """
    links: dict[tuple[int | None, str], list[Mapping[str, Any]]] = {}
    for link in status.get("brokers", ()):
        links.setdefault((link["node"], link["address"]), []).append(link)
    return [_joined(each) for each in links.values()]


def _joined(links: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    # A ready connection shows that the broker works, whatever the other connections report.
    best = max(links, key=lambda link: (link["state"] == "ready", link["failures"]))
    return {
        **best,
        "in_flight": sum(link["in_flight"] for link in links),
        "throttled_ms": max(link["throttled_ms"] for link in links),
        "error": best["error"] if best["failures"] else None,
    }


def away(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in brokers(status) if row["error"] and row["node"] is not None and row["node"] >= 0]


def brokers_json(status: Mapping[str, Any]) -> dict[str, Any]:
    """A bootstrap address has a row only if an attempt to connect to it has failed."""
    names = ("node", "address", "state", "in_flight", "throttled_ms", "error")
    rows = [{name: row[name] for name in names} for row in brokers(status) if row["node"] is None or row["node"] >= 0 or row["error"]]
    return {"rows": rows[:MOST_BROKERS], "count": len(rows)}
