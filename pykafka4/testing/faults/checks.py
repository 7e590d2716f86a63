"""Checks the arguments that a test passes, with messages that name the argument."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from numbers import Real
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from pykafka4.testing.broker import Brokers
from pykafka4.testing.faults.names import nearest
from pykafka4.testing.storage.partition import Topic, Topics
from pykafka4.wire.records.layout import INT64_MAX

__all__ = ["broker", "checked", "flag", "instance", "known", "leaders", "partition", "seconds", "whole"]

P = ParamSpec("P")
T = TypeVar("T")
MOST: Final = 2**31 - 1


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name}={value!r} is not an int")
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{name}={number} must be from {least} to {most}")
    return number


def seconds(name: str, value: Any, *, zero: bool = True) -> float:
    allowed = "a finite, non-negative number" if zero else "a positive number"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is not {allowed}")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{name}={value!r} is not {allowed}")
    return number


def instance(name: str, value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} is not a {kind.__name__}")
    return value


flag: Final = functools.partial(instance, kind=bool)


def broker(name: str, value: Any, brokers: Collection[int]) -> int:
    number = whole(name, value, -MOST)
    if number not in brokers:
        raise ValueError(f"{name}={number}: the brokers are {', '.join(map(str, brokers))}")
    return number


def partition(value: Any, topic: Topic | None) -> int:
    """If `topic` is None, any number from 0 to `MOST` is accepted."""
    number = whole("partition", value)
    if topic is not None and number >= len(topic.partitions):
        raise ValueError(f"partition={number} must be less than {len(topic.partitions)}, the number of partitions of topic {topic.name!r}")
    return number


def known(given: Iterable[str], allowed: Collection[str], what: str) -> None:
    for name in given:
        if name not in allowed:
            raise TypeError(f"{name!r} is not {what} ({', '.join(sorted(allowed))}){nearest(name, allowed)}")


def leaders(value: Any, brokers: Collection[int]) -> list[int]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"leaders={value!r} is not a list of brokers, one for each partition")
    return [broker(f"leaders[{place}]", node, brokers) for place, node in enumerate(value)]


# ---- methods of the cluster


class Named(Protocol):
    brokers: Brokers
    topics: Topics


def _topic(name: str, value: Any, cluster: Named) -> str:
    if value not in cluster.topics:
        raise ValueError(f"{name}={value!r}: no such topic{nearest(str(value), cluster.topics)}")
    return str(value)


ARGUMENTS: Final[Mapping[str, Callable[[str, Any, Named], Any]]] = {
    **dict.fromkeys(("node", "to"), lambda name, value, cluster: broker(name, value, cluster.brokers)),
    **dict.fromkeys(("seconds", "failover", "loading"), lambda name, value, cluster: seconds(name, value)),
    **dict.fromkeys(("partition", "lost", "times", "shrink_isr.to"), lambda name, value, cluster: whole(name, value)),
    "delete_records.to": lambda name, value, cluster: whole(name, value, most=INT64_MAX),
    "topic": _topic,
}


def checked(method: Callable[P, T]) -> Callable[P, T]:
    """Check the arguments of a cluster's method by their names. None is accepted if it is the default."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: P.args, **names: P.kwargs) -> T:
        bound = signature.bind(*args, **names)
        given, cluster = bound.arguments, bound.arguments["self"]
        for name, value in given.items():
            check = ARGUMENTS.get(f"{method.__name__}.{name}", ARGUMENTS.get(name))
            if check is not None and (value is not None or signature.parameters[name].default is not None):
                given[name] = check(name, value, cluster)
        if "partition" in given:
            _check_place(method.__name__, given, cluster)
        return method(*bound.args, **bound.kwargs)

    return call


def _check_place(method: str, given: Mapping[str, Any], cluster: Named) -> None:
    topic = cluster.topics[given["topic"]]
    replicas = topic.partitions[partition(given["partition"], topic)].replicas
    if f"{method}.to" not in ARGUMENTS and given.get("to") is not None and given["to"] not in replicas:
        raise ValueError(f"to={given['to']}: the partition's replicas are {', '.join(map(str, replicas))}")
