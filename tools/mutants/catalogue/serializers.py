"""Serializers."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        file="pykafka4/serializers.py",
        old="    return TopicSerializers(tuple(",
        new="    return TopicSerializers(list(",
        breaks="a configuration with serializers for topics cannot be hashed",
        tests=("tests/test_serializers.py::test_a_configuration_with_serializers_for_topics_is_a_key_and_does_not_change",),
    ),
)
