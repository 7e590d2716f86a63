"""What an error keeps of the frames that it left."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka4.errors.frames import empty_frames, guarded, place_of
from pykafka4.options.fields import bad


def raised() -> BaseException:
    """An error with a frame of the application and one of the package, whose cause is such an error, too."""
    local = "application"
    try:
        try:
            guarded(bad)(None, "value", local, "one too many")  # type: ignore[call-arg]
        except TypeError as error:
            raise ValueError from error
    except ValueError as error:
        return error
    raise AssertionError


def variables(error: BaseException | None) -> Iterator[tuple[str, dict[str, object]]]:
    assert error is not None
    return ((frame.f_code.co_name, dict(frame.f_locals)) for frame, _ in traceback.walk_tb(error.__traceback__))


def test_the_frames_of_the_application_keep_their_variables() -> None:
    error = raised()
    empty_frames(error)
    assert [variables["local"] for name, variables in variables(error)] == ["application"]
    assert [name for name, _ in variables(error.__cause__)] == ["raised", "call"]


def test_arguments_and_locals_are_gone_and_places_stay() -> None:
    @guarded
    def fail(word: str) -> None:
        raise ValueError(word[:0])

    with pytest.raises(ValueError) as caught:
        fail("secret")
    names = [name for name, _ in variables(caught.value)]
    assert names[1:] == ["call", "fail"]
    kept = [kept for name, kept in variables(caught.value)][1:]
    assert all("secret" not in repr(each) for each in kept)


def test_the_frames_of_causes_and_contexts_are_empty_too() -> None:
    error = raised()
    for chained in ("__cause__", "__context__"):
        package: dict[str, Any] = {"__name__": "pykafka4.made"}
        exec("def fail(word):\n    raise KeyError\n", package)  # a function of the package
        with pytest.raises(KeyError) as caught:
            package["fail"]("secret")
        setattr(error, chained, caught.value)
        assert list(variables(caught.value))[-1] == ("fail", {"word": "secret"})
        empty_frames(error)
        assert list(variables(caught.value))[-1] == ("fail", {})


def test_a_frame_that_still_runs_and_a_chain_that_is_a_circle_do_no_harm() -> None:
    def still_running() -> Iterator[int]:
        try:
            raise KeyError
        except KeyError as error:
            error.__context__ = error.__cause__ = ValueError()
            error.__cause__.__cause__ = error
            empty_frames(error)
            yield 1
            yield 2

    assert list(still_running()) == [1, 2]


def test_the_place_of_an_error() -> None:
    try:
        raise ValueError
    except ValueError as error:
        line = error.__traceback__.tb_lineno if error.__traceback__ else 0
        assert place_of(error) == f" ({__file__}, line {line}, in test_the_place_of_an_error)"  # noqa: PT017
    assert place_of(ValueError()) == ""
