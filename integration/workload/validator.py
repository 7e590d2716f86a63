"""Applies the rules of Kafka's own validator (`kafkatest/services/verifiable_consumer.py`) to members' journals and the coordinator's log.

Rules, each with a planted breach in `tests/harness/test_validator.py`:

* a member reads records only of partitions that it was assigned, and in a generation in which the coordinator's log says so;
* from an assignment on, the offsets of a partition follow one another, and begin at a committed offset;
* no two members read a partition in one generation, and the coordinator's log gives it to one member at a time;
* a commit never goes back, and never exceeds the records that members had received before it: so no record is skipped;
* a member that ends cleanly leaves position = consumed = committed;
* some member has read every record.

A breach has an author: the member that owned the partition, by the coordinator's log. So breaches of other clients are distinguished from
ours. The log of the topic has no gaps (no transactions, no compaction). Clocks: journals have monotonic seconds, the coordinator wall
milliseconds.
"""

from __future__ import annotations

import bisect
import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import attrs

from integration.judge.group_log import Committed, Event, Generation, Owned, Removed
from integration.workload.journal import MOST

__all__ = ["Breach", "Journal", "breaches", "covered", "pauses", "rebalances", "starved"]

Era = tuple[int, int]  # (how often the coordinator had begun to count anew, as for an empty group that is converted, the generation)

NEVER = float("inf")
NORMAL_S = 0.25  # longest time between two reads of a partition without a fault, in seconds
CLOCK_SKEW_S = 0.05  # seconds by which the two clocks may differ; brokers' timestamps are milliseconds


@attrs.define(eq=False)
class Journal:
    name: str
    kind: str
    lines: Sequence[Mapping[str, Any]]
    instance: str | None = None
    disturbed: bool = False  # frozen or killed at some time

    @property
    def ours(self) -> bool:
        return self.kind == "ours"


@attrs.frozen
class Breach:
    """Breaches by members of other clients are reported, and do not count."""

    member: str
    ours: bool
    text: str

    def __str__(self) -> str:
        return f"{self.member} {self.text}"


