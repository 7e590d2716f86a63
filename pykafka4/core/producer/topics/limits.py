"""Looks up the size limits of topics whose batches brokers refused as too large, and repeats the lookups while the topics are in use.

MESSAGE_TOO_LARGE does not contain the limit, so the client requests the `max.message.bytes` of the topic (DescribeConfigs; other topics
cost no request). After the response new batches fit, and without compression `send` refuses a record that is too large. The
client requests the limit again when brokers refuse another batch, and every `metadata_max_age_ms`. Without the right to this request, or
with brokers before Kafka 1.1, the limit stays unknown: batches are split until they fit.
"""

from __future__ import annotations

from typing import Final

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.backoff import Backoff
from pykafka4.core.network.call import AnyBroker, Call, Next, Verdict, unanswered
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError, broker_error
from pykafka4.errors.codes import error_code
from pykafka4.logs import get_log
from pykafka4.options.config import ProducerConfig
from pykafka4.wire.protocol.messages_configs import DescribeConfigsRequest, DescribeConfigsResponse
from pykafka4.wire.records.hot import Accumulator

__all__ = ["TopicLimits"]

log = get_log("pykafka4.producer")

TOPIC: Final = 2  # the kind of resource in DescribeConfigs
OPTION: Final = "max.message.bytes"
FRESH_S: Final = 5.0  # seconds after a lookup, in which brokers may still refuse older batches


class TopicLimits:
    def __init__(self, config: ProducerConfig, network: Network, backoff: Backoff, accumulator: Accumulator) -> None:
        self._client_id, self._max_age, self._acc = config.client_id, config.metadata_max_age_ms / 1000, accumulator
        self._wanted: dict[str, None] = {}  # topics of the next request
        self._again_at: dict[str, float] = {}  # topic -> the time of the next request for it, after a lookup
        self._next_at = INFINITY  # the next time in `_again_at`
        self._call = Call(AnyBroker(network), backoff, config.request_timeout_ms / 1000, self._message, self._answered, self._gave_up)

    def refused(self, topic: str, now: float) -> None:
        """Look up the limit of `topic`, unless the last lookup ended less than FRESH_S ago."""
        again_at = self._again_at.get(topic)
        if again_at is None or again_at - self._max_age + FRESH_S < now:
            self._wanted[topic] = None

    def start_again(self, topic: str) -> None:
        """Forget the limit of `topic`, which was recreated."""
        self.forget(topic)
        self._acc.limit_records(topic, 0)  # 0: the limit is unknown

    def forget(self, topic: str) -> None:
        self._wanted.pop(topic, None)
        self._again_at.pop(topic, None)

    def poll(self, now: float, outbox: Outbox) -> float:
        if now >= self._next_at:
            self._wanted |= dict.fromkeys(topic for topic, again_at in self._again_at.items() if again_at <= now)
            self._next_at = min((again_at for again_at in self._again_at.values() if again_at > now), default=INFINITY)
        due = self._call.poll(now, outbox) if self._wanted else INFINITY
        return min(due, self._next_at)

    def _message(self) -> DescribeConfigsRequest:
        resource = DescribeConfigsRequest.Resource
        return DescribeConfigsRequest(
            resources=[resource(resource_type=TOPIC, resource_name=topic, configuration_keys=[OPTION]) for topic in self._wanted],
            include_synonyms=False,
            include_documentation=False,
        )

    def _answered(self, now: float, outcome: Outcome) -> Verdict:
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        retry: Verdict = None
        for result in outcome.message.results:
            code = error_code(result.error_code)
            if result.error_code and code.retriable:
                retry = Next.ELSEWHERE, broker_error(code.code, f"topic {result.resource_name}", result.error_message, "DescribeConfigs")
            elif result.resource_name in self._wanted:
                self._learn(now, result)
        return retry if self._wanted else None

    def _learn(self, now: float, result: DescribeConfigsResponse.Resource) -> None:
        value = next((config.value for config in result.configs if config.name == OPTION), None) or ""
        self._settle(now, result.resource_name)
        if value.isdecimal():
            topic = result.resource_name
            log.info("%s: topic %s: brokers accept batches of up to %s bytes (its %s)", self._client_id, topic, value, OPTION, topic=topic)
            self._acc.limit_records(topic, int(value))

    def _settle(self, now: float, topic: str) -> None:
        self._wanted.pop(topic, None)
        self._again_at[topic] = now + self._max_age
        self._next_at = min(self._next_at, now + self._max_age)

    def _gave_up(self, now: float, error: KafkaError) -> None:
        for topic in list(self._wanted):
            self._settle(now, topic)
