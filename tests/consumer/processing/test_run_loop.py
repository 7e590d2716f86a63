"""The run loop, without threads, tasks or brokers: in which order it polls, waits, commits and releases."""

from __future__ import annotations

import attrs
import pytest

from pykafka4.consumer.waits import at_once
from pykafka4.errors import BufferFull, ClosedError, KafkaError
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.records.hot import Record
from tests.consumer.processing.run_fakes import LIMITS, T0, T1, Fakes, places

EVERY = "pykafka4.consumer.processing.run_loop.COMMIT_INTERVAL_S"


@pytest.fixture(autouse=True)
def _commits_are_never_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EVERY, 1e9)


END = ["go back {0: 5, 1: 3}", "resume []", "commit {0: 5} within 7"]


def test_a_run_polls_then_drains_goes_back_and_commits() -> None:
    fakes = Fakes(rounds=2)
    at_once(fakes.run.run())
    fakes.run.end()
    assert fakes.journal == ["poll 50", "start_due", "poll 50", "start_due", "drain after NoneType", "cancel handlers", *END, "end_run"]


def test_an_error_of_a_poll_ends_the_run_in_the_same_way() -> None:
    fakes = Fakes(rounds=2, poll=KafkaError("no"))
    with pytest.raises(KafkaError, match="no"):
        at_once(fakes.run.run())
    assert fakes.journal == ["poll 50", "drain after KafkaError", "cancel handlers", *END]


