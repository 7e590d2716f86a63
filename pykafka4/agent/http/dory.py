"""Makes Dory's pages: Dory's fields as JSON, Dory's lines as plain text. Source: dory/src/dory/web_request_handler.cc.

Names and types are Dory's, for monitors written for Dory. Two of Dory's mistakes are not copied: names of topics are escaped, and
tcp_unclean_disconnect has the entries of TCP connections.
"""

from __future__ import annotations

import json
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka4.agent.account.values import Discards, Report
from pykafka4.agent.http.look import TopicQueue
from pykafka4.agent.message import Reason

__all__ = [
    "PageHead",
    "counters",
    "discards",
    "dump",
    "in_plain_text",
    "metadata_fetch_time",
    "metadata_update",
    "queue_counts",
    "server_info",
]

Json = dict[str, Any]
LOCATION: Final = "pykafka4.agent"  # Dory has the file and line of a counter here
UNKNOWN: Final = 0  # an unknown time: Dory's fields are numbers, and null would break readers


def dump(value: object) -> str:
    """Return `value` as JSON with a line for each item, as Dory does."""
    return json.dumps(value, indent=4) + "\n"


@attrs.frozen
class PageHead:
    """The head of a page. Times are in seconds since the epoch."""

    version: str
    started_at: float
    now: float

    def head(self) -> Json:
        return {"pid": os.getpid(), "version": self.version, "since": int(self.started_at), "now": int(self.now)}

    def lines(self) -> list[str]:
        head = self.head()
        times = [f"{name}: {head[name]} {_ctime(head[name])}" for name in ("since", "now")]
        return [f"pid: {head['pid']}", f"version: {head['version']}", *times]


# ---------------------------------------------------------------- values


def server_info(process: PageHead) -> Json:
    return process.head()


def counters(process: PageHead, counts: Mapping[str, int]) -> Json:
    return {**process.head(), "counters": [{"location": LOCATION, "name": name, "value": value} for name, value in counts.items()]}


def queue_counts(process: PageHead, queues: Mapping[str, TopicQueue]) -> Json:
    """Return /queues/json: a row for each topic with messages in batches; `new` counts messages that are in no batch yet."""
    rows = [
        {"topic": topic, "batch": queue.batch, "send_wait": queue.waiting, "ack_wait": queue.in_flight}
        for topic, queue in sorted(queues.items())
        if queue.count > queue.new
    ]
    return {**process.head(), "sending": rows, "new": sum(queue.new for queue in queues.values())}


def metadata_fetch_time(process: PageHead, metadata: Mapping[str, float | None]) -> Json:
    """Return /metadata_fetch_time/json. All times but `since` are in milliseconds since the epoch.

    `last_updated` and `last_modified` are 0 if unknown, for example before the first metadata.
    """
    now = process.now

    def moment(age: float | None) -> int:
        return UNKNOWN if age is None else int((now - age) * 1000)

    head = {**process.head(), "now": int(now * 1000)}
    return {**head, "last_updated": moment(metadata["age"]), "last_modified": moment(metadata["changed"])}


def discards(process: PageHead, interval_s: float, unfinished: Report, finished: Report | None) -> Json:
    """Return /discards/json, without `finished_report` in the first interval."""
    last = {} if finished is None else {"finished_report": _report(finished)}
    return {**process.head(), "interval": int(interval_s), "unfinished_report": _report(unfinished), **last}


def metadata_update(now: float) -> str:
    return f"Metadata update initiated at {int(now)} {_ctime(now)}\n"


def _report(report: Report) -> Json:
    refused, topics = report.refused, report.topics
    return {
        "id": report.number,
        "start_time": int(report.started_at),
        "malformed_msg_count": refused.get(Reason.MALFORMED, 0),
        "unix_stream_unclean_disconnect_count": refused.get(Reason.UNCLEAN_UNIX, 0),
        "tcp_unclean_disconnect_count": refused.get(Reason.UNCLEAN_TCP, 0),
        "unsupported_api_key_msg_count": refused.get(Reason.API_KEY, 0),
        "unsupported_version_msg_count": refused.get(Reason.VERSION, 0),
        "bad_topic_msg_count": report.by_reason.get(Reason.BAD_TOPIC, 0),
        "recent_malformed": _base64(report.recent_malformed),
        "unix_stream_unclean_disconnect": _base64(report.recent_unclean_unix),
        "tcp_unclean_disconnect": _base64(report.recent_unclean_tcp),
        "unsupported_msg_version": [{"version": version, "count": count} for version, count in report.versions.items()],
        "recent_bad_topic": list(report.recent_bad_topics),
        "recent_too_long_msg": _base64(report.recent_too_long),
        "rate_limit_discard": [
            {"topic": topic, "count": count} for topic, row in topics.items() if (count := row.by_reason.get(Reason.RATE_LIMIT, 0))
        ],
        "discard_topic": [_times(topic, count, row.first_ms, row.last_ms) for topic, row in topics.items() if (count := _of_a_topic(row))],
        "possible_duplicate_topic": [
            _times(topic, row.count, row.first_ms, row.last_ms) for topic, row in report.possible_duplicates.items()
        ],
    }


