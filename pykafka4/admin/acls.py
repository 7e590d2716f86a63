"""Describes, creates and deletes ACLs (access control lists). Invariant: an argument of a wrong type is refused before a request
is sent."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.core.admin.acls import Acl, AclFilter, CreateAcls, DeleteAcls, DescribeAcls
from pykafka4.errors import ConfigError, KafkaError, shown

__all__ = ["AclCalls"]


class AclCalls(AdminCalls):
    def describe_acls(self, wanted: AclFilter | None = None, *, timeout: float | None = None) -> tuple[Acl, ...]:
        """Return the ACLs that match a filter, sorted; without a filter, all ACLs.

        The result comes from one broker, which may not know the latest changes yet. Needs DESCRIBE on the cluster.
        Raises BrokerError SECURITY_DISABLED if brokers have no authorizer, AuthorizationError. Source: KIP-140.
        """
        key = AclFilter() if wanted is None else _filter(wanted)
        return value_or_raise(self._ask_any_broker(DescribeAcls(), [key], self._begin(timeout))[key])

    def create_acls(self, acls: Iterable[Acl], *, timeout: float | None = None) -> None:
        """Create `acls`; an ACL that already exists stays. Needs ALTER on the cluster.

        Raises BrokerError SECURITY_DISABLED if brokers have no authorizer, AuthorizationError, PartialFailure with the errors of ACLs.
        Source: KIP-140.
        """
        wanted = _listed("acls", acls, Acl)
        found: dict[Acl, bool | KafkaError] = self._ask_controller(CreateAcls(), wanted, self._begin(timeout))
        require_all_done("ACLs cannot be created", found)

    def delete_acls(self, wanted: Iterable[AclFilter | Acl], *, timeout: float | None = None) -> dict[AclFilter | Acl, tuple[Acl, ...]]:
        """Delete single ACLs, or all that match a filter; return the deleted ACLs for each item. Needs ALTER on the cluster.

        `AclFilter()` matches all ACLs. A request whose response is lost is repeated: the result then lacks the ACLs that the first request
        deleted. Raises the same errors as `create_acls`. Source: KIP-140.
        """
        keys = _listed("wanted", wanted, (Acl, AclFilter))
        found: dict[AclFilter | Acl, tuple[Acl, ...] | KafkaError] = self._ask_controller(DeleteAcls(), keys, self._begin(timeout))
        return require_all_done("ACLs cannot be deleted", found)


def _filter(value: object) -> AclFilter:
    if not isinstance(value, AclFilter):
        raise ConfigError(f"wanted={shown(value)}: takes an AclFilter, such as AclFilter(principal='User:alice')")
    return value


def _listed(name: str, values: object, kinds: type | tuple[type, ...]) -> list[AclFilter | Acl]:
    found = None if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) else list(values)
    if found is None or not all(isinstance(one, kinds) for one in found):
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise ConfigError(f"{name}={shown(values if found is None else found)}: takes a list of {names}")
    return list(dict.fromkeys(found))
