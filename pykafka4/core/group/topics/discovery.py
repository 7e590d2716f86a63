"""Looks up the topics that patterns select. Invariant: a helper thread, not the loop, decodes and matches the list of all topics.

For a subscription by pattern, the list of all topics is requested at once, then periodically (`metadata_max_age_ms`), and when a topic
is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any, Final

from pykafka4.core import INFINITY, Failed, Job, Outcome
from pykafka4.core.backoff import Backoff
from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.core.network.call import AnyBroker, Call, Verdict, unanswered
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.errors import DecodeError, KafkaError, broker_error
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.frame import decode_response
from pykafka4.wire.protocol.messages_cluster import MetadataRequest

__all__ = ["ASK_AGAIN_S", "Discovery"]

log = get_log("pykafka4.group")

ASK_AGAIN_S: Final = 1.0  # seconds until the next request after an unusable list or a failed call, or while a topic is missing

Selected = Mapping[str, bool]  # every topic in the list, and whether the filter selects the topic


class Discovery:
    __slots__ = ("_call", "_config", "_due", "_filter", "_outbox", "_random", "_selected", "_under_way", "found")

    def __init__(self, config: ConsumerConfig, network: Network, random: Random, outbox: Outbox) -> None:
        self._config, self._random, self._outbox = config, random, outbox
        timeout = config.request_timeout_ms / 1000
        self._call = Call(
            AnyBroker(network), Backoff.retry(config, random), timeout, _everything, self._answered, self._gave_up, None, _fit, _keep
        )
        self._filter: TopicFilter | None = None
        self._selected: Selected = {}
        self._due = INFINITY
        self._under_way: object = None  # identifies the job that reads a response
        self.found: frozenset[str] | None = None  # the topics that the filter selects; None: not known yet

    def begin(self, filter: TopicFilter | None) -> None:
        """Look for the topics of `filter`; None: look for no topics. `found` is None until the first list of topics has been read."""
        self._filter, self._selected, self._under_way = filter, {}, None
        self.found = None
        self._due = INFINITY if filter is None else -INFINITY

    def hurry(self, when: float) -> None:
        if self._filter is not None:
            self._due = min(self._due, when)

    def poll(self, now: float) -> float:
        if self._filter is None or self._under_way is not None:
            return INFINITY
        return self._call.poll(now, self._outbox) if self._due <= now else self._due

    def _answered(self, now: float, outcome: Outcome) -> Verdict:
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        filter, before = self._filter, self._selected
        if filter is not None:
            job = self._under_way = object()
            version, frame = outcome.message
            self._outbox.start(Job(partial(_select, filter, before, version, frame), lambda at, result: self._take(at, job, result)))
        self._call.reset()
        return None

    def _gave_up(self, now: float, error: KafkaError) -> None:
        self._due = now + ASK_AGAIN_S
        log.info("%s: cannot look for topics: %s", self._config.log_name, error)

    def _take(self, now: float, job: object, result: Any) -> None:
        if job is not self._under_way:
            return
        self._under_way = None
        if isinstance(result, _Unusable):
            self._due = now + ASK_AGAIN_S
            log.warning("%s: cannot look for topics: %s", self._config.log_name, result)
        elif isinstance(result, BaseException):
            raise result
        else:
            self._selected = result
            self.found = frozenset(topic for topic, selected in result.items() if selected)
            self._due = now + self._config.metadata_max_age_ms / 1000 * (1 - 0.2 * self._random.random())


class _Unusable(Exception):
    """Raised if the response does not list the existing topics."""


def _select(filter: TopicFilter, before: Selected, version: int, frame: bytes) -> Selected:
    """Runs on a helper thread. Raises _Unusable."""
    try:
        _, response = decode_response(MetadataRequest, version, frame)
    except DecodeError as error:
        raise _Unusable(str(error)) from error
    if response.error_code:
        raise _Unusable(str(broker_error(response.error_code, "Metadata")))
    if not response.brokers:  # a broker that has just started has no metadata yet, and lists no topics
        raise _Unusable("the response contains no brokers")
    return filter.select({topic.name: topic.is_internal for topic in response.topics if topic.name and not topic.error_code}, before)


def _everything() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=False)


def _fit(message: MetadataRequest, version: int) -> None:
    """In version 0, an empty list requests all topics; in later versions, null does."""
    if version == 0:
        message.topics = []


def _keep(version: int, frame: Buffer) -> tuple[int, bytes]:
    return version, bytes(frame)