def _of_a_topic(row: Discards) -> int:
    """Return the number of a topic's discards, except for BAD_TOPIC, for which Dory has no row."""
    return row.count - row.by_reason.get(Reason.BAD_TOPIC, 0)


def _times(topic: str, count: int, first_ms: int | None, last_ms: int | None) -> Json:
    return {"topic": topic, "min_timestamp": first_ms or UNKNOWN, "max_timestamp": last_ms or UNKNOWN, "count": count}


def _base64(parts: Iterable[bytes]) -> list[str]:
    return [b64encode(part).decode() for part in parts]


# ---------------------------------------------------------------- plain text


def in_plain_text(page: str, process: PageHead, value: Json) -> str:
    return "\n".join(PLAIN[page](process, value)) + "\n"


def _plain_info(process: PageHead, value: Json) -> list[str]:
    return process.lines()


def _plain_counters(process: PageHead, value: Json) -> list[str]:
    return [*process.lines(), "", *[f"{row['location']}.{row['name']}={row['value']}" for row in value["counters"]]]


def _plain_queues(process: PageHead, value: Json) -> list[str]:
    rows = value["sending"]
    lines = [
        f"batch: {row['batch']:10}  send_wait: {row['send_wait']:10}  ack_wait: {row['ack_wait']:10}  topic: {_bracketed(row['topic'])}"
        for row in rows
    ]
    sums = {"new": value["new"], **{name: sum(row[name] for row in rows) for name in ("batch", "send_wait", "ack_wait")}}
    totals = [f"{count:10} total {name}" for name, count in sums.items()]
    everything = f"{sum(sums.values()):10} total (all states: new + batch + send_wait + ack_wait)"
    return [*process.lines(), "", *lines, *([""] if lines else []), *totals, everything]


def _plain_metadata(process: PageHead, value: Json) -> list[str]:
    pid, version, since, _ = process.lines()
    names = {
        "now": "now",
        "last_updated": "metadata last updated at",
        "last_modified": "metadata last modified at",
    }
    times = [f"{text} (milliseconds since epoch): {value[name]} {_ctime(value[name] / 1000)}" for name, text in names.items()]
    return [pid, version, since, *times]


def _plain_discards(process: PageHead, value: Json) -> list[str]:
    lines = [*process.lines(), f"report interval in seconds: {value['interval']}", "", "current (unfinished) reporting period:"]
    lines += _plain_report(value["unfinished_report"])
    if "finished_report" in value:
        lines += ["", "latest finished reporting period:", *_plain_report(value["finished_report"])]
    return lines


def _plain_report(report: Json) -> list[str]:
    lines = [
        f"    report ID: {report['id']}",
        f"    start time: {report['start_time']} {_ctime(report['start_time'])}",
        f"    malformed msg count: {report['malformed_msg_count']}",
        f"    UNIX stream unclean disconnect count: {report['unix_stream_unclean_disconnect_count']}",
        f"    TCP unclean disconnect count: {report['tcp_unclean_disconnect_count']}",
        f"    unsupported API key msg count: {report['unsupported_api_key_msg_count']}",
        f"    unsupported version msg count: {report['unsupported_version_msg_count']}",
        f"    bad topic msg count: {report['bad_topic_msg_count']}",
    ]
    for name, write in SECTIONS.items():
        rows = [f"    {write(item)}" for item in report[name]]
        lines += ["", *rows] if rows else []
    return lines


def _bracketed(text: str) -> str:
    """Return the escaped text in brackets, after its length. Without escapes, a line break in a client's text would begin a line."""
    shown = json.dumps(text)[1:-1].replace('\\"', '"')
    return f"{len(shown)}[{shown}]"


def _ctime(seconds: float) -> str:
    return time.ctime(seconds)


def _span(words: str) -> Callable[[Any], str]:
    def write(row: Any) -> str:
        return f"{words} {_bracketed(row['topic'])} begin [{row['min_timestamp']}] end [{row['max_timestamp']}] count {row['count']}"

    return write


SECTIONS: Final[Mapping[str, Callable[[Any], str]]] = {
    "recent_malformed": lambda item: f"recent malformed msg: {_bracketed(item)}",
    "unix_stream_unclean_disconnect": lambda item: f"recent UNIX stream unclean disconnect msg: {_bracketed(item)}",
    "tcp_unclean_disconnect": lambda item: f"recent TCP unclean disconnect msg: {_bracketed(item)}",
    "unsupported_msg_version": lambda row: f"unsupported msg version: {row['version']} count: {row['count']}",
    "recent_bad_topic": lambda item: f"recent bad topic: {_bracketed(item)}",
    "recent_too_long_msg": lambda item: f"recent too long msg: {_bracketed(item)}",
    "rate_limit_discard": lambda row: f"rate limit discard topic: {_bracketed(row['topic'])} count {row['count']}",
    "discard_topic": _span("discard topic:"),
    "possible_duplicate_topic": _span("possible duplicate topic:"),
}

PLAIN: Final[Mapping[str, Callable[[PageHead, Json], Sequence[str]]]] = {
    "server_info": _plain_info,
    "counters": _plain_counters,
    "discards": _plain_discards,
    "queues": _plain_queues,
    "metadata_fetch_time": _plain_metadata,
}
