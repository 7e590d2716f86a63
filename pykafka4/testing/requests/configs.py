"""Serves DescribeConfigs and IncrementalAlterConfigs, for topics. Invariant: a refused resource is not changed."""

from __future__ import annotations

from typing import Final

from pykafka4.testing.cluster.settings import configs_of
from pykafka4.testing.requests.session import Call, code
from pykafka4.wire.protocol.messages_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

__all__ = ["alter_configs", "describe_configs"]

TOPIC: Final = 2  # the resource type of topics
OF_TOPIC, DEFAULT = 1, 5  # sources of a value
SET, DELETE, APPEND, SUBTRACT = range(4)
DEFAULT_LISTS: Final = {"cleanup.policy": "delete"}  # brokers append to the default of a setting that no client has set


def describe_configs(call: Call) -> DescribeConfigsResponse:
    """The topic configs that clients have set, plus max.message.bytes and min.insync.replicas; brokers have no configs."""
    return DescribeConfigsResponse(results=[_describe(call, resource) for resource in call.message.resources])


def _describe(call: Call, wanted: DescribeConfigsRequest.Resource) -> DescribeConfigsResponse.Resource:
    kind, name = DescribeConfigsResponse.Resource, wanted.resource_name
    error = _refusal(call, wanted.resource_type, name, "DESCRIBE_CONFIGS")
    topic = call.cluster.topics.get(name)
    given = {} if error or topic is None or wanted.resource_type != TOPIC else topic.configs
    found = {} if error or topic is None or wanted.resource_type != TOPIC else {**configs_of(topic.settings), **given}
    keys = found.keys() if wanted.configuration_keys is None else [key for key in wanted.configuration_keys if key in found]
    rows = [
        kind.Config(
            name=key,
            value=found[key],
            config_source=OF_TOPIC if key in given else DEFAULT,
            read_only=False,
            is_sensitive=False,
            synonyms=[],
        )
        for key in keys
    ]
    return kind(error_code=code(error), error_message=None, resource_type=wanted.resource_type, resource_name=name, configs=rows)


def alter_configs(call: Call) -> IncrementalAlterConfigsResponse:
    """Configs that the model does not have are stored, but have no effect."""
    return IncrementalAlterConfigsResponse(responses=[_alter(call, resource) for resource in call.message.resources])


def _alter(call: Call, wanted: IncrementalAlterConfigsRequest.Resource) -> IncrementalAlterConfigsResponse.Resource:
    kind, name = IncrementalAlterConfigsResponse.Resource, wanted.resource_name
    error, text = _refusal(call, wanted.resource_type, name, "ALTER_CONFIGS"), None
    if error is None and wanted.resource_type != TOPIC:
        error, text = "INVALID_REQUEST", "in the model cluster only topics have configs"
    if error is None:
        given = DEFAULT_LISTS | call.cluster.topics[name].configs
        configs = {row.name: _changed(given.get(row.name, ""), row) for row in wanted.configs}
        try:
            call.cluster.alter_topic(name, configs, validate_only=call.message.validate_only)
        except ValueError as wrong:
            error, text = "INVALID_CONFIG", str(wrong)
    return kind(error_code=code(error), error_message=text, resource_type=wanted.resource_type, resource_name=name)


def _refusal(call: Call, resource_type: int, name: str, operation: str) -> str | None:
    if refused := call.ordered_error(name) or call.denied("topic", name, operation):
        return refused
    return "UNKNOWN_TOPIC_OR_PARTITION" if resource_type == TOPIC and name not in call.cluster.topics else None


def _changed(before: str, row: IncrementalAlterConfigsRequest.Resource.Config) -> str | None:
    """The new value; None: the default."""
    items = [item for item in before.split(",") if item]
    given = (row.value or "").split(",")
    if row.config_operation == APPEND:
        return ",".join([*items, *(item for item in given if item not in items)])
    if row.config_operation == SUBTRACT:
        return ",".join(item for item in items if item not in given)
    return None if row.config_operation == DELETE else row.value
