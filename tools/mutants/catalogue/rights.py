"""Bugs of what errors say about missing rights."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/rights.py",
        old='("Fetch", "topic"): "READ"',
        new='("Fetch", "topic"): "DESCRIBE"',
        breaks="a denied Fetch names another right than READ",
        tests=("tests/test_rights.py::test_a_denied_request_says_which_right_it_needs",),
    ),
    Mutant(
        file="pykafka4/rights.py",
        old='if (request, resource) == ("InitProducerId", "cluster") and topic:',
        new="if False:",
        breaks="a denied producer id names the right of old brokers only",
        tests=("tests/test_rights.py::test_a_denied_request_says_which_right_it_needs",),
    ),
    Mutant(
        file="pykafka4/rights.py",
        old='    if (request, resource) == ("Metadata", "topic") and creating:',
        new="    if False:",
        breaks="a denied creation names DESCRIBE only",
        tests=("tests/test_rights.py::test_a_topic_that_would_have_been_created_may_lack_either_right",),
    ),
    Mutant(
        file="pykafka4/rights.py",
        old='"" if self.resource == "cluster" else f" {self.name or \'<name>\'}"',
        new='f" {self.name}"',
        breaks="the command for a right to the cluster has a name that kafka-acls refuses",
        tests=("tests/test_rights.py::test_the_way_out_is_a_command",),
    ),
)
