"""Calls about topics, settings, records and groups, with their five outcomes: rows of `table_of_calls`."""

from __future__ import annotations

from uuid import UUID

from pykafka4 import EARLIEST, MAX_TIMESTAMP
from tests.admin.outcomes import (
    ANY_BROKER,
    DENIED_GROUP,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    FIRST,
    LEFT_OUT,
    MISSING,
    NO_TOPIC,
    Mixed,
    Old,
    Right,
    Row,
    Shown,
    by_error,
    complete,
    every,
    names,
    one,
    partitions,
)

NOBODY = UUID(int=1)

TOPICS = (
    Row(
        "create_topics",
        lambda a, it: a.create_topics({it.new: 1}),
        works="test_a_topic_is_described_as_by_kafkas_tool_and_another_client",
        denied=Right("CREATE", "topic"),
        old=(Old("CreateTopics"), Old("CreateTopics", "2.4", 3, lambda a, it: a.create_topics([it.new]), "brokers' defaults")),
        mixed=Mixed(
            lambda a, it: a.create_topics({it.new: 1, it.name: 1}),
            good=names("new"),
            bad=names("name"),
            text="TOPIC_ALREADY_EXISTS",
            changed=lambda a, it: it.new in a.list_topics(),
        ),
    ),
    Row(
        "create_partitions",
        lambda a, it: a.create_partitions({it.name: 3}),
        works="test_a_topic_is_described_as_by_kafkas_tool_and_another_client",
        denied=Right("ALTER", "topic"),
        old=(Old("CreatePartitions"),),
        mixed=Mixed(
            lambda a, it: a.create_partitions({it.name: 3, it.none: 3}),
            good=names("name"),
            bad=names("none"),
            text=NO_TOPIC,
            changed=lambda a, it: a.list_topics()[it.name].partitions == 3,
        ),
    ),
    Row(
        "delete_topics",
        lambda a, it: a.delete_topics([it.old]),
        works="test_topics_are_known_to_every_broker_when_a_call_that_waits_returns",
        denied=Right("DELETE", "topic"),
        old=(Old("DeleteTopics"), Old("DeleteTopics", "2.8", 5, lambda a, it: a.delete_topics([NOBODY]), "by id")),
        mixed=Mixed(
            lambda a, it: a.delete_topics([it.old, it.none]),
            good=names("old"),
            bad=names("none"),
            text=NO_TOPIC,
            changed=lambda a, it: it.old not in a.list_topics(),
        ),
    ),
    Row(
        "list_topics",
        lambda a, it: a.list_topics(),
        works="test_topics_are_known_to_every_broker_when_a_call_that_waits_returns",
        denied=LEFT_OUT,
        old=ANY_BROKER,
        mixed=one("cluster"),
    ),
    Row(
        "describe_topics",
        lambda a, it: every(a.describe_topics([it.name])),
        works="test_a_topic_is_described_as_by_kafkas_tool_and_another_client",
        denied=DESCRIBE_TOPIC,
        old=(Old("Metadata", "3.1", 11, lambda a, it: every(a.describe_topics([NOBODY])), "by id"),),
        mixed=Mixed(lambda a, it: a.describe_topics([it.name, it.none]), names("name"), names("none"), NO_TOPIC),
    ),
    Row(
        "describe_topic",
        lambda a, it: a.describe_topic(it.name),
        works="test_a_topic_is_described_as_by_kafkas_tool_and_another_client",
        denied=DESCRIBE_TOPIC,
        old=(Old("Metadata", "3.1", 11, lambda a, it: a.describe_topic(NOBODY), "by id"),),
        mixed=one("topic"),
    ),
)

