"""Changes users, rights and certificates of a running cluster. Invariant: a change returns when every running broker that it
concerns obeys it.

So a test never meets a broker that does not know the change yet. A login at the clients' listener, past any proxy, shows whether a broker
accepts a password or a certificate.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from integration.admin import Admin, check
from integration.seam import Brokers
from integration.security.certificates import Authority, Certificate
from integration.security.credentials import ITERATIONS, SCRAM, salted
from integration.security.login import Refused, Session, login, served_certificate, unchecked
from integration.security.settings import PASSWORDS, Mechanism, Security
from integration.waiting import Deadline, until
from pykafka4.errors import KafkaError
from pykafka4.wire.protocol.messages_acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from pykafka4.wire.protocol.messages_configs import IncrementalAlterConfigsRequest
from pykafka4.wire.protocol.messages_users import AlterUserScramCredentialsRequest

__all__ = ["Access", "Acl"]

APPLY_S = 30.0
NOT_FOUND = 91
BROKER, SET = 4, 0  # in IncrementalAlterConfigs: the type of resource, the operation
OPERATIONS = {
    "all": 2, "read": 3, "write": 4, "create": 5, "delete": 6, "alter": 7, "describe": 8, "cluster_action": 9, "describe_configs": 10,
    "alter_configs": 11, "idempotent_write": 12,
}  # fmt: skip
RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5}
PATTERNS = {"literal": 3, "prefixed": 4}
PERMISSIONS = {"deny": 2, "allow": 3}

Operation: TypeAlias = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
]
Resource: TypeAlias = Literal["topic", "group", "cluster", "transactional_id"]
Pattern: TypeAlias = Literal["literal", "prefixed"]
Permission: TypeAlias = Literal["allow", "deny"]


@attrs.frozen
class Acl:
    """One right, or with `permission="deny"` a prohibition, in Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def filter(self) -> dict[str, Any]:
        return {
            "resource_type_filter": self.resource_type,
            "resource_name_filter": self.resource_name,
            "pattern_type_filter": self.pattern,
            "principal_filter": self.principal,
            "host_filter": self.host,
            "operation": self.operation,
            "permission_type": self.permission,
        }


