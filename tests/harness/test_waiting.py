"""A wait ends with a result or with an error message."""

from __future__ import annotations

import pytest

from integration.waiting import Deadline, WaitTimeout, until


def test_the_answer_is_handed_back() -> None:
    answers = iter([None, 0, "", "ready"])
    assert until(lambda: next(answers), 5, "an answer") == "ready"


def test_a_wait_that_fails_says_for_what_and_why() -> None:
    def refuse() -> bool:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(WaitTimeout, match=r"waited 0 s for a broker \(ConnectionRefusedError: nobody there\)") as caught:
        until(refuse, 0, "a broker", forgive=(OSError,))
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


def test_an_error_that_is_not_forgiven_ends_the_wait_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        until(lambda: 1 / 0, 60, "never", forgive=(OSError,))


def test_the_condition_is_asked_once_even_with_no_time_left() -> None:
    assert until(lambda: True, 0, "the truth")
    assert Deadline(-1).passed()
    assert Deadline(-1).left() == 0
