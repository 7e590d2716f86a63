"""Runs one contender: `python -m benchmarks.latency.contender NAME SPEC` carries out the methods of `Orders`.

Invariant: a process has one measured run. It imports the client after it has set the environment of the spec, because the environment may
choose how a client works. A run that fails ends the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from benchmarks.latency import acks, members, passing, tasks
from benchmarks.latency.load import Spec
from benchmarks.scale.orders import obey

__all__ = ["TASKS"]

TASKS = "asyncio"  # the `way` of a contender in a program on asyncio
Result = dict[str, Any]


class Orders:
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._reader: passing.Reader | None = None
        self._member: members.Member | None = None

    def acknowledgements(self, load: str) -> Result:
        """Measure acknowledgements. `load`: the name of a function that `acks` and `tasks` have."""
        if self._spec.way == TASKS:
            result: Result = asyncio.run(getattr(tasks, load)(self._spec))
            return result
        found: Result = getattr(acks, load)(self._spec)
        return found

    def connect(self) -> None:
        self._reader = passing.open_reader(self._spec)

    def read(self) -> Result:
        assert self._reader is not None
        return passing.read(self._reader, self._spec.load)

    def write(self) -> Result:
        if self._spec.client == passing.ASYNC:
            return asyncio.run(passing.write_async(self._spec))
        return passing.write(self._spec)

    def join(self) -> None:
        self._member = members.open_member(self._spec)

    def stay(self) -> Result:
        assert self._member is not None
        return members.stay(self._member, self._spec.load)


def main() -> None:
    spec = Spec.from_json(json.loads(sys.argv[2]))
    imported = {"pykafka4", "confluent_kafka", "aiokafka"} & sys.modules.keys()
    assert not imported, f"{imported} imported before the environment is set, which may choose how it works"
    os.environ.update(spec.environment)
    obey(Orders(spec))
    os._exit(0)  # the results are printed; no case measures how clients close


if __name__ == "__main__":
    main()
