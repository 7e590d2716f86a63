"""Selects topics by pattern. Invariant: a topic is selected only if a pattern matches its whole name, and nothing excludes the topic.

The Java client matches whole names as well (`Matcher.matches`). Internal topics are left out unless the application asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from pykafka4.core.group.topics.patterns import check_pattern
from pykafka4.errors import ConfigError
from pykafka4.misuse import LEGAL_TOPIC

__all__ = ["INTERNAL", "TopicFilter"]

INTERNAL: Final = frozenset(("__consumer_offsets", "__transaction_state"))  # Metadata v0 (brokers before 0.10) does not mark these


def _any_matches(patterns: Iterable[re.Pattern[str]], topic: str) -> bool:
    return any(pattern.fullmatch(topic) is not None for pattern in patterns)


@attrs.frozen(eq=False)
class TopicFilter:
    """The patterns of a subscription. Filters are compared by identity. Raises ConfigError for a pattern that `check_pattern` refuses."""

    patterns: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...] = ()
    excluded_names: frozenset[str] = frozenset()
    with_internal: bool = False
    regex: str | None = None  # the pattern for the coordinator (KIP-848); the client matches topics as well, to request their metadata

    def __attrs_post_init__(self) -> None:
        for pattern in (*self.patterns, *self.exclude):
            check_pattern(pattern)

    def matches(self, topic: str) -> bool:
        """Whether the filter selects `topic`, provided that the topic exists and is not internal."""
        return topic not in self.excluded_names and _any_matches(self.patterns, topic) and not _any_matches(self.exclude, topic)

    def select(self, topics: Mapping[str, bool], before: Mapping[str, bool]) -> dict[str, bool]:
        """`topics` says which topics are internal. Topics in `before`, the last result, are not matched again."""
        return {
            topic: before[topic] if topic in before else self._selects(topic, internal or topic in INTERNAL)
            for topic, internal in topics.items()
        }

    def _selects(self, topic: str, internal: bool) -> bool:
        if (internal and not self.with_internal) or LEGAL_TOPIC.fullmatch(topic) is None:
            return False
        return self.matches(topic)

    def check_names(self, names: Collection[str]) -> None:
        """Raise ConfigError for a topic that is both subscribed to by name and excluded."""
        both = [name for name in names if name in self.excluded_names or _any_matches(self.exclude, name)]
        if both:
            raise ConfigError(f"topic {both[0]!r} is both subscribed to by name and excluded; leave out one of the two")

    def __str__(self) -> str:
        """As in `status()`: `orders-.* without orders-test, .*-old`."""
        left_out = [*sorted(self.excluded_names), *(pattern.pattern for pattern in self.exclude)]
        shown = ", ".join(pattern.pattern for pattern in self.patterns)
        return shown + (f" without {', '.join(left_out)}" if left_out else "")
