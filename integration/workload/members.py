"""Starts group members in processes of their own, ends them, and compares the records that they read with the brokers' logs.

Invariant: each record of the log was read by some member, unchanged; the members' journals keep the rules of
`integration.workload.validator`. Our members end only when they are asked or killed, raise only errors that the package documents, and
write no traceback.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from integration.cluster import Cluster
from integration.judge.group_log import Event
from integration.judge.reader import LogRecord
from integration.waiting import until
from integration.workload.journal import digest
from integration.workload.validator import Breach, Journal, Judge, breaches, covered
from integration.workload.verifiable import command, translated
from pykafka4 import errors
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest
from pykafka4.wire.protocol.messages_group import OffsetFetchRequest

__all__ = ["Member", "Members", "committed", "coordinator"]

FIND, FETCH = 3, 7  # versions of FindCoordinator and OffsetFetch that ask for one group
ROOT = Path(__file__).parents[2]
ANSWER_S = 60.0
END_S = 60.0  # seconds after which a member that was asked to end is killed


@attrs.define(eq=False)
class Member:
    """`asked` is when the member was asked to end."""

    name: str
    kind: str
    instance: str | None
    process: subprocess.Popen[bytes]
    path: Path
    asked: float | None = None
    frozen: bool = False
    crashed: bool = False  # killed by the test
    disturbed: bool = False  # killed, or frozen at some time
    began: float = attrs.Factory(time.monotonic)
    known: list[dict[str, Any]] = attrs.Factory(list)
    position: int = 0  # bytes of the journal that are in `known`

    @property
    def alive(self) -> bool:
        """Whether the process runs, frozen or not, and was not asked to end."""
        return self.asked is None and self.process.poll() is None

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the journal so far, without a line that is just being written."""
        with self.path.open("rb") as file:
            file.seek(self.position)
            whole, end, _ = file.read().rpartition(b"\n")
        self.known += [line for line in map(self.parse, whole.splitlines()) if line is not None]
        self.position += len(whole) + len(end)
        return self.known

    def parse(self, line: bytes) -> dict[str, Any] | None:
        if self.kind == "java":
            return translated(line) if line.startswith(b"{") else None
        found: dict[str, Any] = json.loads(line)
        return found

    @property
    def journal(self) -> Journal:
        return Journal(self.name, self.kind, self.lines(), self.instance, self.disturbed)

    def signal(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def ask(self) -> None:
        self.thaw()
        if self.alive:
            self.asked = time.monotonic()
            self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.crashed = self.alive
        self.disturbed = True
        self.process.kill()
        self.process.wait(END_S)

    def freeze(self) -> None:
        self.frozen = self.disturbed = True
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self.frozen:
            self.frozen = False
            self.signal(signal.SIGCONT)

    def took(self) -> float | None:
        """The seconds from the request to end until the end; None for a member that did not end by itself.

        The seconds count from the moment when the member exists, because a busy machine may need long to start a process. The time in which
        its process did not get the processor does not count.
        """
        if self.asked is None:
            return None
        made = [line["at"] for line in self.lines() if line["what"] == "made"]
        if not made and self.process.poll() == -signal.SIGTERM:
            return 0.0
        ends = [line["at"] for line in self.lines() if line["what"] == "ended"]
        if not ends:
            return None
        begin: float = max([self.asked, *made])
        starved = [(line["since"], line["at"]) for line in self.lines() if line["what"] == "starved"]
        end = float(ends[-1])
        return max(0.0, end - begin - covered(begin, end, starved))


class Members:
    """A context manager, which leaves no process behind."""

    def __init__(
        self,
        client: Mapping[str, Any],
        group: str,
        topic: str,
        folder: Path,
        session_ms: int = 6_000,
        protocol: str = "classic",
        strategy: str = "range",
    ) -> None:
        """`protocol` and `strategy` are the defaults of new members."""
        self.settings = {
            "client": dict(client), "group": group, "topic": topic, "session_ms": session_ms, "protocol": protocol, "strategy": strategy,
        }  # fmt: skip
        self.group, self.topic, self.folder = group, topic, folder
        self.all: list[Member] = []
        self.numbers = itertools.count(1)

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.all:
            if member.process.poll() is None:
                member.process.kill()
            member.process.wait(END_S)

    def join(self, kind: str = "ours", instance: str | None = None, **others: str) -> Member:
        name = f"{kind}-{next(self.numbers)}"
        path = self.folder / f"{name}.jsonl"
        settings = {**self.settings, "kind": kind, "instance": instance, "name": name, **others}
        with path.open("wb") as out, path.with_suffix(".err").open("wb") as err:
            python = [sys.executable, "-m", "integration.workload.member", json.dumps(settings)]
            program = command(settings, self.folder) if kind == "java" else python
            process = subprocess.Popen(program, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=ROOT)
        self.all.append(Member(name, kind, instance, process, path))
        return self.all[-1]

    def living(self, kind: str | None = None) -> list[Member]:
        return [member for member in self.all if member.alive and kind in (None, member.kind)]

    def end_all(self, which: Callable[[Member], bool] = lambda _: True) -> None:
        chosen = [member for member in self.all if which(member)]
        for member in chosen:
            member.ask()
        for member in chosen:
            try:
                member.process.wait(END_S)
            except subprocess.TimeoutExpired:
                member.process.kill()

    # -- the judge -----------------------------------------------------------------------------------------------------------

    def read(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for member in self.all:
            for line in member.lines():
                for partition, offset, _ in line.get("rows", ()):
                    found.setdefault(partition, set()).add(offset)
        return found

    def wait_read(self, ends: dict[int, int], timeout: float, first: dict[int, int] | None = None) -> None:

        def missing() -> dict[int, int]:
            read = self.read()
            begin = first or {}
            left = {p: sum(o not in read.get(p, ()) for o in range(begin.get(p, 0), end)) for p, end in ends.items()}
            return {p: count for p, count in left.items() if count}

        until(lambda: not missing(), timeout, lambda: f"members of {self.group} to read all; missing {missing()}; {self.state()}")

    def wait_finished(self, ends: dict[int, int], timeout: float, stored: Callable[[], dict[int, int]]) -> None:
        """Wait until all records are read, and each partition has a living member at its end; `stored` returns the committed offsets.

        A member that ends may lose its last commit to a rebalance. The next owner reads these records again and commits them, so members
        must not end before this commit.
        """
        self.wait_read(ends, timeout)

        def standing() -> bool:
            owned = [Judge.positions(member.lines()) for member in self.living()]
            at = {partition: due for positions in owned for partition, due in positions.items()}
            begin = stored() if None in at.values() else {}
            return all(owned) and {p: begin.get(p) if due is None else due for p, due in at.items()} == ends

        until(standing, timeout, lambda: f"living members of {self.group} to be at the ends of all partitions; {self.state()}")

    def state(self) -> str:
        return "; ".join(f"{m.name}: {(m.lines() or [{}])[-1].get('what')}" for m in self.living())

    def repeated(self) -> int:
        times = Counter((p, o) for m in self.all for line in m.lines() for p, o, _ in line.get("rows", ()))
        return sum(count - 1 for count in times.values())

    def breaches(self, events: list[Event], ends: dict[int, int]) -> list[Breach]:
        """Call this after all members have ended."""
        return breaches([member.journal for member in self.all], events, ends)

    def complaints(self, log: dict[int, list[LogRecord]]) -> list[str]:
        """Compare the records that our members have read with the log; return the faults."""
        there = {(partition, r.offset): digest(r.key, r.value, r.headers, r.timestamp) for partition, rows in log.items() for r in rows}
        told = [str(breach) for breach in breaches([member.journal for member in self.all], None, {}) if breach.ours]
        seen: set[tuple[int, int]] = set()
        for member in self.all:
            told += mishaps(member)
            for line in member.lines():
                for partition, offset, checksum in line.get("rows", ()):
                    seen.add((partition, offset))
                    if checksum is not None and there.get((partition, offset), checksum) != checksum:
                        told.append(f"{member.name} read something else at {partition}@{offset} than the log holds")
                    if (partition, offset) not in there:
                        told.append(f"{member.name} read {partition}@{offset}, which the log does not hold")
        missing = sorted(place for place in there if place not in seen)
        if missing:
            told.append(f"{len(missing)} records were read by nobody: {missing[:5]}")
        return told


def mishaps(member: Member) -> list[str]:
    """The mishaps of one of our members that no fault excuses: it ended by itself, or raised an undocumented error.

    A late JoinGroup with the same group.instance.id may fence a static member: a request of the process before it, or its own request,
    after the connection was lost. Kafka cannot tell this from a second process.
    """
    if member.kind != "ours":
        return []
    told = []
    raised = [line["error"] for line in member.lines() if line["what"] == "error"]
    if not member.crashed and member.asked is None and member.process.poll() is not None:
        last = raised[-1] if raised else "without an error"
        if member.instance is None or "FENCED_INSTANCE_ID" not in last:
            told.append(f"{member.name} ended by itself, exit code {member.process.returncode}: {last}")
    told += [f"{member.name} raised {error}" for error in raised if error.partition(":")[0] not in errors.__all__]
    written = member.path.with_suffix(".err").read_text(errors="replace")
    return [*told, f"{member.name} wrote {written[-2000:]}"] if "Traceback" in written else told


def coordinator(cluster: Cluster, group: str) -> int:
    question = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[])

    def asked() -> int | None:
        place = cluster.admin.of_any(lambda node: cluster.admin.ask(node, question, highest=FIND), "who coordinates")
        return place.node_id if not place.error_code else None

    return cluster.wait(asked, ANSWER_S, f"the coordinator of {group}")


def committed(cluster: Cluster, group: str, topic: str, partitions: int) -> dict[int, int]:
    """The offsets that the coordinator has stored, without the client; -1 for a partition without one."""
    wanted = OffsetFetchRequest.Topic(name=topic, partition_indexes=list(range(partitions)))
    message = OffsetFetchRequest(group_id=group, topics=[wanted], groups=[], require_stable=True)

    def asked() -> dict[int, int] | None:
        answer = cluster.admin.ask(coordinator(cluster, group), message, highest=FETCH)
        rows = [row for entry in answer.topics for row in entry.partitions]
        if answer.error_code or any(row.error_code for row in rows):
            return None
        return {row.partition_index: row.committed_offset for row in rows}

    return cluster.wait(asked, ANSWER_S, f"the committed offsets of {group}")