SETTINGS = (
    Row(
        "describe_configs",
        lambda a, it: every(a.describe_configs([("topic", it.name)])),
        works="test_settings_of_a_topic_and_a_broker_are_those_that_another_client_sees",
        denied=Right("DESCRIBE_CONFIGS", "topic"),
        old=(Old("DescribeConfigs"),),
        mixed=Mixed(
            lambda a, it: a.describe_configs([("topic", it.name), ("topic", it.none)]),
            good=lambda it: [("topic", it.name)],
            bad=lambda it: [("topic", it.none)],
            text=NO_TOPIC,
        ),
    ),
    Row(
        "describe_config",
        lambda a, it: a.describe_config("group", it.name),
        works="test_settings_of_a_topic_and_a_broker_are_those_that_another_client_sees",
        denied=Right("DESCRIBE_CONFIGS", "group"),
        old=(Old("DescribeConfigs"),),
        mixed=one("resource"),
    ),
    Row(
        "alter_configs",
        lambda a, it: a.alter_configs({("topic", it.name): {"retention.ms": 600_000}}),
        works="test_single_settings_of_a_topic_change_and_the_others_stay",
        denied=Right("ALTER_CONFIGS", "topic"),
        old=(Old("IncrementalAlterConfigs"),),
        mixed=Mixed(
            lambda a, it: a.alter_configs({("topic", name): {"retention.ms": 700_000} for name in (it.name, it.none)}),
            good=lambda it: [("topic", it.name)],
            bad=lambda it: [("topic", it.none)],
            text=NO_TOPIC,
            changed=lambda a, it: a.describe_config("topic", it.name)["retention.ms"].value == "700000",
        ),
    ),
    Row(
        "list_config_resources",
        lambda a, it: a.list_config_resources(),
        works="test_settings_of_brokers_groups_and_client_metrics_change",
        denied=Right("DESCRIBE_CONFIGS", "cluster"),
        old=(
            Old("ListConfigResources", call=lambda a, it: a.list_config_resources(["client-metrics"])),
            Old("ListConfigResources", "4.1", 0, what="kinds besides client-metrics"),
        ),
        mixed=one("cluster"),
    ),
)

RECORDS = (
    Row(
        "delete_records",
        lambda a, it: a.delete_records({it.tp: 0}),
        works="test_records_are_deleted_as_kafkas_tools_see_it",
        denied=Right("DELETE", "topic"),
        old=(Old("DeleteRecords"),),
        mixed=Mixed(lambda a, it: a.delete_records({it.tp: 0, it.bad_tp: 0}), FIRST, MISSING, NO_TOPIC),
    ),
    Row(
        "list_offsets",
        lambda a, it: every(by_error(a.list_offsets({it.tp: EARLIEST}))),
        works="test_records_are_deleted_as_kafkas_tools_see_it",
        denied=DESCRIBE_TOPIC,
        old=(
            Old("ListOffsets"),
            Old("ListOffsets", "3.0", 6, lambda a, it: every(by_error(a.list_offsets({it.tp: MAX_TIMESTAMP}))), "MAX_TIMESTAMP"),
        ),
        mixed=Mixed(lambda a, it: by_error(a.list_offsets({it.tp: EARLIEST, it.bad_tp: EARLIEST})), FIRST, MISSING, NO_TOPIC),
    ),
)