@attrs.define(eq=False, slots=False)
class Judge:
    """The evidence, in the forms that the rules need."""

    journals: Sequence[Journal]
    events: Sequence[Event] | None
    ends: Mapping[int, int]
    first: Mapping[int, int]
    wall: float
    found: list[Breach] = attrs.Factory(list)
    by_name: dict[str, Journal] = attrs.field(init=False)
    read_by: dict[int, list[float]] = attrs.field(init=False)  # partition -> for each offset, the time at which all up to it had been read
    owners: dict[Era, dict[int, set[str]]] = attrs.Factory(dict)  # generation -> partition -> members, by the coordinator
    began: list[float] = attrs.Factory(list)  # the times at which the coordinator began to count generations anew
    latest: int = -1  # the generation that the coordinator wrote last

    @functools.cached_property
    def history(self) -> list[tuple[Era, dict[int, set[str]]]]:
        """The latest generation first. Read this property only after `check_log`."""
        return sorted(self.owners.items(), key=lambda row: row[0], reverse=True)

    def __attrs_post_init__(self) -> None:
        self.by_name = {journal.name: journal for journal in self.journals}
        earliest = {p: [NEVER] * max(0, end - self.first.get(p, 0)) for p, end in self.ends.items()}
        for journal in self.journals:
            for line in journal.lines:
                for partition, offset, _ in line.get("rows", ()):
                    place = offset - self.first.get(partition, 0)
                    times = earliest.get(partition, ())
                    if 0 <= place < len(times):
                        times[place] = min(times[place], line["at"])  # type: ignore[index]
        self.read_by = {p: list(accumulate(times, max)) for p, times in earliest.items()}

    def blame(self, member: str, text: str) -> None:
        journal = self.by_name.get(member)
        self.found.append(Breach(member, journal is None or journal.ours, text))  # a breach of an unknown author counts as ours

    def all_read_by(self, partition: int, end: int) -> float:
        place, times = end - self.first.get(partition, 0), self.read_by.get(partition, [])
        if place <= 0:
            return -NEVER
        return times[place - 1] if place <= len(times) else NEVER

    # -- the coordinator's log

    def check_log(self) -> set[tuple[int, int]] | None:
        """Check owners and commits in the order of the coordinator; return the committed offsets."""
        if self.events is None:
            return None
        owner: dict[int, str] = {}
        held: dict[str, frozenset[int]] = {}  # member of the consumer protocol -> its partitions
        at: dict[int, int] = dict.fromkeys(self.ends, -1)
        committed: set[tuple[int, int]] = set()
        for event in self.events:
            if isinstance(event, Committed):
                self.check_commit(event, owner.get(event.partition, "nobody"), at.get(event.partition, -1))
                at[event.partition] = event.offset
                committed.add((event.partition, event.offset))
            elif isinstance(event, Generation):
                held.clear()
                self.new_generation(event, owner)
            elif isinstance(event, Owned):
                self.now_owned(event, held, owner)
            elif isinstance(event, Removed):
                held.pop(event.client, None)
        return committed

    def count(self, generation: int, at_ms: int) -> None:
        if generation < self.latest:
            self.began.append(at_ms / 1000 - self.wall)
        self.latest = generation

    def new_generation(self, event: Generation, owner: dict[int, str]) -> None:
        self.count(event.number, event.at_ms)
        seen: dict[int, str] = {}
        for client, partitions in event.owned.items():
            for partition in partitions:
                if partition in seen:
                    self.blame(client, f"and {seen[partition]} were both assigned {partition} in generation {event.number}")
                seen[partition] = client
                self.note_owner(event.number, partition, client)
        owner.update(seen)

    def now_owned(self, event: Owned, held: dict[str, frozenset[int]], owner: dict[int, str]) -> None:
        held[event.client] = event.partitions
        for partition in event.partitions:
            for other, partitions in held.items():
                if other != event.client and partition in partitions:
                    self.blame(event.client, f"was assigned {partition} in epoch {event.epoch}, which {other} still had")
            owner[partition] = event.client
            for epoch in (event.epoch, event.previous):
                self.note_owner(epoch, partition, event.client)

    def note_owner(self, generation: int, partition: int, client: str) -> None:
        self.owners.setdefault((len(self.began), generation), {}).setdefault(partition, set()).add(client)

    def check_commit(self, event: Committed, owner: str, before: int) -> None:
        partition, offset = event.partition, event.offset
        if offset < before:
            self.blame(owner, f"committed {partition}@{offset} after {before}")
        since = self.all_read_by(partition, offset)
        if since > event.at_ms / 1000 - self.wall + CLOCK_SKEW_S:
            late = "never was" if since == NEVER else f"was {since - event.at_ms / 1000 + self.wall:.2f} s later"
            unread = bisect.bisect_right(self.read_by.get(partition, []), event.at_ms / 1000 - self.wall + CLOCK_SKEW_S)
            self.blame(owner, f"committed {partition}@{offset} before all of it was read: {unread + self.first.get(partition, 0)} {late}")

    # -- one member

    def check_member(self, journal: Journal, committed: set[tuple[int, int]] | None) -> None:
        """Only our members report their assignments."""
        at: dict[int, int | None] = {}  # the next offset of each partition assigned; None: nothing was read of it yet
        for line in journal.lines:
            what, partitions = line["what"], line.get("partitions", ())
            if what == "assigned":
                at.update(dict.fromkeys(partitions))
            elif what in ("revoked", "lost"):
                for partition in partitions:
                    at.pop(partition, None)
            for partition, offset, _ in line.get("rows", ()):
                if partition not in at:
                    self.blame(journal.name, f"read {partition}@{offset}, which is not assigned to it")
                    continue
                due = at[partition]
                allowed = committed is None or (partition, offset) in committed or offset == self.first.get(partition, 0)
                if due is None and not allowed:
                    self.blame(journal.name, f"began to read {partition} at {offset}, which nobody has committed")
                if due is not None and offset != due:
                    self.blame(journal.name, f"read {partition}@{offset} where {due} came next")
                at[partition] = offset + 1
        for era, line in self.eras(journal):
            self.check_generation(journal, era, line)
        if committed is not None:
            self.check_end(journal, committed)

    def eras(self, journal: Journal) -> Iterator[tuple[Era, Mapping[str, Any]]]:
        """An era is the new beginnings of generations up to the member's first event, and the generation."""
        last, count = -1, 0
        for line in journal.lines:
            generation = line.get("generation")
            if generation is None or generation < 0:
                continue
            if generation != last:
                last, count = generation, bisect.bisect_right(self.began, line["at"])
            if "rows" in line:
                yield (count, generation), line

    def check_generation(self, journal: Journal, era: Era, line: Mapping[str, Any]) -> None:
        """The member must own the partitions that it reads, by the coordinator's log, or have been their last owner."""
        for partition in {row[0] for row in line["rows"]}:
            names = next((rows[partition] for other, rows in self.history if other <= era and partition in rows), set())
            if names and not any(self.is_same(journal, name) for name in names):
                self.blame(journal.name, f"read {partition} in generation {era[1]}, which belonged to {', '.join(sorted(names))}")

    def check_end(self, journal: Journal, committed: set[tuple[int, int]]) -> None:
        """A member that ended cleanly has committed all its reads of the partitions that it had when it was asked to end."""
        kinds = [line["what"] for line in journal.lines]
        if journal.disturbed or "closing" not in kinds or "ended" not in kinds:
            return
        closing = kinds.index("closing")
        if any(kind in ("error", "lost") for kind in kinds[closing:]):
            return
        for partition, due in self.positions(journal.lines[:closing]).items():
            if due is not None and (partition, due) not in committed:
                self.blame(journal.name, f"ended without having committed {partition}@{due}, which comes after what it read last")

    @staticmethod
    def positions(lines: Iterable[Mapping[str, Any]]) -> dict[int, int | None]:
        at: dict[int, int | None] = {}
        for line in lines:
            partitions = line.get("partitions", ())
            if line["what"] == "assigned":
                at.update(dict.fromkeys(partitions))
            elif line["what"] in ("revoked", "lost"):
                for partition in partitions:
                    at.pop(partition, None)
            at.update((partition, offset + 1) for partition, offset, _ in line.get("rows", ()))
        return at

    def is_same(self, journal: Journal, name: str) -> bool:
        """The coordinator keeps the client id of a static member's earlier process."""
        other = self.by_name.get(name)
        return journal.name == name or (journal.instance is not None and other is not None and other.instance == journal.instance)

    # -- all members

    def check_generations(self) -> None:
        """One member reads a partition in a generation, or processes of one `group.instance.id`, one after the other."""
        readers: dict[tuple[int, Era], Journal] = {}
        for journal in self.journals:
            for era, line in self.eras(journal):
                for partition in {row[0] for row in line["rows"]}:
                    other = readers.setdefault((partition, era), journal)
                    if other is not journal and (journal.instance is None or other.instance != journal.instance):
                        self.blame(journal.name, f"and {other.name} both read {partition} in generation {era[1]}")

    def check_missing(self) -> None:
        for partition, times in self.read_by.items():
            begin = bisect.bisect_left(times, NEVER)
            if begin < len(times):
                self.blame("nobody", f"read {partition}@{begin + self.first.get(partition, 0)}, and perhaps other offsets")


