"""Checks settings of topics, and maps Kafka's topic configs to these settings. Invariant: settings are checked before they take effect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from pykafka4.testing.faults.checks import flag, instance, known, whole
from pykafka4.testing.storage.log import MOST_BYTES, DuplicateAnswer, UnknownProducer

__all__ = ["LOG_SETTINGS", "MOST_PARTITIONS", "SETTINGS", "altered", "checked_settings", "configs_of", "settings_from_configs"]

MOST_PARTITIONS: Final = 100_000  # maximum for one topic, because the model keeps all partitions in memory


def _limit(name: str, value: Any) -> int | None:
    return None if value is None else whole(name, value, 0, 2**63 - 1)


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{name}={value!r} is not a function that takes a record")
    return value


SETTINGS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "min_in_sync": partial(whole, least=1),
    "unclean": flag,
    "max_message_bytes": whole,
    "append_time": flag,
    "compacted": flag,
    "before_max_ms": _limit,
    "after_max_ms": _limit,
    "refuse": _function,
    "unknown_producer": partial(instance, kind=UnknownProducer),
    "duplicate_answer": partial(instance, kind=DuplicateAnswer),
    "remembered": partial(whole, least=1),
}
CONFIGS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], Any]]]] = {  # of two configs with the same setting, the later one wins
    "cleanup.policy": (("compacted",), lambda text: "compact" in text),
    "max.message.bytes": (("max_message_bytes",), int),
    "message.timestamp.type": (("append_time",), lambda text: text == "LogAppendTime"),
    "message.timestamp.difference.max.ms": (("before_max_ms", "after_max_ms"), int),  # before 3.6: one limit for past and future
    "message.timestamp.before.max.ms": (("before_max_ms",), int),
    "message.timestamp.after.max.ms": (("after_max_ms",), int),
    "min.insync.replicas": (("min_in_sync",), int),
    "unclean.leader.election.enable": (("unclean",), lambda text: text == "true"),
}
OF_PARTITIONS: Final = {"min_in_sync", "unclean"}
LOG_SETTINGS: Final = {name for names, _ in CONFIGS.values() for name in names} - OF_PARTITIONS  # log settings that configs can change


def checked_settings(settings: Mapping[str, Any], brokers: Collection[int]) -> dict[str, Any]:
    """Raises TypeError or ValueError for an invalid setting."""
    checks: dict[str, Callable[[str, Any], Any]] = {**SETTINGS, "replicas": partial(whole, least=1, most=len(brokers))}
    known(settings, {*checks, "leaders"}, "a setting of a topic")
    return {name: checks[name](name, value) for name, value in settings.items()}


def settings_from_configs(configs: Mapping[str, str]) -> dict[str, Any]:
    """Configs that the model does not have are ignored."""
    settings: dict[str, Any] = {}
    for config, (names, read) in CONFIGS.items():
        if config in configs:
            settings.update(dict.fromkeys(names, read(configs[config])))
    return settings


def altered(settings: Mapping[str, Any], configs: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the settings of a topic after `changes` to its `configs`; None restores the default of a config. Raises ValueError if a number
    cannot be parsed."""
    gone = {name for config in changes if config in CONFIGS for name in CONFIGS[config][0]}
    after = {config: value for config, value in {**configs, **changes}.items() if value is not None}
    return {name: value for name, value in settings.items() if name not in gone} | settings_from_configs(after)


def configs_of(settings: Mapping[str, Any]) -> dict[str, str]:
    return {
        "max.message.bytes": str(settings.get("max_message_bytes", MOST_BYTES)),
        "min.insync.replicas": str(settings.get("min_in_sync", 1)),
    }
