"""Bugs of messages."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/wire/protocol/messages_sasl.py",
        old='    """The mechanism\'s message to the broker."""\n\n    __reduce_ex__ = refuse\n',
        new='    """The mechanism\'s message to the broker."""\n',
        breaks="a message with the password is pickled",
        tests=("tests/secrets/test_secrets.py::test_a_crash_of_the_loop_while_it_sends_the_password",),
    ),
)
