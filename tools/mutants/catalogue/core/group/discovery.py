"""Bugs of subscriptions by pattern."""

from __future__ import annotations

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

DISCOVERY: Final = "tests/core/group/test_discovery.py::"
FILTER: Final = "tests/core/group/test_topic_filter.py::"
PATTERNS: Final = "tests/core/group/test_patterns.py::"

MUTANTS: Final = (
    Mutant(
        file="pykafka4/core/group/discovery.py",
        old="        if job is not self._under_way:\n            return\n",
        new="",
        breaks="the topics of an earlier pattern are subscribed to",
        tests=(f"{DISCOVERY}test_a_result_for_an_earlier_pattern_is_ignored",),
    ),
    Mutant(
        file="pykafka4/core/group/discovery.py",
        old="    if not names.brokers:",
        new="    if False:",
        breaks="a broker that has just started ends the subscription to all topics of a pattern",
        tests=(f"{DISCOVERY}test_a_response_that_says_nothing_is_requested_again_soon",),
    ),
    Mutant(
        file="pykafka4/core/group/discovery.py",
        old="            self._due = now + self._config.metadata_max_age_ms / 1000 * (1 - 0.2 * self._random.random())\n",
        new="            self._due = INFINITY\n",
        breaks="topics that come later are not found",
        tests=(f"{DISCOVERY}test_all_topics_are_requested_again_when_the_metadata_expires",),
    ),
    Mutant(
        file="pykafka4/core/group/discovery.py",
        old="    if version == 0:\n",
        new="    if False:\n",
        breaks="a broker before 0.10 cannot be asked for all topics",
        tests=(f"{DISCOVERY}test_the_oldest_version_requests_all_topics_with_an_empty_list",),
    ),
    Mutant(
        file="pykafka4/core/group/topic_filter.py",
        old="internal or topic in INTERNAL",
        new="internal",
        breaks="the offsets topic of an old broker is read by a pattern",
        tests=(f"{FILTER}test_internal_topics_are_left_out_unless_they_are_wanted",),
    ),
    Mutant(
        file="pykafka4/core/group/topic_filter.py",
        old="topic: before[topic] if topic in before else ",
        new="topic: ",
        breaks="all topics are compared with a pattern again each time",
        tests=(f"{FILTER}test_only_names_that_are_new_are_compared",),
    ),
    Mutant(
        file="pykafka4/core/group/patterns.py",
        old="    if _ways(tree) <= FEW:\n",
        new="    if len(tree) <= 5:\n",
        breaks="re gets a pattern for which it takes exponential time",
        tests=(f"{PATTERNS}test_what_only_re_can_match_is_refused_if_it_could_take_exponential_time",),
    ),
    Mutant(
        file="pykafka4/core/group/patterns.py",
        old="            new = body(walk, new) & ~reached\n",
        new="            new = body(walk, at) & ~reached\n",
        breaks="a repetition is matched once at most",
        tests=(f"{PATTERNS}test_all_alternatives_at_once_give_the_verdict_of_re",),
    ),
)
