"""Collects requests and jobs from the parts of a machine. Invariant: each request and each job leaves at most once, with the
machine's next `Effects`."""

from __future__ import annotations

from collections.abc import Callable

from pykafka4.core import NOTHING, Effects, Job, Request

__all__ = ["Outbox"]


class Outbox:
    __slots__ = ("_nothing", "jobs", "requests")

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.jobs: list[Job] = []
        self._nothing = NOTHING

    def send(self, request: Request) -> None:
        self.requests.append(request)

    def start(self, job: Job) -> None:
        """Add `job`, which a thread of `job.threads` runs."""
        self.jobs.append(job)

    def effects(self, wake_at: float, deliver: tuple[Callable[[], None], ...] = ()) -> Effects:
        """Return the collected requests and jobs, and `deliver`. An idle turn allocates nothing while `wake_at` stays the same."""
        if self.requests or self.jobs or deliver:
            found = Effects(tuple(self.requests), deliver, tuple(self.jobs), wake_at)
            self.requests.clear()
            self.jobs.clear()
            return found
        if wake_at != self._nothing.wake_at:
            self._nothing = Effects(wake_at=wake_at)
        return self._nothing
