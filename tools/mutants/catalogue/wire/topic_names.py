"""Bugs of reading the names of all topics."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/wire/protocol/topic_names.py",
        old="            if name and not error_code:\n",
        new="            if name:\n",
        breaks="a topic that a broker cannot describe is subscribed to",
        tests=("tests/wire/protocol/test_topic_names.py::test_names_are_read_whatever_the_version",),
    ),
    Mutant(
        file="pykafka4/wire/protocol/topic_names.py",
        old="        if self._pos != len(self._frame):\n",
        new="        if self._pos > len(self._frame):\n",
        breaks="bytes behind the response are ignored",
        tests=("tests/wire/protocol/test_topic_names.py::test_damaged_bytes_raise_only_decode_errors",),
    ),
)
