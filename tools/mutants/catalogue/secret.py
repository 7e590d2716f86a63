"""Bugs of what holds a secret."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/secret.py",
        old='    raise TypeError(f"a {name} cannot be pickled, as',
        new='    return object.__reduce_ex__(self, protocol)\n    raise TypeError(f"a {name} cannot be pickled, as',
        breaks="what holds a secret is pickled",
        tests=("tests/secrets/test_secrets.py::test_who_is_let_in",),
    ),
    Mutant(
        file="pykafka4/secret.py",
        old="            cls.__init__ = guarded(cls.__init__)",
        new="            cls.__init__ = cls.__init__",
        breaks="the error for a wrong token keeps it",
        tests=("tests/secrets/test_secrets.py::test_calls_that_are_wrong",),
    ),
)
