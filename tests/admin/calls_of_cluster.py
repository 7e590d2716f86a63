"""Calls about the cluster, replicas, transactions, rights, users, quotas and tokens, with their five outcomes: rows of `table_of_calls`."""

from __future__ import annotations

from pykafka4 import Acl, AclFilter, ActiveProducer, QuotaEntity, QuotaFilter, Replica, TopicPartition
from tests.admin.outcomes import (
    ANY_BROKER,
    CLUSTER_ALTER,
    CLUSTER_DESCRIBE,
    DESCRIBE_ID,
    FIRST,
    LEFT_OUT,
    MISSING,
    NO_TOPIC,
    PLACES,
    Mixed,
    Never,
    Old,
    Right,
    Row,
    Shown,
    Things,
    complete,
    every,
    names,
    one,
    refused,
)

HANGS = ActiveProducer(1_000_000, 0, 0, 0, None, 0)
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
NEEDS_NONE = Never("needs no right")
BOTH_SEEN = "test_kafkas_own_admin_sees_what_was_made"


def acl(it: Things) -> Acl:
    return Acl(f"User:{it.name}", "READ", "topic", it.name)


def bad_acl(it: Things) -> Acl:
    return Acl(f"User:{it.name}", "READ", "cluster", it.name)


def of_user(it: Things) -> AclFilter:
    return AclFilter(principal=f"User:{it.name}")


def quota(it: Things) -> QuotaEntity:
    return QuotaEntity(user=it.name)


def bad_quota(it: Things) -> QuotaEntity:
    return QuotaEntity(user=it.old)


def credentials(name: str) -> list[tuple[str, str]]:
    return [(name, mechanism) for mechanism in SCRAM]


CLUSTER = (
    Row(
        "describe_cluster",
        lambda a, it: a.describe_cluster(),
        works="test_brokers_and_the_quorum_are_those_of_kafkas_tools",
        denied=NEEDS_NONE,
        old=Shown("test_brokers_without_a_description_of_the_cluster_are_asked_for_metadata"),
        mixed=one("cluster"),
    ),
    Row(
        "describe_quorum",
        lambda a, it: a.describe_quorum(),
        works="test_brokers_and_the_quorum_are_those_of_kafkas_tools",
        denied=CLUSTER_DESCRIBE,
        old=(Old("DescribeQuorum"),),
        mixed=one("cluster"),
    ),
    Row(
        "describe_features",
        lambda a, it: a.describe_features(),
        works="test_features_are_those_of_kafkas_tool_and_a_level_is_lowered_only_on_purpose",
        denied=NEEDS_NONE,
        old=ANY_BROKER,
        mixed=one("cluster"),
    ),
    Row(
        "update_features",
        lambda a, it: a.update_features({"group.version": 1}),
        works="test_features_are_those_of_kafkas_tool_and_a_level_is_lowered_only_on_purpose",
        denied=CLUSTER_ALTER,
        old=(
            Old("UpdateFeatures"),
            Old("UpdateFeatures", "3.3", 0, lambda a, it: a.update_features({"group.version": 1}, validate_only=True), "validate_only"),
        ),
        mixed=Shown("test_features_are_updated_all_or_none"),
    ),
    Row(
        "unregister_broker",
        lambda a, it: refused("BROKER_ID_NOT_REGISTERED", lambda: a.unregister_broker(99)),
        works="test_changes_survive_a_killed_controller",
        denied=CLUSTER_ALTER,
        old=(Old("UnregisterBroker"),),
        mixed=one("broker"),
    ),
)

