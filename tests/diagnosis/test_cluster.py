"""The controller: who leads, who is behind, and whether its clock is that of this machine."""

from __future__ import annotations

import time

import pytest

from pykafka4 import AdminClient, QuorumDescription
from pykafka4.core.admin.cluster import QuorumReplica
from pykafka4.diagnosis.values import Outcome
from pykafka4.testing import ModelServer
from tests.diagnosis.looking import findings, of

CLOCKS = {"behind": (-60.0, Outcome.WRONG), "right": (0.0, Outcome.FINE), "ahead": (60.0, Outcome.WRONG)}


@pytest.mark.model(brokers=1)
@pytest.mark.parametrize("case", CLOCKS)
def test_a_clock_that_differs_from_that_of_this_machine_is_wrong(server: ModelServer, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    seconds, outcome = CLOCKS[case]
    leader = QuorumReplica(7, 5_000, 0, int((time.time() + seconds) * 1_000))
    quorum = QuorumDescription(7, 3, 5_000, (QuorumReplica(8, 3_000, 2_000, 0), QuorumReplica(9, None, None), leader), ())
    monkeypatch.setattr(AdminClient, "describe_quorum", lambda *_, **__: quorum)  # model brokers have none
    found = findings(server.bootstrap_servers)
    (clock,) = of(found, "clock")
    assert (clock.about, clock.outcome) == ("controller 7", outcome)
    assert case in clock.evidence or outcome is Outcome.FINE
    late, leads = of(found, "controller")
    assert (late.outcome, late.evidence) == (Outcome.NOTICE, "8 by 2000 records; 9 by an unknown number of records")
    assert (leads.about, leads.outcome) == ("controller 7", Outcome.FINE)
