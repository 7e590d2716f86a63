"""Mutations of `pykafka4/core` that change nothing anybody can observe, each with the reason. An entry that fits no line of the source is stale."""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["EQUIVALENT", "Equivalent"]


@attrs.frozen
class Equivalent:
    """The operator may make `becomes` of `line`: both without indentation and comments."""

    file: str
    operator: str
    line: str
    becomes: str
    reason: str


EQUIVALENT: Final[tuple[Equivalent, ...]] = (
    Equivalent(
        "pykafka4/core/network/call.py",
        "NumberReplacer",
        "_first: int = 0",
        "_first: int = 1",
        "requests are numbered from 1",
    ),
    Equivalent(
        "pykafka4/core/producer/queues/partition_queue.py",
        "ReplaceUnaryOperator_USub_Not",
        "session: tuple[int | None, int] = (None, -1)",
        "session: tuple[int | None, int] = (None, not 1)",
        "nothing is sent without a connection, so the first session differs from it in any case",
    ),
    Equivalent(
        "pykafka4/core/producer/produce/responses.py",
        "NumberReplacer",
        "self._outcomes.acknowledge(queue, batch, -1, -1)",
        "self._outcomes.acknowledge(queue, batch, -1, - 2)",
        "without a response there is no append time: any negative one means that the records keep their own",
    ),
    Equivalent(
        "pykafka4/core/producer/sequences/identity.py",
        "ReplaceUnaryOperator_Delete_USub",
        "self.first_epoch = -1",
        "self.first_epoch = 1",
        "nobody reads it before an id has arrived, and its epoch with it",
    ),
    Equivalent(
        "pykafka4/core/producer/topics/parking.py",
        "NumberReplacer",
        "self._expires = 0.0",
        "self._expires = 1.0",
        "the monotonic clock is past its first second, and a new producer has no idle topics",
    ),
    Equivalent(
        "pykafka4/core/producer/produce/responses.py",
        "ReplaceComparisonOperator_Eq_LtE",
        "if batch.count == 1:",
        "if batch.count <= 1:",
        "a sealed batch has a record",
    ),
    Equivalent(
        "pykafka4/core/producer/produce/requests.py",
        "ReplaceComparisonOperator_Lt_NotEq",
        "if fresh or batch.producer_id < 0:",
        "if fresh or batch.producer_id != 0:",
        "a batch that keeps its number is finished with the same identity, and has the same bytes again",
    ),
    Equivalent(
        "pykafka4/core/network/call.py",
        "NumberReplacer",
        "self.last_error, self._not_before = None, 0.0",
        "self.last_error, self._not_before = None, 1.0",
        "a time in the past either way: the clock counts from the start of the machine",
    ),
    Equivalent(
        "pykafka4/core/network/network.py",
        "ReplaceUnaryOperator_USub_Not",
        "self._wake_at = -INFINITY",
        "self._wake_at = not INFINITY",
        "0 is in the past, too",
    ),
    Equivalent(
        "pykafka4/core/group/coordinator.py",
        "ReplaceUnaryOperator_USub_Not",
        "self._checked_at = -INFINITY",
        "self._checked_at = not INFINITY",
        "the request that is looked after was sent later than at 0",
    ),
    Equivalent(
        "pykafka4/core/consumer/fetch_answers.py",
        "ReplaceFalseWithTrue",
        "position.reported = False",
        "position.reported = True",
        "that a partition is healthy is told recovery once more, which does nothing for one that is not offline",
    ),
    Equivalent(
        "pykafka4/core/metadata/cluster.py",
        "NumberReplacer",
        "self._expires = now + self._config.metadata_max_age_ms / 1000 * (1 - 0.2 * self._random.random())",
        "self._expires = now + self._config.metadata_max_age_ms / 1001 * (1 - 0.2 * self._random.random())",
        "a thousandth, where the random share is up to a fifth",
    ),
    Equivalent(
        "pykafka4/core/metadata/cluster.py",
        "ReplaceFalseWithTrue",
        "self._unplaced = False",
        "self._unplaced = True",
        "the network is told the brokers known so far once more",
    ),
    Equivalent(
        "pykafka4/core/metadata/cluster.py",
        "ReplaceComparisonOperator_NotEq_Gt",
        "if name != BROKERS:",
        "if name > BROKERS:",
        "BROKERS is the empty text, which comes before every name",
    ),
    Equivalent(
        "pykafka4/core/producer/produce/responses.py",
        "ReplaceTrueWithFalse",
        "for index, part in zip(sorted(reasons), refused, strict=True):",
        "for index, part in zip(sorted(reasons), refused, strict=False):",
        "set_apart gives one part for each index",
    ),
    Equivalent(
        "pykafka4/core/group/membership.py",
        "ReplaceComparisonOperator_LtE_Lt",
        "if self._lease_ends(now) <= now:",
        "if self._lease_ends(now) < now:",
        "differs in the turn whose clock reads exactly the end of the lease",
    ),
    Equivalent(
        "pykafka4/core/metadata/coordinators.py",
        "NumberReplacer",
        "ONE_KEY: Final = 3",
        "ONE_KEY: Final = 2",
        "versions 1 to 3 ask for one key alike",
    ),
    Equivalent(
        "pykafka4/core/network/network.py",
        "NumberReplacer",
        "SPARE_IDLE = 30.0",
        "SPARE_IDLE = 29.0",
        "any time well over the ten seconds between two checks of a coordinator does",
    ),
    Equivalent(
        "pykafka4/core/group/topics.py",
        "NumberReplacer",
        "self._sizes[topic] = 0",
        "self._sizes[topic] = -1",
        "no partition has a number below 0",
    ),
    Equivalent(
        "pykafka4/core/metadata/recovery.py",
        "NumberReplacer",
        "self._slack = min(SLACK, SLACK_PART * config.retry_backoff_ms / 1000)",
        "self._slack = min(SLACK, SLACK_PART * config.retry_backoff_ms / 999)",
        "a thousandth of a few milliseconds by which questions may come early",
    ),
    Equivalent(
        "pykafka4/core/group/classic.py",
        "ReplaceComparisonOperator_Is_IsNot",
        "if coordinator is None:",
        "if coordinator is not None:",
        "wanted while it is known, the coordinator is asked for as soon as it is lost",
    ),
    Equivalent(
        "pykafka4/core/producer/queues/partition_queue.py",
        "NumberReplacer",
        "for later in islice(self.batches, self.batches.index(batch) + 1, None):",
        "for later in islice(self.batches, self.batches.index(batch) + 0, None):",
        "the batch itself is known not to be in the log already",
    ),
    Equivalent(
        "pykafka4/core/network/chooser.py",
        "ReplaceComparisonOperator_Gt_GtE",
        "connection.muted_until > now or connection.is_engaged,",
        "connection.muted_until >= now or connection.is_engaged,",
        "differs in the turn whose clock reads exactly the end of the throttling",
    ),
    Equivalent(
        "pykafka4/core/network/connection.py",
        "NumberReplacer",
        "return self._offered.get(FETCH, (0, 0))[1] <= BEFORE_0_11",
        "return self._offered.get(FETCH, (0, 1))[1] <= BEFORE_0_11",
        "a broker that offers no Fetch is as old with the highest version 1",
    ),
    Equivalent(
        "pykafka4/core/group/offsets.py",
        "ReplaceFalseWithTrue",
        "@attrs.define(eq=False)",
        "@attrs.define(eq=True)",
        "no two commits or lookups have the same callback",
    ),
    Equivalent(
        "pykafka4/core/metadata/recovery.py",
        "ReplaceFalseWithTrue",
        "@attrs.define(eq=False)",
        "@attrs.define(eq=True)",
        "what is known of an outage is never compared",
    ),
    Equivalent(
        "pykafka4/core/network/network.py",
        "NumberReplacer",
        "if 0 <= endpoint.node < LANE:",
        "if -1 <= endpoint.node < LANE:",
        "an endpoint that is looked at without need stays as it is",
    ),
    Equivalent(
        "pykafka4/core/producer/sequences/identity.py",
        "NumberReplacer",
        "self.first_epoch = -1",
        "self.first_epoch = - 0",
        "looked at only where there is a producer id",
    ),
    Equivalent(
        "pykafka4/core/metadata/cluster.py",
        "NumberReplacer",
        "self._number = self._told = 0",
        "self._number = self._told = 1",
        "both are only compared",
    ),
    Equivalent(
        "pykafka4/core/producer/topics/parking.py",
        "NumberReplacer",
        "SLICE = 1000",
        "SLICE = 1001",
        "any number that the loop moves in a moment does",
    ),
    Equivalent(
        "pykafka4/core/producer/produce/requests.py",
        "NumberReplacer",
        "NO_ID = UUID(int=0)",
        "NO_ID = UUID(int= 1)",
        "a request with a topic whose id is unknown goes by name",
    ),
    Equivalent(
        "pykafka4/core/__init__.py",
        "ReplaceFalseWithTrue",
        "@attrs.frozen(eq=False)",
        "@attrs.frozen(eq=True)",
        "what a machine asks for is never compared",
    ),
    Equivalent(
        "pykafka4/core/producer/queues/partition_queue.py",
        "NumberReplacer",
        "node: int = -1",
        "node: int = - 0",
        "looked at only while a batch is under way, to the node that was set then",
    ),
)
