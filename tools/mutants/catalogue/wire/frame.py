"""Bugs of frames."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/wire/protocol/frame.py",
        old="    if reason is None and size > 0:\n",
        new="    if reason is None:\n",
        breaks="a negative size is too large, so that a consumer asks for less",
        tests=("tests/wire/protocol/test_frame.py::test_a_size_is_believed_up_to_the_limit",),
    ),
)
