"""Lists the built-in assignors by name. Invariant: an assignor has the same name here, in Java and in the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykafka4.assignors.interface import Assignor
from pykafka4.assignors.range import RangeAssignor
from pykafka4.assignors.round_robin import RoundRobinAssignor
from pykafka4.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = ["ASSIGNORS"]

_ALL: tuple[Assignor, ...] = (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
ASSIGNORS: Final[Mapping[str, Assignor]] = {assignor.name: assignor for assignor in _ALL}