class Access:
    def __init__(self, brokers: Brokers, admin: Admin, security: Security) -> None:
        self.brokers, self.admin, self.security = brokers, admin, security
        self.authority = Authority()  # signs the brokers' certificates
        self.trusted: tuple[Authority, ...] = (self.authority,)  # sign the clients' certificates
        self.passwords = self.given()

    # -- options of clients ------------------------------------------------------------------------------------------------

    def options(self, user: str | None = None, mechanism: Mechanism | None = None, password: str | None = None) -> dict[str, Any]:
        """pykafka4's options for a client; by default of the first user, with the first mechanism and the current password.

        For OAUTHBEARER the caller adds the client's token, for GSSAPI its keytab (or a ticket).
        """
        security = self.security
        who = user if user is not None else next(iter(security.users), "client")
        found: dict[str, Any] = {"security_protocol": security.protocol}
        if security.tls:
            found["ssl_cafile"] = str(self.brokers.private_folder() / "ca.pem")
        if security.client_auth == "required":
            found["ssl_certfile"], found["ssl_keyfile"] = self.client_files(who)
        if security.sasl:
            found["sasl_mechanism"] = name = mechanism or security.mechanisms[0]
            if name in PASSWORDS:
                found["sasl_username"] = who
                found["sasl_password"] = self.password(who, name) if password is None else password
        return found

    def password(self, user: str, mechanism: Mechanism) -> str:
        """Raises ValueError if the user has none."""
        if (user, mechanism) not in self.passwords:
            raise ValueError(f"{user} has no password of {mechanism}; known are {', '.join(map(' by '.join, self.passwords)) or 'none'}")
        return self.passwords[user, mechanism]

    def client_files(self, user: str, certificate: Certificate | None = None) -> tuple[str, str]:
        """The files are removed with the cluster. Default: a new valid certificate."""
        made = certificate or self.trusted[0].client(user)
        cert, key = made.write(self.brokers.private_folder() / "clients", secrets.token_hex(8))
        return str(cert), str(key)

    # -- logins ------------------------------------------------------------------------------------------------------------

    def own_certificate(self) -> tuple[str, str] | None:
        """None if the brokers demand no certificate."""
        return self.client_files("harness") if self.security.client_auth == "required" else None

    def context(self) -> ssl.SSLContext | None:
        """The context verifies no certificate, because a test may give a server a wrong one; None without TLS."""
        return unchecked(self.own_certificate()) if self.security.tls else None

    def login(self, node: int, user: str, mechanism: Mechanism, password: str, timeout: float = APPLY_S) -> Session:
        return login(self.brokers.listener_address(node), self.context(), mechanism, user, password, timeout)

    def admits(self, node: int, user: str, mechanism: Mechanism, password: str) -> bool:
        try:
            self.login(node, user, mechanism, password)
        except Refused:
            return False
        return True

    # -- users -------------------------------------------------------------------------------------------------------------

    def given(self) -> dict[tuple[str, Mechanism], str]:
        named = [name for name in self.security.mechanisms if self.security.sasl and name in PASSWORDS]
        return {(user, name): word for user, word in self.security.users.items() for name in named}

    def begin(self, timeout: float = APPLY_S) -> None:
        """Create the users that brokers keep in their metadata; the users of PLAIN are in the brokers' settings."""
        deadline = Deadline(timeout)
        self.passwords = self.given()
        for user, word in self.security.users.items():
            for name in self.security.scram:
                self.set_password(user, name, word, deadline.left())

    def set_password(self, user: str, mechanism: Mechanism, password: str, timeout: float = APPLY_S) -> None:
        self.check_scram(mechanism)
        deadline = Deadline(timeout)
        row = credential(user, mechanism, password)  # one per request: Kafka refuses two of the same user
        self.alter(AlterUserScramCredentialsRequest(deletions=[], upsertions=[row]), deadline)
        self.passwords[user, mechanism] = password
        self.wait_admitted(user, mechanism, password, True, deadline)

    def drop_user(self, user: str, mechanism: Mechanism | None = None, timeout: float = APPLY_S) -> None:
        """Remove a user's password, of one SCRAM mechanism or of all. The user's open connections continue."""
        if mechanism is not None:
            self.check_scram(mechanism)
        deadline = Deadline(timeout)
        gone = [name for name in self.security.scram if mechanism in (None, name) and (user, name) in self.passwords]
        if not gone:
            raise ValueError(f"{user} has no password of {mechanism or 'SCRAM'}")
        for name in gone:
            row = AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=SCRAM[name].number)
            self.alter(AlterUserScramCredentialsRequest(deletions=[row], upsertions=[]), deadline)
            self.wait_admitted(user, name, self.passwords.pop((user, name)), False, deadline)

    def wait_admitted(self, user: str, mechanism: Mechanism, password: str, wanted: bool, deadline: Deadline) -> None:
        what = f"every broker to {'admit' if wanted else 'refuse'} {user} by {mechanism}"
        self.everywhere(lambda node: self.admits(node, user, mechanism, password) is wanted, deadline, what)

    def alter(self, request: AlterUserScramCredentialsRequest, deadline: Deadline) -> None:
        def judge(response: Any, again: bool) -> None:
            for row in response.results:
                if not (again and row.error_code == NOT_FOUND):  # an earlier attempt has removed the password, and its response was lost
                    check(row.error_code, f"change the password of {row.user}", row.error_message)

        self.admin.order(request, judge, deadline.left())

    def check_scram(self, mechanism: str) -> None:
        if mechanism not in self.security.scram:
            have = ", ".join(self.security.scram) or "none"
            raise ValueError(f"{mechanism}: only passwords of SCRAM change while brokers run; enabled here: {have}")

    # -- rights ------------------------------------------------------------------------------------------------------------

    def grant(
        self,
        user: str,
        operation: Operation,
        resource_type: Resource,
        name: str,
        pattern: Pattern = "literal",
        host: str = "*",
        permission: Permission = "allow",
        timeout: float = APPLY_S,
    ) -> Acl:
        """Allow an operation, or forbid it with `permission="deny"`; the name of the cluster is `kafka-cluster`."""
        acl = acl_of(user, operation, resource_type, name, pattern, host, permission)
        row = CreateAclsRequest.Creation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            resource_pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )

        def judge(response: Any, _again: bool) -> None:
            check(response.results[0].error_code, f"grant {acl}", response.results[0].error_message)

        deadline = Deadline(timeout)
        self.admin.order(CreateAclsRequest(creations=[row]), judge, deadline.left())
        self.everywhere(lambda node: self.has(node, acl), deadline, f"every broker to know {acl}")
        return acl

    def revoke(
        self,
        user: str,
        operation: Operation,
        resource_type: Resource,
        name: str,
        pattern: Pattern = "literal",
        host: str = "*",
        permission: Permission = "allow",
        timeout: float = APPLY_S,
    ) -> None:
        """Without effect if there is no such grant."""
        acl = acl_of(user, operation, resource_type, name, pattern, host, permission)

        def judge(response: Any, _again: bool) -> None:
            (told,) = response.filter_results
            check(told.error_code, f"revoke {acl}", told.error_message)
            for row in told.matching_acls:
                check(row.error_code, f"revoke {acl}", row.error_message)

        deadline = Deadline(timeout)
        self.admin.order(DeleteAclsRequest(filters=[DeleteAclsRequest.Filter(**acl.filter())]), judge, deadline.left())
        self.everywhere(lambda node: not self.has(node, acl), deadline, f"every broker to forget {acl}")

    def has(self, node: int, acl: Acl) -> bool:
        told = self.admin.ask(node, DescribeAclsRequest(**acl.filter()))
        check(told.error_code, f"describe ACLs of broker {node}", told.error_message)
        return bool(told.resources)

    # -- certificates ------------------------------------------------------------------------------------------------------

    def certificate(self, node: int | None = None) -> Certificate:
        """A certificate with all names and addresses of `node`; None: of every broker."""
        nodes = self.brokers.nodes if node is None else (node,)
        return self.authority.server(*sorted({host for each in nodes for host in self.brokers.hosts(each)}))

    def replace_certificate(self, node: int, certificate: Certificate, timeout: float = APPLY_S) -> None:
        """Have a running broker show `certificate` to every new connection, even after a restart."""
        deadline = Deadline(timeout)
        self.set_options(node, self.brokers.put_keystore(node, certificate.keystore), deadline)
        until(
            lambda: self.shows(node, certificate),
            deadline.left(),
            f"broker {node} to show another certificate",
            forgive=(OSError, KafkaError),
        )

    def shows(self, node: int, certificate: Certificate) -> bool:
        return served_certificate(self.brokers.listener_address(node), self.own_certificate()) == certificate.der

    def trust(self, *authorities: Authority, timeout: float = APPLY_S) -> None:
        """Have the running brokers admit, on new connections, only clients with certificates of these authorities."""
        deadline, dropped = Deadline(timeout), [old for old in self.trusted if old not in authorities]
        shown = [(self.client_files("harness", by.client("harness")), by in authorities) for by in (*authorities, *dropped)]
        self.trusted = authorities
        certificates = "".join(by.pem.decode() for by in authorities)
        names = [f"listener.name.{listener.lower()}.ssl.truststore.certificates" for listener in self.brokers.secured_listeners]
        for node in self.brokers.running():
            self.set_options(node, dict.fromkeys(names, certificates), deadline)
        what = f"every broker to trust these {len(authorities)} authorities, and no longer {len(dropped)} others"
        self.everywhere(lambda node: all(self.believes(node, files) is wanted for files, wanted in shown), deadline, what)

    def believes(self, node: int, files: tuple[str, str]) -> bool:
        try:
            login(self.brokers.listener_address(node), unchecked(files))
        except (ssl.SSLError, ConnectionError):
            return False
        return True

    def set_options(self, node: int, options: Mapping[str, str], deadline: Deadline) -> None:
        """A broker whose options keep their values reads the named files again."""
        rows = [
            IncrementalAlterConfigsRequest.Resource.Config(name=name, config_operation=SET, value=value) for name, value in options.items()
        ]
        resource = IncrementalAlterConfigsRequest.Resource(resource_type=BROKER, resource_name=str(node), configs=rows)
        answer = self.admin.ask(node, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), deadline.left())
        check(answer.responses[0].error_code, f"set {', '.join(options)} of broker {node}", answer.responses[0].error_message)

    # -- waiting -----------------------------------------------------------------------------------------------------------

    def everywhere(self, condition: Callable[[int], bool], deadline: Deadline, what: str) -> None:
        """A broker that does not answer does not fulfil the condition yet."""
        until(lambda: all(map(condition, self.brokers.running())), deadline.left(), what, forgive=(OSError, KafkaError))


def credential(user: str, mechanism: str, password: str) -> AlterUserScramCredentialsRequest.Upsertion:
    salt = secrets.token_bytes(16)
    return AlterUserScramCredentialsRequest.Upsertion(
        name=user,
        mechanism=SCRAM[mechanism].number,
        iterations=ITERATIONS,
        salt=salt,
        salted_password=salted(mechanism, password, salt, ITERATIONS),
    )


def acl_of(user: str, operation: str, resource_type: str, name: str, pattern: str, host: str, permission: str) -> Acl:
    return Acl(RESOURCES[resource_type], name, PATTERNS[pattern], f"User:{user}", host, OPERATIONS[operation], PERMISSIONS[permission])
