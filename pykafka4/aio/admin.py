"""Defines the admin client for asyncio. Its calls run on threads.

A call can be a sequence of requests that depend on earlier responses, and administration is rare. So each call runs on a separate
thread, which sleeps while brokers work, and no call needs a second implementation for tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from pykafka4.admin import AdminClient as ThreadAdmin
from pykafka4.admin.session import CallScope
from pykafka4.aio.tasks import EventLoopBinding
from pykafka4.client.client import Client
from pykafka4.client.handle import Handle
from pykafka4.errors.frames import guarded
from pykafka4.options.config import ClientConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import ClientOptions

if TYPE_CHECKING:
    from pykafka4.metrics.sources import Source

__all__ = ["AdminClient"]

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(call: Callable[Concatenate[ThreadAdmin, P], T]) -> Callable[Concatenate[AdminClient, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method with the arguments and the documentation of `call`."""

    @wraps(call)
    async def run(self: AdminClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(call, self._admin, *args, **kwargs))

    return run


class AdminClient(Handle):
    """The calls of `pykafka4.AdminClient` as coroutines: `await admin.create_topics({"orders": 6}, wait=True)`.

    `aio.AdminClient(bootstrap_servers="host:9092", **options)` owns a client; `aio.AdminClient(client=client)` shares a `pykafka4.Client`.
    An admin client belongs to the event loop of its first use. The threaded calls have the same arguments, results and errors. Each running
    call occupies a thread, so pass many topics or groups to one call. A cancelled call ends; brokers may still carry out a request of
    this call.
    """

    _name = "aio.AdminClient"

    @guarded
    def __init__(self, client: Client | None = None, **options: Unpack[ClientOptions]) -> None:
        """Raises ConfigError for an invalid option. The client connects in the background. Needs no running event loop."""
        self._admin = ThreadAdmin(client, **options)
        self._binding = EventLoopBinding("aio.AdminClient")

    @classmethod
    @guarded
    def from_properties(cls, properties: Properties, /, client: Client | None = None, **options: Unpack[ClientOptions]) -> Self:
        """See pykafka4.AdminClient.from_properties."""
        return create(cls, ClientConfig, properties, options, client=client)

    # -- topics

    create_topics = _awaited(ThreadAdmin.create_topics)
    create_partitions = _awaited(ThreadAdmin.create_partitions)
    delete_topics = _awaited(ThreadAdmin.delete_topics)
    describe_topics = _awaited(ThreadAdmin.describe_topics)
    describe_topic = _awaited(ThreadAdmin.describe_topic)
    list_topics = _awaited(ThreadAdmin.list_topics)

    # -- configs, records

    describe_configs = _awaited(ThreadAdmin.describe_configs)
    describe_config = _awaited(ThreadAdmin.describe_config)
    alter_configs = _awaited(ThreadAdmin.alter_configs)
    list_config_resources = _awaited(ThreadAdmin.list_config_resources)
    delete_records = _awaited(ThreadAdmin.delete_records)
    list_offsets = _awaited(ThreadAdmin.list_offsets)

    # -- groups

    list_groups = _awaited(ThreadAdmin.list_groups)
    describe_groups = _awaited(ThreadAdmin.describe_groups)
    describe_group = _awaited(ThreadAdmin.describe_group)
    group_offsets = _awaited(ThreadAdmin.group_offsets)
    group_lag = _awaited(ThreadAdmin.group_lag)
    plan_offsets = _awaited(ThreadAdmin.plan_offsets)
    set_offsets = _awaited(ThreadAdmin.set_offsets)
    create_group = _awaited(ThreadAdmin.create_group)
    delete_groups = _awaited(ThreadAdmin.delete_groups)
    delete_offsets = _awaited(ThreadAdmin.delete_offsets)
    share_group_offsets = _awaited(ThreadAdmin.share_group_offsets)
    alter_share_group_offsets = _awaited(ThreadAdmin.alter_share_group_offsets)
    delete_share_group_offsets = _awaited(ThreadAdmin.delete_share_group_offsets)

    # -- the cluster, replicas

    describe_cluster = _awaited(ThreadAdmin.describe_cluster)
    describe_quorum = _awaited(ThreadAdmin.describe_quorum)
    describe_features = _awaited(ThreadAdmin.describe_features)
    update_features = _awaited(ThreadAdmin.update_features)
    unregister_broker = _awaited(ThreadAdmin.unregister_broker)
    describe_log_dirs = _awaited(ThreadAdmin.describe_log_dirs)
    alter_replica_log_dirs = _awaited(ThreadAdmin.alter_replica_log_dirs)
    alter_reassignments = _awaited(ThreadAdmin.alter_reassignments)
    list_reassignments = _awaited(ThreadAdmin.list_reassignments)
    reassignment_progress = _awaited(ThreadAdmin.reassignment_progress)
    elect_leaders = _awaited(ThreadAdmin.elect_leaders)

    # -- producers, transactions

    describe_producers = _awaited(ThreadAdmin.describe_producers)
    list_transactions = _awaited(ThreadAdmin.list_transactions)
    describe_transactions = _awaited(ThreadAdmin.describe_transactions)
    describe_transaction = _awaited(ThreadAdmin.describe_transaction)
    abort_transaction = _awaited(ThreadAdmin.abort_transaction)
    find_hanging_transactions = _awaited(ThreadAdmin.find_hanging_transactions)

    # -- rights, users, quotas, tokens

    describe_acls = _awaited(ThreadAdmin.describe_acls)
    create_acls = _awaited(ThreadAdmin.create_acls)
    delete_acls = _awaited(ThreadAdmin.delete_acls)
    list_users = _awaited(ThreadAdmin.list_users)
    describe_users = _awaited(ThreadAdmin.describe_users)
    describe_user = _awaited(ThreadAdmin.describe_user)
    upsert_users = _awaited(ThreadAdmin.upsert_users)
    delete_users = _awaited(ThreadAdmin.delete_users)
    describe_quotas = _awaited(ThreadAdmin.describe_quotas)
    alter_quotas = _awaited(ThreadAdmin.alter_quotas)
    create_token = _awaited(ThreadAdmin.create_token)
    describe_tokens = _awaited(ThreadAdmin.describe_tokens)
    renew_token = _awaited(ThreadAdmin.renew_token)
    expire_token = _awaited(ThreadAdmin.expire_token)

    # -- the rest

    @property
    def _sources(self) -> tuple[Source, ...]:
        return self._admin._sources

    def status(self) -> dict[str, Any]:
        """See pykafka4.AdminClient.status."""
        return self._admin.status()

    async def close(self, timeout: float | None = None) -> None:
        """End all calls, which raise ClosedError, and close the client, unless it is shared. Closing twice is allowed."""
        if not self._admin._session.runtime.loop.forked:  # a forked child has another event loop
            self._binding.enter()
            await self._binding.run_on_thread(lambda: self._admin.close(timeout), self._client_id)

    async def __aenter__(self) -> Self:
        self._binding.enter()
        self._admin._session.check()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self._admin).replace("<AdminClient", "<aio.AdminClient", 1)

    @property
    def _client_id(self) -> str:
        return self._admin._session.config.client_id

    async def _run(self, call: Callable[[], T]) -> T:
        """Run `call` on a new thread; wait until the call ends or this task is cancelled."""
        self._admin._session.check()  # first: a forked child has another event loop, and `enter` would report that instead of the fork
        self._binding.enter()
        scope = CallScope()

        def run() -> T:
            CallScope.current.set(scope)  # in the thread's own context
            return call()

        try:
            return await self._binding.run_on_thread(run, self._client_id, "pykafka4-admin")
        finally:
            scope.end()
