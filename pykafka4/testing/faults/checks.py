"""Checks what a test gives to the model. Rule: TypeError or ValueError at once, naming the argument, its value and what is allowed."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from pykafka4.testing.faults.names import nearest
from pykafka4.testing.storage.log import Memory, Repeats

if TYPE_CHECKING:
    from pykafka4.testing.model import ModelCluster

__all__ = ["broker", "flag", "instance", "known", "leaders", "order", "seconds", "topic_settings", "whole"]

P = ParamSpec("P")
T = TypeVar("T")
MOST: Final = 2**31 - 1


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """`value` as an int of Python, if it is one from `least` to `most`, of any library."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"{name}={value!r} is not an int")
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"{name}={number} is not from {least} to {most}")
    return number


def seconds(name: str, value: Any, *, zero: bool = True) -> float:
    """`value` as a float, if it is a length of time."""
    allowed = "a finite number from 0 up" if zero else "a positive number"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is not {allowed}")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{name}={value!r} is not {allowed}")
    return number


def instance(name: str, value: Any, kind: type[T]) -> T:
    """`value` if it is of that class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} is not a {kind.__name__}")
    return value


def flag(name: str, value: Any) -> bool:
    """`value` if it is True or False."""
    return instance(name, value, bool)


def broker(name: str, value: Any, brokers: Collection[int]) -> int:
    """`value` as an int if it is the number of one of `brokers`."""
    number = whole(name, value, -MOST)
    if number not in brokers:
        raise ValueError(f"{name}={number}: there are {', '.join(map(str, brokers))}")
    return number


def known(given: Iterable[str], allowed: Collection[str], what: str) -> None:
    """TypeError for a name that is not allowed, suggesting one."""
    for name in given:
        if name not in allowed:
            raise TypeError(f"{name!r} is not {what} ({', '.join(sorted(allowed))}){nearest(name, allowed)}")


# ---- topics


def _limit(name: str, value: Any) -> int | None:
    return None if value is None else whole(name, value, 0, 2**63 - 1)


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{name}={value!r} is not a function that takes a record")
    return value


SETTINGS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "min_in_sync": functools.partial(whole, least=1),
    "unclean": flag,
    "max_message_bytes": whole,
    "append_time": flag,
    "compacted": flag,
    "before_max_ms": _limit,
    "after_max_ms": _limit,
    "refuse": _function,
    "memory": functools.partial(instance, kind=Memory),
    "repeats": functools.partial(instance, kind=Repeats),
    "remembered": functools.partial(whole, least=1),
}


def topic_settings(settings: Mapping[str, Any], brokers: Collection[int]) -> dict[str, Any]:
    """The settings of `ModelCluster.create_topic`, checked."""
    checks: dict[str, Callable[[str, Any], Any]] = {**SETTINGS, "replicas": functools.partial(whole, least=1, most=len(brokers))}
    known(settings, {*checks, "leaders"}, "a setting of a topic")
    return {name: checks[name](name, value) for name, value in settings.items()}


def leaders(value: Any, brokers: Collection[int]) -> list[int]:
    """The argument of that name: brokers, one for each partition."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"leaders={value!r} is not a list of brokers, one for each partition")
    return [broker(f"leaders[{place}]", node, brokers) for place, node in enumerate(value)]


# ---- orders


def _broker_of(name: str, value: Any, cluster: ModelCluster) -> int:
    return broker(name, value, cluster.brokers)


def _count(name: str, value: Any, cluster: ModelCluster) -> int:
    return whole(name, value)


def _time(name: str, value: Any, cluster: ModelCluster) -> float:
    return seconds(name, value)


def _topic(name: str, value: Any, cluster: ModelCluster) -> str:
    if value not in cluster.topics:
        raise ValueError(f"{name}={value!r}: there is no such topic{nearest(str(value), cluster.topics)}")
    return str(value)


ARGUMENTS: Final[Mapping[str, Callable[[str, Any, ModelCluster], Any]]] = {
    **dict.fromkeys(("node", "to"), _broker_of),
    **dict.fromkeys(("seconds", "failover", "loading"), _time),
    **dict.fromkeys(("partition", "lost", "times", "shrink_isr.to", "delete_records.to"), _count),
    "topic": _topic,
}


def order(method: Callable[P, T]) -> Callable[P, T]:
    """Check the arguments of a method of ModelCluster by their names. None stays where it is the default."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def checked(*args: P.args, **names: P.kwargs) -> T:
        bound = signature.bind(*args, **names)
        given, cluster = bound.arguments, bound.arguments["self"]
        for name, value in given.items():
            check = ARGUMENTS.get(f"{method.__name__}.{name}", ARGUMENTS.get(name))
            if check is not None and (value is not None or signature.parameters[name].default is not None):
                given[name] = check(name, value, cluster)
        if "partition" in given:
            _check_place(method.__name__, given, cluster)
        return method(*bound.args, **bound.kwargs)

    return checked


def _check_place(method: str, given: Mapping[str, Any], cluster: ModelCluster) -> None:
    """The topic has that partition, and `to` is one of its replicas."""
    partitions = cluster.topics[given["topic"]].partitions
    if given["partition"] >= len(partitions):
        raise ValueError(f"partition={given['partition']}: topic {given['topic']!r} has {len(partitions)}")
    replicas = partitions[given["partition"]].replicas
    if f"{method}.to" not in ARGUMENTS and given.get("to") is not None and given["to"] not in replicas:
        raise ValueError(f"to={given['to']}: the partition's replicas are {', '.join(map(str, replicas))}")
