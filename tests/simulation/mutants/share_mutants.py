"""Bugs of share consumers, each with the check that has to find it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pykafka4.core.share.machine import ShareMachine
from pykafka4.core.share.member import ShareMember
from pykafka4.core.share.values import Acknowledgements
from pykafka4.share import delivered
from pykafka4.share.delivered import DeliveredRecords, Outgoing
from pykafka4.share.record import ShareRecord
from tests.simulation.plans.schedules import Hunt, Patch, around

__all__ = ["MUTANTS"]

AGAIN, OFTEN = "an accepted record does not come again", "a shared record comes again only so often"


def nobody_joins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareMember, "polled", lambda self: None)


def accepted_records_are_handed_out_again(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: DeliveredRecords, outgoing: Outgoing) -> None:
        original(self, outgoing)
        self.ready.extend(outgoing.records)

    around(patch, DeliveredRecords, "sent", instead)


def deliveries_are_counted_too_high(patch: pytest.MonkeyPatch) -> None:
    around(patch, ShareRecord, "__init__", lambda original, self, record, count, acquired: original(self, record, count + 10, acquired))


def each_delivery_is_the_first(patch: pytest.MonkeyPatch) -> None:
    around(patch, ShareRecord, "__init__", lambda original, self, record, count, acquired: original(self, record, 1, acquired))


def locks_last_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delivered, "_why_lost", lambda record, now: None)
    patch.setattr(delivered, "_why_ended", lambda record, now: None)


def values_are_cut_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareRecord, "value", property(lambda self: (self._record.value or b"")[:-1]))


def failed_acknowledgements_are_told_as_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Acknowledgements, "fail", lambda self, error: self.report.settle(self.acquired.tp, self.records, None))


def leaving_takes_its_time(patch: pytest.MonkeyPatch) -> None:
    around(patch, ShareMachine, "leave", lambda original, self, now, seconds, then: original(self, now, 60.0, then))


def buffered_records_are_not_renewed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeliveredRecords, "renewals", lambda self, within: {})


MUTANTS: Final[dict[Patch, Hunt]] = {
    nobody_joins: Hunt({"every shared record becomes final"}, says="records are left: "),
    accepted_records_are_handed_out_again: Hunt({AGAIN, OFTEN}, says="given after its acceptance was told: "),
    deliveries_are_counted_too_high: Hunt({OFTEN}, says="more than "),
    each_delivery_is_the_first: Hunt({OFTEN}, says="not a higher count than "),
    locks_last_for_ever: Hunt({"a record is given while it is locked", OFTEN, AGAIN}, says="its lock began "),
    values_are_cut_off: Hunt({"a shared record is what was sent"}, says="another value than "),
    failed_acknowledgements_are_told_as_stored: Hunt({"an acceptance that was told is stored", AGAIN}, says="not final at the broker: "),
    buffered_records_are_not_renewed: Hunt(
        {"a record that waits for a poll stays locked"},
        says="its lock ended before ",
        options={"max_poll_records": 500, "share_acquire_mode": "batch_optimized"},
        plan={"lock": 1.0, "slow": 0.1, "explicit": (False,)},
    ),
    leaving_takes_its_time: Hunt({"share consumers close in time"}, says=" took "),
}