REPLICAS = (
    Row(
        "describe_log_dirs",
        lambda a, it: every(a.describe_log_dirs([1])),
        works="test_log_directories_are_those_of_kafkas_tool",
        denied=CLUSTER_DESCRIBE,
        old=(Old("DescribeLogDirs"),),
        mixed=Mixed(lambda a, it: a.describe_log_dirs([1, 99]), lambda it: [1], lambda it: [99], "the cluster has no broker 99"),
    ),
    Row(
        "alter_replica_log_dirs",
        lambda a, it: a.alter_replica_log_dirs({Replica(it.name, 0, 1): it.log_dir}),
        works="test_replicas_are_moved_to_directories_that_there_are",
        denied=CLUSTER_ALTER,
        old=(Old("AlterReplicaLogDirs"),),
        mixed=Mixed(
            lambda a, it: a.alter_replica_log_dirs({Replica(it.name, 0, 1): it.log_dir, Replica(it.name, 1, 1): "/none"}),
            good=lambda it: [Replica(it.name, 0, 1)],
            bad=lambda it: [Replica(it.name, 1, 1)],
            text="LOG_DIR_NOT_FOUND",
        ),
    ),
    Row(
        "alter_reassignments",
        lambda a, it: a.alter_reassignments({it.tp: PLACES[0]}),
        works="test_a_move_is_listed_cancelled_and_followed_to_its_end",
        denied=CLUSTER_ALTER,
        old=(
            Old("AlterPartitionReassignments"),
            Old(
                *("AlterPartitionReassignments", "4.1", 0),
                lambda a, it: a.alter_reassignments({it.tp: PLACES[0]}, allow_replication_factor_change=False),
                "allow_replication_factor_change=False",
            ),
        ),
        mixed=Mixed(
            lambda a, it: a.alter_reassignments({it.tp: PLACES[0][:2], it.bad_tp: PLACES[0]}),
            good=FIRST,
            bad=MISSING,
            text=NO_TOPIC,
            changed=lambda a, it: set(a.describe_topic(it.name).partitions[0].replicas) == set(PLACES[0][:2]),
        ),
    ),
    Row(
        "list_reassignments",
        lambda a, it: a.list_reassignments([it.tp]),
        works="test_a_move_is_listed_cancelled_and_followed_to_its_end",
        denied=CLUSTER_DESCRIBE,
        old=(Old("ListPartitionReassignments"),),
        mixed=Never("partitions that do not move are left out"),
    ),
    Row(
        "reassignment_progress",
        lambda a, it: a.reassignment_progress(),
        works="test_a_move_is_listed_cancelled_and_followed_to_its_end",
        denied=CLUSTER_DESCRIBE,
        old=(Old("ListPartitionReassignments"),),
        mixed=Never("partitions that do not move are left out"),
    ),
    Row(
        "elect_leaders",
        lambda a, it: a.elect_leaders([it.tp]),
        works="test_preferred_leaders_are_elected_once",
        denied=CLUSTER_ALTER,
        old=(
            Old("ElectLeaders"),
            Old("ElectLeaders", call=lambda a, it: a.elect_leaders()),
            Old("ElectLeaders", "2.4", 0, lambda a, it: a.elect_leaders([it.tp], unclean=True), "unclean"),
        ),
        mixed=Mixed(lambda a, it: a.elect_leaders([it.tp, it.bad_tp]), FIRST, MISSING, NO_TOPIC),
    ),
)

