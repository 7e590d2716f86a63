"""Topics: create, describe, extend, delete, list. Rule: with `wait`, a call returns when every broker that is up knows of the change."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka4.admin.calls import AdminCalls, all_done
from pykafka4.core.admin.topics import CreatedTopic, CreateTopics, NewTopic
from pykafka4.misuse import check_topic

__all__ = ["TopicCalls"]


class TopicCalls(AdminCalls):
    """The calls of an `AdminClient` about topics."""

    def create_topics(
        self,
        topics: Mapping[str, int | NewTopic],
        *,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics with so many partitions each; `NewTopic` has more of a topic. Source: CreateTopics of the protocol guide."""
        wanted = {check_topic(name): _new(topic, replication_factor, configs or {}) for name, topic in topics.items()}
        deadline = self._begin(timeout)
        question = CreateTopics(wanted, int(deadline.left * 1000), validate_only=validate_only)
        found = self._of_controller(question, wanted, deadline)
        return all_done("topics cannot be created", found)


def _new(topic: int | NewTopic, replication_factor: int, configs: Mapping[str, str]) -> NewTopic:
    return topic if isinstance(topic, NewTopic) else NewTopic(topic, replication_factor, None, configs)
