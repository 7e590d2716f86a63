"""Changes the records that polls return, for bugs of the client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykafka4.consumer.reading.forms import ListForm, LoopForm
from pykafka4.core.subscription import Claim, OffsetAndEpoch
from pykafka4.wire.records.hot import Record
from tests.simulation.plans.schedules import around

__all__ = ["change_lists"]


def change_lists(patch: pytest.MonkeyPatch, change: Callable[[list[Record]], list[Record]]) -> None:
    """Each list of a poll, and of a step of a loop, is `change` of the real one."""

    def finish(original: Any, self: Any, positions: Mapping[Claim, OffsetAndEpoch]) -> Any:
        self._records = change(self._records)
        return original(self, positions)

    for form in (ListForm, LoopForm):
        around(patch, form, "finish", finish)
