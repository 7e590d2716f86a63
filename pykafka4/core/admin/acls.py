"""Describes, creates and deletes access control lists (ACLs). Invariant: a number in a request stands for a known
word, for `UNKNOWN(n)`, or, in a filter, for any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

import attrs
from attrs.converters import optional

from pykafka4.core import Reply
from pykafka4.core.admin.cluster import OneAnswer
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.errors import BrokerError, ConfigError, UnsupportedVersion, broker_error, shown
from pykafka4.errors.codes import error_code
from pykafka4.errors.rights import CLUSTER
from pykafka4.wire.protocol.messages_acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

__all__ = ["Acl", "AclFilter", "CreateAcls", "DeleteAcls", "DescribeAcls", "as_principal"]

K = TypeVar("K")
V = TypeVar("V")
Words: TypeAlias = Mapping[str, int]
# Kafka's words with their numbers (AclOperation, ResourceType, PatternType, AclPermissionType). Resource types, except `user`, are named
# as in kafka-acls.
OPERATIONS: Final[Words] = {
    "ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9, "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12, "CREATE_TOKENS": 13, "DESCRIBE_TOKENS": 14, "TWO_PHASE_COMMIT": 15,
}  # fmt: skip
RESOURCES: Final[Words] = {"topic": 2, "group": 3, "cluster": 4, "transactional-id": 5, "delegation-token": 6, "user": 7}
PATTERNS: Final[Words] = {"LITERAL": 3, "PREFIXED": 4}
FILTER_PATTERNS: Final[Words] = {"MATCH": 2, **PATTERNS}
PERMISSIONS: Final[Words] = {"DENY": 2, "ALLOW": 3}
USER: Final = RESOURCES["user"]
ON_USERS: Final = (OPERATIONS["CREATE_TOKENS"], OPERATIONS["DESCRIBE_TOKENS"])
USERS_FROM: Final = 3  # the first version of the three requests with rights on users (KIP-373)
ANY: Final = 1  # in filters, the number that stands for any word
LITERAL: Final = "LITERAL"
NEWER: Final = re.compile(r"UNKNOWN\((\d+)\)")  # stands for a number without a word, from a newer broker
NO_AUTHORIZER: Final = (
    "the brokers have no authorizer, so everybody may do everything and there are no ACLs; set authorizer.class.name="
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer on brokers and controllers"
)
HINTS: Final = {"SECURITY_DISABLED": NO_AUTHORIZER}


def as_principal(value: object) -> str:
    """Return the principal `value`. Raises ConfigError unless it is a str of the form `type:name`."""
    if not isinstance(value, str) or not re.fullmatch(r"[^:]+:.+", value, re.DOTALL):
        raise ConfigError(f"principal {shown(value)}: must be a type and a name, such as 'User:alice', or 'User:*' for everybody")
    return str.__str__(value)


def _word(words: Words, what: str, value: Any) -> str:
    """The word for `value`, which may have the spelling of Kafka's tools (`DescribeConfigs`). `UNKNOWN(n)` is returned unchanged.

    Raises ConfigError for any other value.
    """
    found = next((word for word in words if isinstance(value, str) and _squeezed(word) == _squeezed(value)), None)
    if found is None and not (isinstance(value, str) and NEWER.fullmatch(value)):
        raise ConfigError(f"{what}={shown(value)}: must be one of {', '.join(words)}")
    return value if found is None else found


def _squeezed(word: str) -> str:
    return re.sub("[-_ ]", "", word).upper()


def _operation(value: Any) -> str:
    return _word(OPERATIONS, "operation", value)


def _resource(value: Any) -> str:
    return _word(RESOURCES, "resource_type", value)


def _permission(value: Any) -> str:
    return _word(PERMISSIONS, "permission", value)


def _pattern(value: Any) -> str:
    return _word(PATTERNS, "pattern", value)


def _filter_pattern(value: Any) -> str:
    return _word(FILTER_PATTERNS, "pattern", value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{shown(value)}: the name of a resource or a host must be a non-empty str")
    return str.__str__(value)


def _only_name(acl: Any) -> str:
    if acl.resource_type != "cluster":
        raise ConfigError(f"resource_name is missing: name the {acl.resource_type}, or '*' for all; only the cluster needs no name")
    return CLUSTER


@attrs.frozen
class Acl:
    """An ACL: it allows a principal an operation on a resource, or forbids the operation with `permission="DENY"`.

    `operation`: ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CLUSTER_ACTION,
    CREATE_TOKENS, DESCRIBE_TOKENS, TWO_PHASE_COMMIT. `resource_type`: topic, group, cluster (which needs no name), transactional-id,
    delegation-token, user. `resource_name` "*" stands for all names; with `pattern="PREFIXED"` it is a prefix of names. The ACL is for
    connections from `host`: an address, or "*" for all. Raises ConfigError for an invalid value. Source: KIP-11, KIP-290.
    """

    principal: str = attrs.field(converter=as_principal)
    operation: str = attrs.field(converter=_operation)
    resource_type: str = attrs.field(converter=_resource)
    resource_name: str = attrs.field(default=attrs.Factory(_only_name, takes_self=True), converter=_text)
    permission: str = attrs.field(default="ALLOW", converter=_permission, kw_only=True)
    host: str = attrs.field(default="*", converter=_text, kw_only=True)
    pattern: str = attrs.field(default=LITERAL, converter=_pattern, kw_only=True)

    def __str__(self) -> str:
        where = "cluster" if self.resource_type == "cluster" else f"{self.resource_type} {self.resource_name!r}"
        prefixed = f" ({self.pattern.lower()})" if self.pattern != LITERAL else ""
        host = "" if self.host == "*" else f" from {self.host}"
        return f"{self.permission} {self.operation} on {where}{prefixed} to {self.principal}{host}"


@attrs.frozen(kw_only=True)
class AclFilter:
    """A filter that finds the ACLs with these values; None stands for any value.

    `pattern="MATCH"` finds all ACLs that apply to the resource `resource_name`. Raises ConfigError for an invalid value.
    """

    principal: str | None = attrs.field(default=None, converter=optional(as_principal))
    operation: str | None = attrs.field(default=None, converter=optional(_operation))
    resource_type: str | None = attrs.field(default=None, converter=optional(_resource))
    resource_name: str | None = attrs.field(default=None, converter=optional(_text))
    permission: str | None = attrs.field(default=None, converter=optional(_permission))
    host: str | None = attrs.field(default=None, converter=optional(_text))
    pattern: str | None = attrs.field(default=None, converter=optional(_filter_pattern))

    def __str__(self) -> str:
        given = attrs.asdict(self, filter=lambda _, value: value is not None)
        return f"ACLs with {', '.join(f'{name}={value}' for name, value in given.items())}" if given else "all ACLs"


def _number(words: Words, word: str | None) -> int:
    if word is None:
        return ANY
    newer = NEWER.fullmatch(word)
    return int(newer[1]) if newer else words[word]


def _name(words: Words, number: int) -> str:
    return next((word for word, known in words.items() if known == number), f"UNKNOWN({number})")


def _filter_fields(wanted: Acl | AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": _number(RESOURCES, wanted.resource_type),
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": _number(FILTER_PATTERNS, wanted.pattern),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": _number(OPERATIONS, wanted.operation),
        "permission_type": _number(PERMISSIONS, wanted.permission),
    }


def _acl(resource: Any, row: Any) -> Acl:
    return Acl(
        row.principal,
        _name(OPERATIONS, row.operation),
        _name(RESOURCES, resource.resource_type),
        resource.resource_name,
        permission=_name(PERMISSIONS, row.permission_type),
        host=row.host,
        pattern=_name(PATTERNS, resource.pattern_type),
    )


def _in_order(acls: Any) -> tuple[Acl, ...]:
    return tuple(sorted(acls, key=lambda acl: (acl.resource_type, acl.resource_name, acl.pattern, *attrs.astuple(acl))))


def _refused(refusal: Refusal, api: str, task: str, what: str) -> BrokerError:
    """The error names the ACL or filter (`what`), or the `task` if the error is the same for all ACLs."""
    row = error_code(refusal.code)
    common = row.denied or row.name in HINTS
    return broker_error(refusal.code, task if common else what, HINTS.get(row.name, refusal.detail), api)


def _fit(words: Iterable[tuple[int, int]], api: str, version: int) -> None:
    """Refuse rights on users in versions below `USERS_FROM`: brokers close the connection if a request has a word that they do not know."""
    if version < USERS_FROM and any(kind == USER or operation in ON_USERS for kind, operation in words):
        raise UnsupportedVersion(f"a right on a user needs {api} v{USERS_FROM}, of Kafka 3.3: upgrade the broker")


class DescribeAcls(OneAnswer[AclFilter, "tuple[Acl, ...]"]):
    """The question about the ACLs that filters find; the keys are filters."""

    api = "DescribeAcls"

    def message(self, keys: Sequence[AclFilter]) -> DescribeAclsRequest:
        return DescribeAclsRequest(**_filter_fields(keys[0]))

    def fit(self, message: DescribeAclsRequest, version: int) -> None:
        _fit([(message.resource_type_filter, message.operation)], self.api, version)

    def answer(self, message: Any, reply: Reply) -> tuple[Acl, ...]:
        return _in_order(_acl(resource, row) for resource in message.resources for row in resource.acls)

    def error(self, key: AclFilter, refusal: Refusal) -> BrokerError:
        return _refused(refusal, self.api, "ACLs cannot be described", str(key))


class PositionalQuestion(Question[K, V], Generic[K, V]):
    """A change whose results have no names, and are in the order of the request.

    Its requests go to the controller, because a request to any broker might be sent to a second broker as well.
    """

    about = "{}"
    changes = True
    task: ClassVar[str]

    def late(self, key: K) -> str:
        return self.task

    def read(self, keys: Sequence[K], reply: Reply) -> Mapping[K, V | Refusal]:
        """Return nothing if there are more or fewer results than keys, because the order of such results cannot be trusted."""
        rows = self.rows(reply.message)
        return dict(zip(keys, map(self.result, rows), strict=True)) if len(rows) == len(keys) else {}

    def rows(self, message: Any) -> list[Any]:
        raise NotImplementedError

    def result(self, row: Any) -> V | Refusal:
        raise NotImplementedError


class CreateAcls(PositionalQuestion[Acl, bool]):
    """Creates the ACLs that are its keys. An ACL that already exists counts as created."""

    api = "CreateAcls"
    task = "ACLs cannot be created"

    def message(self, keys: Sequence[Acl]) -> CreateAclsRequest:
        return CreateAclsRequest(creations=list(map(_creation, keys)))

    def fit(self, message: CreateAclsRequest, version: int) -> None:
        _fit([(row.resource_type, row.operation) for row in message.creations], self.api, version)

    def rows(self, message: Any) -> list[Any]:
        return list(message.results)

    def result(self, row: Any) -> bool | Refusal:
        return Refusal(row.error_code, row.error_message) if row.error_code else True

    def error(self, key: Acl, refusal: Refusal) -> BrokerError:
        return _refused(refusal, self.api, self.task, str(key))


def _creation(acl: Acl) -> CreateAclsRequest.Creation:
    return CreateAclsRequest.Creation(
        resource_type=_number(RESOURCES, acl.resource_type),
        resource_name=acl.resource_name,
        resource_pattern_type=_number(PATTERNS, acl.pattern),
        principal=acl.principal,
        host=acl.host,
        operation=_number(OPERATIONS, acl.operation),
        permission_type=_number(PERMISSIONS, acl.permission),
    )


class DeleteAcls(PositionalQuestion["Acl | AclFilter", "tuple[Acl, ...]"]):
    """Deletes the ACLs that filters find. The keys are filters or ACLs; an outcome has the ACLs that the answered request deleted."""

    api = "DeleteAcls"
    task = "ACLs cannot be deleted"

    def message(self, keys: Sequence[Acl | AclFilter]) -> DeleteAclsRequest:
        return DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**_filter_fields(key)) for key in keys])

    def fit(self, message: DeleteAclsRequest, version: int) -> None:
        _fit([(row.resource_type_filter, row.operation) for row in message.filters], self.api, version)

    def rows(self, message: Any) -> list[Any]:
        return list(message.filter_results)

    def result(self, row: Any) -> tuple[Acl, ...] | Refusal:
        failed = [one for one in (row, *row.matching_acls) if one.error_code]
        if failed:
            return Refusal(failed[0].error_code, failed[0].error_message)
        return _in_order(_acl(one, one) for one in row.matching_acls)

    def error(self, key: Acl | AclFilter, refusal: Refusal) -> BrokerError:
        return _refused(refusal, self.api, self.task, str(key))
