"""Crashes. An exception where the client expects none: in the loop or network, which all of a client share, or in a consumer's machine.

The first of the chosen calls that comes raises. From then on every call of that consumer has to end, and to say so.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pykafka4.core.group.membership.classic_requests import GroupRequest
from tests.simulation.judge.invariants import Broken

if TYPE_CHECKING:
    from tests.simulation.users.members import Member

__all__ = ["CRASHES", "Crashed"]

LATEST_S: Final = 1.0  # seconds until every call that was under way has ended

# What raises: an object, from the consumer's machine, and its method. Without an object: what all of the client share.
CRASHES: Final[dict[str, tuple[str, str]]] = {
    "loop": ("", ""),
    "network": ("", "network"),
    "machine": ("machine", "poll"),
    "membership": ("membership", "poll"),
    "fetcher": ("fetcher", "poll"),
    "offsets": ("offsets", "poll"),
    "answer to Fetch": ("fetcher.answers", "_answered"),
    "answer to Heartbeat": ("membership.protocol", "answered"),
    "answer to JoinGroup": ("membership.protocol", "answered"),
    "answer to SyncGroup": ("membership.protocol", "answered"),
    "answer to OffsetCommit": ("offsets", "_read_verdicts"),
    "answer to OffsetFetch": ("offsets", "_settle"),
    "revocation": ("membership.protocol", "_revoke"),
    "seek": ("fetcher", "seek"),
}


# Of these methods only the calls about one kind of request raise.
KINDS: Final = {
    "answer to Heartbeat": GroupRequest.HEARTBEAT,
    "answer to JoinGroup": GroupRequest.JOIN,
    "answer to SyncGroup": GroupRequest.SYNC,
}


class Crash(RuntimeError):
    """The exception."""


class Crashed:
    """The crash of one member's consumer."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.session: Any = None
        self.what = ""
        self.at: float | None = None  # when it came
        self._loop = False  # the loop is to crash in its next turn

    def order(self, what: str) -> None:
        """Have it crash at the next occasion."""
        self.what = what
        self._member.sim.note(f"{self._member.name} is to crash: {what}")
        where, method = CRASHES[what]
        engine, machine = self.session.runtime.engine, self.session.machine
        if what == "loop":
            self._loop = True
            return
        target = engine.network if what == "network" else machine if where == "machine" else attrgetter(where)(machine)

        method, kind = "poll" if what == "network" else method, KINDS.get(what)
        if kind is not None and not hasattr(target, method):
            method = "heartbeat_ended"  # the only request of the consumer protocol
        whole = getattr(target, method)

        def crash(*args: Any, **options: Any) -> Any:
            if kind is not None and getattr(args[1], "kind", GroupRequest.HEARTBEAT) is not kind:
                return whole(*args, **options)
            self._came()
            raise Crash("injected")

        setattr(target, method, crash)

    @property
    def shared(self) -> bool:
        """Whether it concerns all of the client."""
        return self.what in ("loop", "network")

    def turn(self) -> None:
        """The loop turns."""
        if self._loop:
            self._loop = False
            self._came()
            raise Crash("injected")

    def _came(self) -> None:
        if self.at is None:
            sim = self._member.sim
            sim.note(f"{self._member.name} crashes: {self.what}")
            self.at = sim.timeline.now
            sim.upset()
            sim.timeline.after(LATEST_S, lambda: self._check(self.at))

    def _check(self, came: float | None) -> None:
        """No call waits for an answer that never comes."""
        call = self._member.call
        if call is not None and came is not None and call[1] <= came and not self._member.process.killed:
            self._member.sim.world.fail(Broken("a crash is told", f"{self._member.name} crashed ({self.what}), {call[0]} still waits"))