TRANSACTIONS = (
    Row(
        "list_transactions",
        lambda a, it: complete(a.list_transactions()),
        works="test_producers_and_transactions_are_those_of_kafkas_tool",
        denied=LEFT_OUT,
        old=(
            Old("ListTransactions"),
            Old("ListTransactions", "3.8", 0, lambda a, it: complete(a.list_transactions(running_longer_than=1)), "running_longer_than"),
            Old("ListTransactions", "4.1", 1, lambda a, it: complete(a.list_transactions(pattern="x")), "pattern"),
        ),
        mixed=Shown("test_a_broker_that_cannot_list_transactions_does_not_hide_those_of_others"),
    ),
    Row(
        "describe_transactions",
        lambda a, it: every(a.describe_transactions([it.name])),
        works="test_producers_and_transactions_are_those_of_kafkas_tool",
        denied=DESCRIBE_ID,
        old=(Old("DescribeTransactions"),),
        mixed=Mixed(
            lambda a, it: a.describe_transactions([it.name, it.none]),
            good=names("name"),
            bad=names("none"),
            text="TRANSACTIONAL_ID_NOT_FOUND",
        ),
    ),
    Row(
        "describe_transaction",
        lambda a, it: a.describe_transaction(it.name),
        works="test_producers_and_transactions_are_those_of_kafkas_tool",
        denied=DESCRIBE_ID,
        old=(Old("DescribeTransactions"),),
        mixed=one("transactional id"),
    ),
    Row(
        "describe_producers",
        lambda a, it: every(a.describe_producers([it.tp])),
        works="test_producers_and_transactions_are_those_of_kafkas_tool",
        denied=Right("READ", "topic"),
        old=(Old("DescribeProducers"),),
        mixed=Mixed(lambda a, it: a.describe_producers([it.tp, it.bad_tp]), FIRST, MISSING, NO_TOPIC),
    ),
    Row(
        "find_hanging_transactions",
        lambda a, it: a.find_hanging_transactions([it.name]),
        works="test_a_hanging_transaction_is_found_and_aborted",
        denied=Right("READ", "topic"),
        old=(Old("DescribeProducers"),),
        mixed=Mixed(lambda a, it: a.find_hanging_transactions([it.name, it.none]), names("name"), names("none"), NO_TOPIC),
    ),
    Row(
        "abort_transaction",
        lambda a, it: a.abort_transaction(TopicPartition(it.name, 1), HANGS),
        works="test_a_hanging_transaction_is_found_and_aborted",
        denied=CLUSTER_ALTER,
        old=(Old("WriteTxnMarkers"),),
        mixed=one("producer in one partition"),
    ),
)

RIGHTS = (
    Row(
        "describe_acls",
        lambda a, it: a.describe_acls(of_user(it)),
        works="test_acls_are_created_described_and_deleted_and_other_clients_see_the_same",
        denied=CLUSTER_DESCRIBE,
        old=(
            Old("DescribeAcls"),
            Old("DescribeAcls", "3.3", 2, lambda a, it: a.describe_acls(AclFilter(resource_type="user")), "rights on users"),
        ),
        mixed=one("filter"),
    ),
    Row(
        "create_acls",
        lambda a, it: a.create_acls([acl(it)]),
        works="test_acls_are_created_described_and_deleted_and_other_clients_see_the_same",
        denied=CLUSTER_ALTER,
        old=(
            Old("CreateAcls"),
            Old(
                "CreateAcls",
                "3.3",
                2,
                lambda a, it: a.create_acls([acl(it), Acl("User:a", "CREATE_TOKENS", "user", "User:b")]),
                "rights on users",
            ),
        ),
        mixed=Mixed(
            lambda a, it: a.create_acls([acl(it), bad_acl(it)]),
            good=lambda it: [acl(it)],
            bad=lambda it: [bad_acl(it)],
            text="INVALID_REQUEST",
            changed=lambda a, it: acl(it) in a.describe_acls(of_user(it)),
        ),
    ),
    Row(
        "delete_acls",
        lambda a, it: a.delete_acls([acl(it)]),
        works="test_acls_are_created_described_and_deleted_and_other_clients_see_the_same",
        denied=CLUSTER_ALTER,
        old=(
            Old("DeleteAcls"),
            Old("DeleteAcls", "3.3", 2, lambda a, it: a.delete_acls([AclFilter(operation="CREATE_TOKENS")]), "rights on users"),
        ),
        mixed=Never("a filter that finds nothing is no error, and brokers refuse no single filter"),
    ),
)

