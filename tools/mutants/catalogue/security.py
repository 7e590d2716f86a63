"""Bugs of the options of security."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/security.py",
        old="        if secret := given(self, [a.name for a in attrs.fields(type(self)) if not a.repr]):\n",
        new="        if secret := []:\n",
        breaks="a configuration with a password is pickled",
        tests=("tests/secrets/test_secrets.py::test_who_is_let_in",),
    ),
)
