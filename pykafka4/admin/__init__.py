"""Defines the class `AdminClient`.

Invariant: a change that fails wholly or in part raises an error.

Modules; each line imports only from lines below it:
    topics     topics: create, describe, extend, delete, list
    configs    settings: describe, change, list
    records    records before an offset: delete; offsets of logs: list
    shares     start offsets of share groups: describe, set, delete
    cluster    brokers, the quorum of controllers, features: describe; levels of features: change; a broker: unregister
    transactions  producers of partitions: describe; transactions: list, describe; hanging transactions: find, abort
    acls       access control lists: describe, create, delete
    users      users that log in with SCRAM: list, describe, set passwords, delete
    quotas     client quotas: describe, change
    tokens     delegation tokens: create, describe, renew, expire
    replicas   log directories: describe; replicas: move; leaders: elect
    rewinding  new offsets of groups: plan
    groups     groups: list, describe, delete; lag and offsets of groups: describe; offsets: set, delete
    calls      common parts of the calls
    session    begins the questions of application threads on the loop
    topic_arguments  checks of arguments: topics, settings
    arguments  checks of arguments: group ids, topics, goals of a plan
    files      CSV and JSON of offsets
    values     results: groups, lag, plans
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from pykafka4.admin.acls import AclCalls
from pykafka4.admin.arguments import Destination, Targets, as_destination, as_goal, as_groups, as_targets
from pykafka4.admin.calls import value_or_raise
from pykafka4.admin.cluster import ClusterCalls
from pykafka4.admin.configs import ConfigCalls
from pykafka4.admin.groups import Groups
from pykafka4.admin.quotas import QuotaCalls
from pykafka4.admin.records import RecordCalls
from pykafka4.admin.replicas import ReplicaCalls
from pykafka4.admin.rewinding import Rewinding
from pykafka4.admin.session import AdminSession
from pykafka4.admin.shares import ShareCalls
from pykafka4.admin.tokens import TokenCalls
from pykafka4.admin.topics import TopicCalls
from pykafka4.admin.transactions import TransactionCalls
from pykafka4.admin.users import UserCalls
from pykafka4.admin.values import GroupLag, GroupList, OffsetPlan
from pykafka4.client.client import Client
from pykafka4.client.handle import Handle
from pykafka4.core.admin.values import GroupDescription
from pykafka4.errors import ConfigError, KafkaError
from pykafka4.errors.frames import guarded
from pykafka4.misuse import as_offsets, check_group, check_group_to_set, check_timeout
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import ClientOptions
from pykafka4.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka4.metrics.sources import Source

__all__ = ["AdminClient"]


class AdminClient(
    TopicCalls,
    ConfigCalls,
    RecordCalls,
    ShareCalls,
    ClusterCalls,
    ReplicaCalls,
    TransactionCalls,
    AclCalls,
    UserCalls,
    QuotaCalls,
    TokenCalls,
    Handle,
):
    """Describes and changes a cluster: topics, settings, records, groups, replicas, transactions, ACLs, users, quotas, tokens.

    `AdminClient(bootstrap_servers="host:9092", **options)` owns a client; `AdminClient(client=client)` shares one. Options are fields of
    `ClientConfig` (docs/options.md). All methods may be called from any thread. `timeout` is in seconds (default 60), for the whole call.

    A call that describes several named things returns a dict with an outcome for each: its value, or a KafkaError (AuthorizationError,
    KafkaTimeoutError, BrokerError). A call about one thing, or with a filter, raises its error, but `list_groups` and `list_transactions`
    return the errors of brokers. A change that fails wholly or in part raises the error that all items have in common, or PartialFailure
    with `errors` and `done`.
    """

    _name = "AdminClient"

    @guarded
    def __init__(self, client: Client | None = None, **options: Unpack[ClientOptions]) -> None:
        """Raises ConfigError for an invalid option, ClosedError or ForkedClientError for a `client` that is closed, or belongs to another
        process.

        The client connects in the background.
        """
        self._session = AdminSession(client, options)
        self._groups = Groups(self._session)
        self._rewinding = Rewinding(self._session, self._groups)
        self._finalizer = weakref.finalize(self, AdminSession.forgotten, self._session)
        self._finalizer.atexit = False  # the client drains at exit

    @classmethod
    @guarded
    def from_properties(cls, properties: Properties, /, client: Client | None = None, **options: Unpack[ClientOptions]) -> Self:
        """Create an admin client from a file or mapping of options, named as in the Java client or librdkafka.

        See `Client.from_properties`.
        """
        return create(cls, ClientConfig, properties, options, client=client)

    @property
    def _sources(self) -> tuple[Source, ...]:
        from pykafka4.metrics.sources import NetworkSource  # imported here, because few programs read figures

        return (NetworkSource(self._session.runtime),)

    # -- descriptions

    def list_groups(
        self,
        *,
        states: Collection[str] = (),
        types: Collection[str] = (),
        protocol_types: Collection[str] = (),
        timeout: float | None = None,
    ) -> GroupList:
        """Return all groups, or only the groups that match all given filters.

        `states` has names such as Stable and Empty, `types` such as classic and consumer, `protocol_types` such as consumer. An empty
        filter matches every group. `errors` of the result has the brokers that returned no list. Without DESCRIBE on the cluster, the
        result lacks groups that this user is not allowed to DESCRIBE.
        """
        wanted = _words("states", states), _words("types", types), _words("protocol_types", protocol_types)
        return self._groups.listed(*wanted, self._begin(timeout))

    def describe_groups(self, groups: Collection[str], timeout: float | None = None) -> dict[str, GroupDescription | KafkaError]:
        """Return state, protocol, coordinator and members of each group.

        Groups can be classic groups, consumer groups (KIP-848) or share groups (KIP-932). A group that does not exist, or is of another
        type, has the BrokerError GROUP_ID_NOT_FOUND.
        """
        return self._groups.describe(as_groups(groups), self._begin(timeout))

    def describe_group(self, group: str, timeout: float | None = None) -> GroupDescription:
        """Return state, protocol, coordinator and members of one group: see `describe_groups`. Raises the group's error."""
        name = check_group(group)
        return value_or_raise(self._groups.describe([name], self._begin(timeout))[name])

    def group_offsets(
        self, groups: Collection[str], timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]:
        """Return the committed offsets of each group; an empty dict for a group that does not exist.

        Offsets in an open transaction are left out: the result has the offsets from before the transaction.
        """
        return self._groups.offsets(as_groups(groups), self._begin(timeout), stable=False)

    def group_lag(self, groups: Collection[str], timeout: float | None = None) -> dict[str, GroupLag | KafkaError]:
        """Return the partitions of each group that have a committed offset or an owner, with committed offset, log end, lag and owner.

        The log end is the high watermark, as in Kafka's tools. A partition has an error if brokers did not return its end.
        """
        return self._groups.lag(as_groups(groups), self._begin(timeout))

    # -- changes

    def plan_offsets(
        self,
        group: str,
        topics: Targets | None = None,
        *,
        to: Destination | None = None,
        shift: int | None = None,
        timeout: float | None = None,
    ) -> OffsetPlan:
        """Plan new offsets for `set_offsets`. `topics` has names or (topic, partition) pairs; None: all partitions with a committed offset.

        `to`: "earliest", "latest", "current", an offset, an aware datetime, a timedelta before now, or a mapping of partitions to offsets.
        With a mapping, `topics` defaults to the mapping's partitions, and each of `topics` needs an offset in the mapping. `shift` moves
        each committed offset forward, or back if negative, by this many offsets. An offset outside the log becomes the start or the end of
        the log, with a note in the plan. Source: the option `--reset-offsets` of `kafka-consumer-groups`.

        Raises PartialFailure with the errors of partitions; BrokerError, AuthorizationError, KafkaTimeoutError about the group or a topic.
        From Kafka 2.5 on, the call waits for the end of an open transaction with offsets of the group, because those offsets would replace
        the new ones.
        """
        goal, targets = as_goal(to, shift), None if topics is None else as_targets(topics)
        return self._rewinding.plan(check_group(group), targets, goal, self._begin(timeout))

    def set_offsets(self, group: str, offsets: OffsetPlan | Mapping[Any, int | OffsetAndMetadata], timeout: float | None = None) -> None:
        """Commit `offsets`, a plan or a mapping of partitions to offsets, for a group without members. Creates a group that does not exist.

        Raises GroupNotEmpty, with the members, if the group has members: stop them, or let one of them call `rewind_group` or `seek`.
        Raises PartialFailure if some partitions failed, with the other partitions in `done`; a partition has GroupNotEmpty if members
        joined meanwhile. After KafkaTimeoutError, or an error with a note about an earlier request, the outcome is unknown; the call can be
        repeated.
        """
        name = check_group_to_set(group)
        if isinstance(offsets, OffsetPlan) and offsets.group_id != name:
            raise ConfigError(f"the plan is for group {offsets.group_id!r}, not {name!r}")
        places = as_offsets(offsets.offsets if isinstance(offsets, OffsetPlan) else offsets)
        deadline = self._begin(timeout)
        if places:
            self._groups.commit(name, places, deadline)

    def create_group(
        self, group: str, topics: Targets | None = None, *, start: Destination = "earliest", timeout: float | None = None
    ) -> OffsetPlan:
        """Create a group by committing its first offsets; `start` is like `to` of `plan_offsets`. Returns the committed plan.

        `topics` may be None if `start` is a mapping. Brokers delete the group if it has no members for `offsets.retention.minutes` (7
        days). Raises KafkaError if the group exists.
        """
        goal, name = as_destination(start, "start"), check_group_to_set(group)
        targets = None if topics is None else as_targets(topics)
        if targets is None and goal.offsets is None:
            raise ConfigError(f"create_group({group!r}): needs topics, because a new group has committed no offsets")
        deadline = self._begin(timeout)
        plan = self._rewinding.plan(name, targets, goal, deadline)
        if plan.exists:
            raise KafkaError(f"group {name} already exists; plan_offsets and set_offsets change its offsets")
        self._groups.commit(name, as_offsets(plan.offsets), deadline)
        return plan

    def delete_groups(self, groups: Collection[str], timeout: float | None = None) -> None:
        """Delete groups of any type, with their offsets.

        Raises GroupNotEmpty, with the members, if `describe_groups` shows any; BrokerError GROUP_ID_NOT_FOUND, AuthorizationError (DELETE),
        KafkaTimeoutError; PartialFailure with the deleted groups in `done`. Source: KIP-229, Kafka 1.1.
        """
        self._groups.delete(as_groups(groups), self._begin(timeout))

    def delete_offsets(self, group: str, topics: Targets, timeout: float | None = None) -> list[TopicPartition]:
        """Delete the group's committed offsets of whole topics or single partitions; return these partitions. Other offsets stay.

        Raises GroupNotEmpty if members subscribe to all of the topics, BrokerError GROUP_ID_NOT_FOUND, or PartialFailure with the other
        partitions in `done`. In PartialFailure, a partition has GroupNotEmpty if members subscribe to its topic.
        """
        (names, single), name = as_targets(topics), check_group(group)
        deadline = self._begin(timeout)
        # Single partitions need no query.
        committed = value_or_raise(self._groups.offsets([name], deadline, stable=False)[name]) if names else {}
        partitions = sorted({*single, *(tp for tp in committed if tp.topic in names)})
        if partitions:
            self._groups.delete_offsets(name, partitions, deadline)
        return partitions

    # -- status and end

    def status(self) -> dict[str, Any]:
        """Return the client's state and, if calls get no answer, the reason: see `Client.status`."""
        return self._session.runtime.status()

    def close(self, timeout: float | None = None) -> None:
        """End all calls, which raise ClosedError, and close the client, unless it is shared. Closing twice is allowed.

        `timeout`: the longest wait, in seconds, for an unresponsive thread of the client (default 10).
        """
        limit = check_timeout(timeout)
        self._finalizer.detach()
        self._session.close(limit)

    def __enter__(self) -> Self:
        self._session.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<AdminClient at {self._session.runtime!r}>"


def _words(name: str, value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{name}={value!r}: takes a list of names")
    return [str.__str__(item) for item in value]  # the loop compares values: methods of a subclass must not run there