USERS = (
    Row(
        "list_users",
        lambda a, it: a.list_users(),
        works=BOTH_SEEN,
        denied=CLUSTER_DESCRIBE,
        old=(Old("DescribeUserScramCredentials"),),
        mixed=one("cluster"),
    ),
    Row(
        "describe_users",
        lambda a, it: every(a.describe_users([it.name])),
        works=BOTH_SEEN,
        denied=CLUSTER_DESCRIBE,
        old=(Old("DescribeUserScramCredentials"),),
        mixed=Mixed(lambda a, it: a.describe_users([it.name, it.none]), names("name"), names("none"), "RESOURCE_NOT_FOUND"),
    ),
    Row(
        "describe_user",
        lambda a, it: a.describe_user(it.name),
        works=BOTH_SEEN,
        denied=CLUSTER_DESCRIBE,
        old=(Old("DescribeUserScramCredentials"),),
        mixed=one("user"),
    ),
    Row(
        "upsert_users",
        lambda a, it: a.upsert_users({it.new: "secret"}),
        works="test_users_get_passwords_log_in_with_them_and_lose_them",
        denied=CLUSTER_ALTER,
        old=(Old("AlterUserScramCredentials"),),
        mixed=Shown("test_one_mechanism_that_fails_leaves_the_other_done"),
    ),
    Row(
        "delete_users",
        lambda a, it: a.delete_users([it.old]),
        works="test_users_get_passwords_log_in_with_them_and_lose_them",
        denied=CLUSTER_ALTER,
        old=(Old("AlterUserScramCredentials"),),
        mixed=Mixed(
            lambda a, it: a.delete_users([it.old, it.none]),
            good=lambda it: credentials(it.old),
            bad=lambda it: credentials(it.none),
            text="RESOURCE_NOT_FOUND",
            changed=lambda a, it: it.old not in a.list_users(),
        ),
    ),
)

QUOTAS = (
    Row(
        "describe_quotas",
        lambda a, it: a.describe_quotas(QuotaFilter(user=it.name)),
        works=BOTH_SEEN,
        denied=Right("DESCRIBE_CONFIGS", "cluster"),
        old=(Old("DescribeClientQuotas"),),
        mixed=one("filter"),
    ),
    Row(
        "alter_quotas",
        lambda a, it: a.alter_quotas({quota(it): {"producer_byte_rate": 1e9}}),
        works=BOTH_SEEN,
        denied=Right("ALTER_CONFIGS", "cluster"),
        old=(Old("AlterClientQuotas"),),
        mixed=Mixed(
            lambda a, it: a.alter_quotas({quota(it): {"producer_byte_rate": 1e9}, bad_quota(it): {"connection_creation_rate": 1}}),
            good=lambda it: [quota(it)],
            bad=lambda it: [bad_quota(it)],
            text="INVALID_REQUEST",
            changed=lambda a, it: quota(it) in a.describe_quotas(),
        ),
    ),
)

OWN = Shown("test_tokens_of_others_cannot_be_seen_or_renewed")
TOKENS = (
    Row(
        "create_token",
        lambda a, it: a.create_token(owner=f"User:{it.name}"),
        works=BOTH_SEEN,
        denied=Right("CREATE_TOKENS", "user"),
        old=(Old("CreateDelegationToken", call=lambda a, it: a.create_token()), Old("CreateDelegationToken", "3.3", 2, what="owner")),
        mixed=one("token"),
    ),
    Row(
        "describe_tokens",
        lambda a, it: a.describe_tokens(),
        works=BOTH_SEEN,
        denied=OWN,
        old=(Old("DescribeDelegationToken"),),
        mixed=LEFT_OUT,
    ),
    Row(
        "renew_token",
        lambda a, it: a.renew_token(it.token),
        works="test_a_token_is_created_logged_in_with_renewed_and_expired",
        denied=OWN,
        old=(Old("RenewDelegationToken"),),
        mixed=one("token"),
    ),
    Row(
        "expire_token",
        lambda a, it: a.expire_token(it.old_token),
        works="test_a_token_is_created_logged_in_with_renewed_and_expired",
        denied=OWN,
        old=(Old("ExpireDelegationToken"),),
        mixed=one("token"),
    ),
)

ROWS = (*CLUSTER, *REPLICAS, *TRANSACTIONS, *RIGHTS, *USERS, *QUOTAS, *TOKENS)
