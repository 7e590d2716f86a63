"""Describes and changes client quotas. Invariant: `QuotaScope.DEFAULT`, never a name, stands for the default user, client id or address."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.cluster import OneAnswer
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.errors import BrokerError, ConfigError, broker_error, shown
from pykafka4.errors.codes import error_code
from pykafka4.wire.protocol.messages_users import AlterClientQuotasRequest, DescribeClientQuotasRequest

__all__ = ["AlterQuotas", "DescribeQuotas", "QuotaEntity", "QuotaFilter", "QuotaScope"]

KINDS: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}  # fields, with Kafka's names
EXACT, DEFAULT, ANY = range(3)  # match types of DescribeClientQuotas


class QuotaScope(enum.Enum):
    """The clients of a quota, in place of a name."""

    DEFAULT = "<default>"  # all clients without a quota of their own
    ANY = "<any>"  # only in filters: every name, and the default

    def __str__(self) -> str:
        return self.value


Client: TypeAlias = "str | QuotaScope | None"


def _checked(value: Any) -> Any:
    if value is not None and not isinstance(value, QuotaScope) and (not isinstance(value, str) or not value):
        what = "user, client_id and ip take a name, or QuotaScope.DEFAULT for all clients without a quota of their own"
        raise ConfigError(f"{shown(value)}: {what}")
    return str.__str__(value) if isinstance(value, str) else value


@attrs.frozen(kw_only=True)
class QuotaEntity:
    """The clients of a quota: a user, a client id, both (the client id of that user), or an IP address. Fields that are None are ignored.

    `QuotaScope.DEFAULT` stands for all clients without a quota of their own. Raises ConfigError for any other combination of fields, and
    for an invalid value, such as `QuotaScope.ANY`. Source: KIP-546, KIP-612.
    """

    user: Client = attrs.field(default=None, converter=_checked)
    client_id: Client = attrs.field(default=None, converter=_checked)
    ip: Client = attrs.field(default=None, converter=_checked)

    def __attrs_post_init__(self) -> None:
        if (self.ip is None) == (self.user is None and self.client_id is None) or QuotaScope.ANY in self.named.values():
            raise ConfigError(f"{self}: a quota is for a user, a client_id, both, or an ip; QuotaScope.ANY is only for filters")

    @property
    def named(self) -> dict[str, Any]:
        """The fields that are not None, by Kafka's names of the fields."""
        return {kind: getattr(self, field) for field, kind in KINDS.items() if getattr(self, field) is not None}

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" for kind, name in self.named.items()) or "no client"


@attrs.frozen(kw_only=True)
class QuotaFilter:
    """A filter for quotas by user, client id and IP address.

    `QuotaScope.DEFAULT` stands for the default, `QuotaScope.ANY` for every name and the default. Without `strict`, a field that is
    None is ignored; `strict` leaves out entities with further fields: with `user="alice"`, for example, the quotas of alice's client ids.
    """

    user: Client = attrs.field(default=None, converter=_checked)
    client_id: Client = attrs.field(default=None, converter=_checked)
    ip: Client = attrs.field(default=None, converter=_checked)
    strict: bool = False


def _entity(rows: Iterable[Any]) -> QuotaEntity | None:
    """None if the entity has a kind that this client does not know."""
    fields = {kind: field for field, kind in KINDS.items()}
    named = {row.entity_type: QuotaScope.DEFAULT if row.entity_name is None else row.entity_name for row in rows}
    return QuotaEntity(**{fields[kind]: name for kind, name in named.items()}) if named.keys() <= fields.keys() else None


class DescribeQuotas(OneAnswer[QuotaFilter, "dict[QuotaEntity, dict[str, float]]"]):
    api = "DescribeClientQuotas"

    def what(self, key: QuotaFilter) -> str:
        return "quotas cannot be described"

    def message(self, keys: Sequence[QuotaFilter]) -> DescribeClientQuotasRequest:
        rows = [_component(kind, getattr(keys[0], field)) for field, kind in KINDS.items() if getattr(keys[0], field) is not None]
        return DescribeClientQuotasRequest(components=rows, strict=keys[0].strict)

    def answer(self, message: Any, reply: Reply) -> dict[QuotaEntity, dict[str, float]]:
        rows = ((_entity(row.entity), row) for row in message.entries or ())
        found = {entity: {one.key: one.value for one in row.values} for entity, row in rows if entity is not None}
        return {entity: dict(sorted(found[entity].items())) for entity in sorted(found, key=str)}


MATCHES: Final[Mapping[Any, int]] = {QuotaScope.DEFAULT: DEFAULT, QuotaScope.ANY: ANY}


def _component(kind: str, wanted: Any) -> DescribeClientQuotasRequest.Component:
    match_type = MATCHES.get(wanted, EXACT)
    return DescribeClientQuotasRequest.Component(entity_type=kind, match_type=match_type, match=wanted if match_type == EXACT else None)


class AlterQuotas(Question[QuotaEntity, bool]):
    """Sets and removes quotas of entities. The outcome is True for an entity whose changes were accepted."""

    api = "AlterClientQuotas"
    about = "quotas of {}"
    changes = True

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool) -> None:
        self._quotas, self._validate_only = quotas, validate_only

    def message(self, keys: Sequence[QuotaEntity]) -> AlterClientQuotasRequest:
        return AlterClientQuotasRequest(entries=[_entry(key, self._quotas[key]) for key in keys], validate_only=self._validate_only)

    def read(self, keys: Sequence[QuotaEntity], reply: Reply) -> Mapping[QuotaEntity, bool | Refusal]:
        rows = ((_entity(row.entity), row) for row in reply.message.entries)
        return {key: Refusal(row.error_code, row.error_message) if row.error_code else True for key, row in rows if key is not None}

    def error(self, key: QuotaEntity, refusal: Refusal) -> BrokerError:
        """The message of a denial names no entity."""
        what = "quotas cannot be changed" if error_code(refusal.code).denied else self.what(key)
        return broker_error(refusal.code, what, refusal.detail, self.api)


def _entry(entity: QuotaEntity, quotas: Mapping[str, float | None]) -> AlterClientQuotasRequest.Entry:
    kind = AlterClientQuotasRequest.Entry
    rows = [kind.Entity(entity_type=name, entity_name=None if who is QuotaScope.DEFAULT else who) for name, who in entity.named.items()]
    changes = [kind.Op(key=key, value=0.0 if value is None else value, remove=value is None) for key, value in quotas.items()]
    return kind(entity=rows, ops=changes)