GROUPS = (
    Row(
        "list_groups",
        lambda a, it: complete(a.list_groups()),
        works="test_a_group_of_the_consumer_protocol_looks_as_in_kafkas_tool_and_refuses_to_be_changed",
        denied=LEFT_OUT,
        old=(Old("ListGroups"),),
        mixed=Shown("test_a_broker_that_cannot_list_does_not_hide_the_groups_of_others"),
    ),
    Row(
        "describe_groups",
        lambda a, it: every(a.describe_groups([it.name])),
        works="test_an_empty_group_and_one_with_members_look_as_in_kafkas_tool",
        denied=DESCRIBE_GROUP,
        old=ANY_BROKER,
        mixed=Mixed(lambda a, it: a.describe_groups([it.name, it.none]), names("name"), names("none"), "GROUP_ID_NOT_FOUND"),
    ),
    Row(
        "describe_group",
        lambda a, it: a.describe_group(it.name),
        works="test_an_empty_group_and_one_with_members_look_as_in_kafkas_tool",
        denied=DESCRIBE_GROUP,
        old=ANY_BROKER,
        mixed=one("group"),
    ),
    Row(
        "group_offsets",
        lambda a, it: every(a.group_offsets([it.name])),
        works="test_files_are_those_of_kafkas_tool",
        denied=DESCRIBE_GROUP,
        old=(Old("OffsetFetch"),),
        mixed=Mixed(lambda a, it: a.group_offsets([it.name, it.none]), names("name"), names("none"), DENIED_GROUP, denied=True),
    ),
    Row(
        "group_lag",
        lambda a, it: every(a.group_lag([it.name])),
        works="test_an_empty_group_and_one_with_members_look_as_in_kafkas_tool",
        denied=DESCRIBE_GROUP,
        old=(Old("OffsetFetch"),),
        mixed=Mixed(lambda a, it: a.group_lag([it.name, it.none]), names("name"), names("none"), "GROUP_ID_NOT_FOUND"),
    ),
    Row(
        "plan_offsets",
        lambda a, it: a.plan_offsets(it.name, [it.name], to="earliest"),
        works="test_offsets_are_planned_as_by_kafkas_tool_and_committed",
        denied=DESCRIBE_GROUP,
        old=(Old("ListOffsets"),),
        mixed=Mixed(lambda a, it: a.plan_offsets(it.name, [it.tp, it.bad_tp], to="latest"), names(), MISSING, NO_TOPIC),
    ),
    Row(
        "set_offsets",
        lambda a, it: a.set_offsets(it.name, {it.tp: 0}),
        works="test_an_empty_group_and_one_with_members_look_as_in_kafkas_tool",
        denied=Right("READ", "group"),
        old=(Old("OffsetCommit"),),
        mixed=Mixed(
            lambda a, it: a.set_offsets(it.name, {it.tp: 5, it.bad_tp: 5}),
            good=FIRST,
            bad=MISSING,
            text=NO_TOPIC,
            changed=lambda a, it: a.group_offsets([it.name])[it.name][it.tp].offset == 5,
        ),
    ),
    Row(
        "create_group",
        lambda a, it: a.create_group(it.new, [it.name]),
        works="test_a_group_is_created_where_its_members_begin",
        denied=DESCRIBE_GROUP,
        old=(Old("OffsetCommit"),),
        mixed=Mixed(
            lambda a, it: a.create_group(it.new, [it.tp, it.bad_tp]),
            good=names(),
            bad=MISSING,
            text=NO_TOPIC,
            changed=lambda a, it: a.group_offsets([it.new]) == {it.new: {}},
        ),
    ),
    Row(
        "delete_offsets",
        lambda a, it: a.delete_offsets(it.name, [it.tp]),
        works="test_groups_and_offsets_are_deleted",
        denied=Right("DELETE", "group"),
        old=(Old("OffsetDelete"),),
        mixed=Mixed(
            lambda a, it: a.delete_offsets(it.old, [it.tp, it.bad_tp]),
            good=FIRST,
            bad=MISSING,
            text=NO_TOPIC,
            changed=lambda a, it: it.tp not in a.group_offsets([it.old])[it.old],
        ),
    ),
    Row(
        "delete_groups",
        lambda a, it: a.delete_groups([it.old]),
        works="test_groups_and_offsets_are_deleted",
        denied=Right("DELETE", "group"),
        old=(Old("DeleteGroups"),),
        mixed=Mixed(
            lambda a, it: a.delete_groups([it.spare, it.none]),
            good=names("spare"),
            bad=names("none"),
            text="GROUP_ID_NOT_FOUND",
            changed=lambda a, it: a.group_offsets([it.spare]) == {it.spare: {}},
        ),
    ),
)

SHARE_GROUPS = (
    Row(
        "share_group_offsets",
        lambda a, it: every(a.share_group_offsets([it.share])),
        works="test_a_share_group_is_described_moved_and_deleted",
        denied=DESCRIBE_GROUP,
        old=(Old("DescribeShareGroupOffsets"),),
        mixed=Mixed(lambda a, it: a.share_group_offsets([it.share, it.none]), names("share"), names("none"), DENIED_GROUP, denied=True),
    ),
    Row(
        "alter_share_group_offsets",
        lambda a, it: a.alter_share_group_offsets(it.share, {it.tp: 0}),
        works="test_a_share_group_is_described_moved_and_deleted",
        denied=Right("READ", "group"),
        old=(Old("AlterShareGroupOffsets"),),
        mixed=Mixed(
            lambda a, it: a.alter_share_group_offsets(it.share, {it.tp: 0, (it.none, 0): 0}),
            good=FIRST,
            bad=partitions(("none", 0)),
            text=NO_TOPIC,
            changed=lambda a, it: it.tp in a.share_group_offsets([it.share])[it.share],
        ),
    ),
    Row(
        "delete_share_group_offsets",
        lambda a, it: a.delete_share_group_offsets(it.old_share, [it.name]),
        works="test_a_share_group_is_described_moved_and_deleted",
        denied=Right("DELETE", "group"),
        old=(Old("DeleteShareGroupOffsets"),),
        mixed=Mixed(
            lambda a, it: a.delete_share_group_offsets(it.old_share, [it.name, it.none]),
            good=names("name"),
            bad=names("none"),
            text=NO_TOPIC,
            changed=lambda a, it: it.tp not in a.share_group_offsets([it.old_share])[it.old_share],
        ),
    ),
)

ROWS = (*TOPICS, *SETTINGS, *RECORDS, *GROUPS, *SHARE_GROUPS)
