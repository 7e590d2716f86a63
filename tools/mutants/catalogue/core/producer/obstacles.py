"""Bugs of why a batch cannot be sent."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/producer/obstacles.py",
        old="(self._codec(topic) or self._config.compression_type)",
        new="self._config.compression_type",
        breaks="a topic with its own codec zstd is sent to brokers that do not know it",
        tests=("tests/core/producer/test_sender_versions.py::test_zstd_of_a_topic_is_refused_by_name_and_other_topics_go_on",),
    ),
)
