"""Scripted brokers for questions of an admin client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pykafka4.core.admin.groups import DescribeClassic
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol.frame import RequestHeader
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorResponse
from pykafka4.wire.protocol.messages_fetch import ListOffsetsResponse
from pykafka4.wire.protocol.messages_group import DescribeGroupsResponse
from tests.core.scripted_brokers import World, metadata, versions

Outcome = dict[Any, Any]


def code(name: str) -> int:
    return BY_NAME[name].code


class Scripted(World):
    """Brokers that answer as the test says, in order: `script[api]` gets the message and the host, and returns the response or None."""

    def begin(self) -> None:
        self.script: dict[str, Callable[[Any, str], Any]] = {}
        self.taken: list[tuple[float, str, str, Any]] = []  # (time, api, host, message)
        self.unanswered: list[tuple[int, RequestHeader, Any]] = []  # (link, header, message)

    def _take(self, link: int, header: RequestHeader, message: Any) -> None:
        api = type(message).__name__.removesuffix("Request")
        if api not in self.script:
            super()._take(link, header, message)
            return
        host = self.links[link][0]
        self.taken.append((self.now, api, host, message))
        response = self.script[api](message, host)
        if response is not None:
            self.answer(link, header, response)
        else:
            self.unanswered.append((link, header, message))


@attrs.define
class Harness:
    """A machine and its brokers."""

    world: Scripted
    machine: AdminMachine

    @property
    def script(self) -> dict[str, Callable[[Any, str], Any]]:
        return self.world.script

    @property
    def asked(self) -> list[tuple[float, str, str, Any]]:
        return self.world.taken

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass; requests are answered as soon as they come."""
        self.world.run(seconds)
        assert not self.world.others

    def ask(self, question: Any, place: Any, keys: list[Any], seconds: float = 60.0) -> list[Outcome]:
        """The outcomes, as soon as there are any."""
        outcomes: list[Outcome] = []
        self.machine.begin(self.world.now, question, place, keys, seconds, outcomes.append)
        return outcomes

    def describe(self, *groups: str, seconds: float = 60.0) -> list[Outcome]:
        return self.ask(DescribeClassic(self.machine.address), self.machine.coordinators, list(groups), seconds)

    def of(self, api: str) -> list[tuple[float, str, Any]]:
        return [(at, host, message) for at, name, host, message in self.asked if name == api]


def coordinators(**nodes: int) -> Callable[[Any, str], Any]:
    """What FindCoordinator answers: the node of each group, or an error code below 0."""

    def answer(message: Any, host: str) -> FindCoordinatorResponse:
        kind = FindCoordinatorResponse.Coordinator
        rows = []
        for key in message.coordinator_keys:
            node = nodes.get(key, 1)
            error = -node if node < 0 else 0
            rows.append(kind(key=key, node_id=node, host="", port=0, error_code=error, error_message=None))
        return FindCoordinatorResponse(coordinators=rows)

    return answer


def groups(**errors: str) -> Callable[[Any, str], Any]:
    """What DescribeGroups answers: each group is empty, or has that error."""

    def answer(message: Any, host: str) -> DescribeGroupsResponse:
        kind = DescribeGroupsResponse.Group
        rows = [kind(group_id=g, group_state="Empty", error_code=code(errors[g]) if g in errors else 0) for g in message.groups]
        return DescribeGroupsResponse(groups=rows)

    return answer


def make(**limits: Any) -> Harness:
    world = Scripted.make(retry_backoff_ms=100, request_timeout_ms=30_000)
    assert isinstance(world, Scripted)
    world.begin()
    world.script.update(FindCoordinator=coordinators(), DescribeGroups=groups())
    world.metadata = metadata({"t": [(1, 5), (2, 7)]})
    world.speaks = versions(**limits)
    engine = world.engine
    machine = AdminMachine(engine.config, engine.network, engine.cluster, engine.random)
    engine.add(machine, "admin client")
    world.run()
    return Harness(world, machine)


def offsets_of(message: Any, host: str) -> ListOffsetsResponse:
    kind = ListOffsetsResponse.Topic
    return ListOffsetsResponse(
        topics=[
            kind(
                name=t.name, partitions=[kind.Partition(partition_index=p.partition_index, offset=int(host[1:]) * 10) for p in t.partitions]
            )
            for t in message.topics
        ]
    )
