"""Runs Java's assignors on groups. Invariant: `Assignors.java` passes them the same input as Java's consumer, and uses no code of ours.

A group is a dict: `topics`, a list of `[name, racks of each partition]`, where the racks are one letter each ("ab"; "" for none); and
`members`, in the coordinator's order, each a dict with `id`, `instance`, `topics` (indices in the list of topics), `rack`, `owned` (list of
`[topic, partitions]`), `generation`, and the user data of its sticky assignors as hex (`sticky`, `cooperative-sticky`), or None. `only` is
the assignor to run. The answer has for each assignor a list for each topic, with the index of each partition's owner in the list of
members, -1 for none; or a text: the exception, or "invalid" with the reason. `nanos` has the duration of each assignor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from integration.java.client import JVM, java, with_program

__all__ = ["java_assign"]

PROGRAM = Path(__file__).with_name("Assignors.java")
TIMEOUT_S = 600.0


def java_assign(groups: Iterable[dict[str, Any]], jvm: Iterable[str] = JVM) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(group) + "\n" for group in groups)
    told = java([*jvm, *with_program(PROGRAM), "Assignors"], lines, TIMEOUT_S)
    return [json.loads(line) for line in told.splitlines()]