def breaches(
    journals: Sequence[Journal],
    events: Sequence[Event] | None,
    ends: Mapping[int, int],
    first: Mapping[int, int] | None = None,
    wall: float | None = None,
) -> list[Breach]:
    """The members' breaches of the rules, each text once.

    `ends` has the end of each partition of the topic's log, `first` its start (default: 0). `wall` is wall seconds minus monotonic seconds,
    by default their difference now. Without `events`, the coordinator's log, the rules that need it are left out.
    """
    judge = Judge(journals, events, ends, first or {}, time.time() - time.monotonic() if wall is None else wall)
    committed = judge.check_log()
    for journal in journals:
        if journal.ours:
            judge.check_member(journal, committed)
    if events is not None:  # the events say when generations begin anew
        judge.check_generations()
    if not any("before all of it was read" in breach.text for breach in judge.found):
        judge.check_missing()  # otherwise the author is known
    return list(dict.fromkeys(judge.found))


def rebalances(journal: Journal) -> int:
    """The changes of the member's partitions after its first assignment."""
    changes = [line for line in journal.lines if line["what"] in ("assigned", "revoked", "lost") and line["partitions"]]
    return max(0, len(changes) - 1)


def gaps(journal: Journal, longer: float) -> Iterator[tuple[int, float, float]]:
    """(partition, begin, end) of each interval over `longer` seconds between two reads of a partition that the member kept."""
    last: dict[int, float] = {}
    for line in journal.lines:
        if line["what"] in ("assigned", "revoked", "lost"):
            for partition in line.get("partitions", ()):
                last.pop(partition, None)
        for partition in {row[0] for row in line.get("rows", ())}:
            if line["at"] - last.get(partition, NEVER) > longer:
                yield partition, last[partition], line["at"]
            last[partition] = line["at"]


def busy(journal: Journal) -> Iterator[tuple[float, float]]:
    """The times in which the member could not read: it had no processor, or its application was busy with a commit or a backlog.

    A full list means that more records waited: until the next list, the application was busy.
    """
    committing: float | None = None
    full: float | None = None
    for line in journal.lines:
        if "rows" in line:
            if full is not None:
                yield full, line["at"]
            full = line["at"] if len(line["rows"]) >= MOST else None
        if line["what"] == "starved":
            yield line["since"], line["at"]
        elif line["what"] == "committing":
            committing = line["at"]
        elif committing is not None and line["what"] in ("committed", "error"):
            yield committing, line["at"]
            committing = None


def starved(journal: Journal) -> float:
    """The share of the member's life without the processor."""
    if not journal.lines:
        return 0.0
    seconds = sum(line["at"] - line["since"] for line in journal.lines if line["what"] == "starved")
    return float(seconds / max(journal.lines[-1]["at"] - journal.lines[0]["at"], 1e-9))


def covered(begin: float, end: float, intervals: Iterable[tuple[float, float]]) -> float:
    """The seconds between `begin` and `end` that are in at least one of the intervals."""
    total, at = 0.0, begin
    for first, last in sorted(intervals):
        total += max(0.0, min(last, end) - max(first, at))
        at = max(at, min(last, end))
    return total


def pauses(journal: Journal, longer: float, control: Journal, end: float = NEVER) -> Iterator[tuple[int, float, float]]:
    """(partition, since, seconds) of each pause of more than `longer` seconds before `end`, of partitions that the member kept.

    `control` is a lone member of another group, which nothing disturbs. Times in which `control` does not get a partition's records either,
    or in which the process was busy otherwise, do not count: the group is not their reason.
    """
    excused: dict[int, list[tuple[float, float]]] = {}
    for partition, first, last in gaps(control, NORMAL_S):
        excused.setdefault(partition, []).append((first, last))
    own = [*busy(journal), *busy(control)]
    for partition, first, last in gaps(journal, longer):
        seconds = last - first - covered(first, last, [*own, *excused.get(partition, ())])
        if seconds > longer and last <= end:
            yield partition, first, seconds
