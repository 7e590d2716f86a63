"""Orders faults by name, for `ModelServer`. Invariant: an unknown API, error or broker is rejected when the fault is ordered."""

from __future__ import annotations

from typing import Final

import attrs

from pykafka4.misuse import check_topic
from pykafka4.testing.faults import checks
from pykafka4.testing.faults.checks import flag, whole
from pykafka4.testing.faults.controls import Fault, Injected, PushedError, When
from pykafka4.testing.faults.names import Api, api_key, api_name, error_name
from pykafka4.testing.model import ModelCluster

__all__ = ["Order", "delay", "disconnect", "fail"]

# By API: the smallest part of a request for which an error can be ordered.
PLACES: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "OffsetCommit", "TxnOffsetCommit", "AddPartitionsToTxn"), "partition"
    ),
    "DeleteRecords": "partition",
    **dict.fromkeys(("ShareFetch", "ShareAcknowledge"), "partition"),  # without a topic: the error of the whole request
    **dict.fromkeys(("Metadata", "CreateTopics", "CreatePartitions", "DeleteTopics"), "topic"),
    **dict.fromkeys(("ApiVersions", "FindCoordinator", "InitProducerId", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"), "request"),
    **dict.fromkeys(("ConsumerGroupHeartbeat", "OffsetFetch", "DescribeGroups", "DeleteGroups", "AddOffsetsToTxn", "EndTxn"), "request"),
    **dict.fromkeys(("ListGroups", "ConsumerGroupDescribe", "OffsetDelete", "ShareGroupHeartbeat", "DescribeLogDirs"), "request"),
}
# APIs for which an ordered error can be returned after the request is executed.
AFTER: Final = (
    *("Produce", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat", "OffsetCommit"),
    "ShareGroupHeartbeat",
    *("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"),
)


@attrs.frozen(eq=False)
class Order:
    """`entry` is the fault in the cluster's `Controls`; `entry.times` counts down."""

    text: str
    times: int
    entry: Injected | PushedError

    def __str__(self) -> str:
        return f"{self.text} (ordered: {self.times}, happened: {self.times - self.entry.times})"


def fail(cluster: ModelCluster, api: Api, error: str, topic: str | None, partition: int | None, times: int, after: bool) -> Order:
    name = known(cluster, api)
    error_name(error)
    times = whole("times", times, 1)
    flag("after", after)
    if name not in PLACES:
        raise ValueError(f"fail does not support {name}, only {', '.join(PLACES)}")
    if after and name not in AFTER:
        raise ValueError(f"after=True is not supported for {name}, only for {', '.join(AFTER)}")
    partition = check_place(cluster, name, topic, partition)
    when = When.AFTER if after else When.BEFORE
    cluster.push_error(api_key(api), error, topic=topic, partition=partition, times=times, when=when)
    where = "" if topic is None else f", topic={topic!r}" + ("" if partition is None else f", partition={partition}")
    return Order(f"fail({name!r}, {error!r}{where}{', after=True' if after else ''})", times, cluster.controls.pushed[-1])


def delay(cluster: ModelCluster, api: Api, seconds: float, broker: int | None, times: int) -> Order:
    seconds = checks.seconds("seconds", seconds, zero=False)
    return inject(cluster, "delay", f"seconds={seconds}", api, Fault.DELAY, broker, times, seconds)


def disconnect(cluster: ModelCluster, api: Api, broker: int | None, times: int, after: bool) -> Order:
    fault = Fault.DROP_AFTER if flag("after", after) else Fault.DROP_BEFORE
    return inject(cluster, "disconnect", f"after={after}", api, fault, broker, times, 0.0)


def inject(cluster: ModelCluster, word: str, detail: str, api: Api, fault: Fault, broker: int | None, times: int, seconds: float) -> Order:
    name = known(cluster, api)
    times = whole("times", times, 1)
    if broker is not None:
        broker = checks.broker("broker", broker, cluster.brokers)
    cluster.inject(api_key(api), fault, node=broker, times=times, seconds=seconds)
    where = "" if broker is None else f", broker={broker}"
    return Order(f"{word}({name!r}, {detail}{where})", times, cluster.controls.injected[-1])


def known(cluster: ModelCluster, api: Api) -> str:
    """Raises ValueError if the cluster's release does not have the API."""
    name = api_name(api)
    if api_key(api) not in cluster.versions:
        raise ValueError(f"the model of Kafka {cluster.release} has no {name}")
    return name


def check_place(cluster: ModelCluster, name: str, topic: str | None, partition: int | None) -> int | None:
    """Check and return `partition`. The topic need not exist yet."""
    if topic is not None and PLACES[name] == "request":
        raise ValueError(f"topic={topic!r}: errors of {name} cannot be ordered for single topics")
    if topic is not None:
        check_topic(topic)
    if partition is None:
        return None
    if PLACES[name] != "partition":
        raise ValueError(f"partition={partition!r}: errors of {name} cannot be ordered for single partitions")
    if topic is None:
        raise ValueError(f"partition={partition!r} without a topic; give its topic, too")
    return checks.partition(partition, cluster.topics.get(topic))