def test_after_an_interrupted_drain_the_last_commit_does_not_wait() -> None:
    fakes = Fakes(drain=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        at_once(fakes.run.run())
    assert fakes.journal == ["drain after NoneType", "cancel handlers", *END[:2], "commit_async {0: 5}"]


def test_ctrl_c_while_the_run_goes_back_has_it_go_back_again() -> None:
    fakes = Fakes(resume=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        at_once(fakes.run.run())
    assert fakes.journal[2:] == [*END[:2], *END[:2]]


@pytest.mark.parametrize("call", ["go_back", "commit"])
def test_a_run_whose_consumer_is_closed_elsewhere_stays_its_listener(call: str) -> None:
    fakes = Fakes(**{call: ClosedError("closed")})
    at_once(fakes.run.run())
    fakes.run.end()
    assert (fakes.run.closed, "end_run" in fakes.journal) == (True, False)


@pytest.mark.parametrize("call", ["go_back", "commit"])
def test_a_run_whose_client_has_crashed_ends(call: str) -> None:
    fakes = Fakes(**{call: KafkaError("crashed")})
    at_once(fakes.run.run())
    fakes.run.end()
    assert (fakes.run.closed, fakes.journal[-1]) == (False, "end_run")


def test_an_abandoned_run_ends_without_a_wait() -> None:
    fakes = Fakes()
    fakes.abandoned = True
    at_once(fakes.run.run())
    assert fakes.journal == []
    fakes.run.abandon()
    assert fakes.journal == ["cancel handlers", *END[:2], "end_run", "commit_async {0: 5}"]


def test_a_run_whose_event_loop_is_closed_during_the_drain_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = Fakes()

    def collected(error: BaseException | None) -> float:
        fakes.abandoned = True
        raise GeneratorExit

    monkeypatch.setattr(fakes, "drain", collected)
    with pytest.raises(GeneratorExit):
        at_once(fakes.run.run())
    assert fakes.journal == []


def test_a_partition_is_released_after_the_commit_of_its_finished_records() -> None:
    fakes = Fakes()
    fakes.run.on_partitions_revoked([T0])
    assert fakes.journal == ["wait 20", "drop", "commit {0: 7} within 10", "tell 0"]
    assert fakes.run.committable() == {T1: OffsetAndMetadata(3, 1)}, "its next owner commits"


@pytest.mark.parametrize(("left", "wait", "commit"), [(4.0, "wait 4", "commit {0: 7} within 4"), (0.0, "wait 0", "commit_async {0: 7}")])
def test_a_revocation_keeps_to_the_time_of_a_close(left: float, wait: str, commit: str) -> None:
    fakes = Fakes()
    fakes.seconds_left = left
    fakes.run.on_partitions_revoked([T0])
    assert fakes.journal == [wait, "drop", commit, "tell 0"]


def test_a_failed_commit_does_not_keep_a_partition() -> None:
    fakes = Fakes(commit=KafkaError("no"))
    fakes.run.on_partitions_revoked([T0])
    assert fakes.journal[-1] == "tell 0"


def test_a_lost_partition_is_dropped_without_a_commit() -> None:
    fakes = Fakes()
    fakes.run.on_partitions_lost([T0])
    assert fakes.journal == ["drop", "tell 0"]


def test_a_partition_that_nobody_reads_is_paused_and_not_committed() -> None:
    fakes = Fakes()
    fakes.run.on_partitions_assigned([T0, T1])
    assert (fakes.journal, places(fakes.run.committable())) == ([f"pause {{{T1!r}}}"], {0: 5})


def test_a_commit_that_cannot_be_queued_is_repeated(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(EVERY, -1.0)
    fakes = Fakes(rounds=2, commit_async=BufferFull("callbacks wait"))
    at_once(fakes.run.run())
    assert fakes.journal[:6] == ["poll 50", "start_due", "commit_async {0: 5}"] * 2
    assert caplog.text.count("committed later, or read again: callbacks wait") == 2


def test_without_a_group_nothing_is_committed() -> None:
    fakes = Fakes(attrs.evolve(LIMITS, commits=False))
    at_once(fakes.run.run())
    assert fakes.journal[-1] == "resume []"


def test_finished_records_are_committed_once_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EVERY, -1.0)
    fakes = Fakes(rounds=2)
    monkeypatch.undo()
    at_once(fakes.run.run())
    assert fakes.journal[:6] == ["poll 50", "start_due", "commit_async {0: 5}", "poll 50", "start_due", "drain after NoneType"]


def test_a_partition_that_assign_has_taken_away_is_dropped_and_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EVERY, -1.0)
    fakes = Fakes(rounds=1)
    fakes.run.on_partitions_lost([T0])
    fakes.assigned, fakes.journal = {T1}, []
    at_once(fakes.run.run())
    assert fakes.journal[:3] == ["poll 50", "start_due", "drop"]
    assert places(fakes.run.committable()) == {0: 9, 1: 3}, "the listener hears nothing of a partition of assign"


def test_a_partition_that_comes_back_is_committed_again() -> None:
    fakes = Fakes()
    fakes.run.on_partitions_lost([T0])
    fakes.run.on_partitions_assigned([T0])
    assert places(fakes.run.committable()) == {0: 9, 1: 3}


def test_a_run_ends_when_its_commit_finds_the_consumer_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EVERY, -1.0)
    fakes = Fakes(rounds=2, commit_async=ClosedError("closed"))
    with pytest.raises(ClosedError):
        at_once(fakes.run.run())
    assert fakes.journal[3] == "drain after ClosedError"


def full(rounds: int) -> Fakes:
    """A run that has paused partition 0, as its share of records is in hand."""
    fakes = Fakes(rounds=rounds)
    fakes.polled, fakes.in_hand = [Record("t", 0, 5, value=b"v")], 50
    fakes.run._round(fakes.polled)
    assert fakes.journal == ["taken", f"pause {{{T0!r}}}", f"watch {{{T0!r}: 25}}", "start_due"]
    fakes.journal = []
    return fakes


def test_a_paused_partition_goes_on_when_half_of_its_share_is_free() -> None:
    fakes = full(rounds=1)
    fakes.polled, fakes.in_hand = [], 25
    at_once(fakes.run.run())
    assert fakes.journal[:4] == ["poll 50", "resume [0]", "watch {}", "start_due"]


def test_a_paused_partition_is_resumed_before_another_member_has_it() -> None:
    fakes = full(rounds=0)
    fakes.run.on_partitions_revoked([T0])
    assert fakes.journal[:3] == ["wait 20", "drop", "resume [0]"]


def test_a_partition_that_the_application_has_paused_stays_paused() -> None:
    fakes = full(rounds=0)
    fakes.run.paused_by_application([T0])
    at_once(fakes.run.run())
    assert "resume []" in fakes.journal
