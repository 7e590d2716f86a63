"""Every call of an admin client on real brokers: without the right, about good and bad items, while the controller is silent, and after it.

The rows of `tests.admin.table_of_calls` say what each call does. The calls of a test are made at the same time, as some of them wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
import pytest

from integration.cluster import Cluster
from integration.local.cluster import LocalCluster
from integration.security.settings import Security
from integration.waiting import until
from pykafka4 import (
    Acl,
    AdminClient,
    AuthorizationError,
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    LogDir,
    NewTopic,
    PartialFailure,
    Producer,
)
from tests.admin.outcomes import PLACES, Mixed, Right, Row, Things, Within, outcomes
from tests.admin.table_of_calls import ROWS
from tests.integration.reading import LONG_S, SECONDS

pytestmark = [pytest.mark.cluster, pytest.mark.backend("local")]

ALICE = "User:alice"
PARTLY, BEFORE, AFTER = "partly", "before", "after"  # names of things
SHORT_S = 1.2  # seconds; the other controllers elect a new one after 1.5 s at the earliest
SLACK_S = 1.5  # seconds until a busy machine runs the thread that waits
NAMED = r"broker \d|has no leader|no broker reachable|no time was left"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Brokers with an authorizer and delegation tokens; the administrator may do everything."""
    users = {"administrator": "secret", "alice": "secret"}
    security = Security("SASL_PLAINTEXT", mechanisms=("PLAIN",), authorizer=True, users=users, super_users=("administrator",))
    with LocalCluster(3, security=security, properties={"delegation.token.secret.key": "a secret of brokers"}) as brokers:
        yield brokers


def options(cluster: Cluster, user: str = "administrator") -> dict[str, Any]:
    return {"bootstrap_servers": cluster.bootstrap, **cluster.client_security(user)}


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**options(cluster)) as it:
        yield it


@pytest.fixture(scope="module")
def things(cluster: Cluster, admin: AdminClient) -> dict[str, Things]:
    """What calls are about, by name."""
    placed = NewTopic(assignments=dict(enumerate(PLACES)))
    names = [name for one in map(Things, (PARTLY, BEFORE, AFTER)) for name in (one.name, one.old)]
    admin.create_topics(dict.fromkeys(names, placed), wait=True)
    admin.upsert_users(dict.fromkeys(names, "secret"))
    (place,) = admin.describe_log_dirs([1])[1]  # type: ignore[misc]
    assert isinstance(place, LogDir)
    with ThreadPoolExecutor() as pool:
        made = list(pool.map(partial(furnish, cluster, admin, place.path), (PARTLY, BEFORE, AFTER)))
    return {one.name: one for one in made}


def furnish(cluster: Cluster, admin: AdminClient, log_dir: str, name: str) -> Things:
    """Groups, a transactional id and tokens."""
    it = Things(name, admin.create_token().hmac, admin.create_token().hmac, log_dir)
    for group in (it.name, it.old, it.spare):
        admin.set_offsets(group, {it.tp: 0})
    for group in (it.share, it.old_share):
        admin.alter_share_group_offsets(group, {it.tp: 0})
    with Producer(**options(cluster), transactional_id=it.name) as producer:
        producer.init_transactions()
    return it


@pytest.fixture(scope="module")
def alice(cluster: Cluster, admin: AdminClient, things: dict[str, Things]) -> Iterator[AdminClient]:
    """An admin client of a user that may describe topics and groups whose names begin with PARTLY, and nothing else."""
    admin.create_acls([Acl(ALICE, "DESCRIBE", kind, PARTLY, pattern="PREFIXED") for kind in ("topic", "group")])
    with AdminClient(**options(cluster, "alice")) as it:
        until(lambda: it.describe_topic(PARTLY) and it.describe_group(PARTLY), LONG_S, "brokers to know the rights", forgive=(KafkaError,))
        yield it


def all_at_once(calls: dict[str, Callable[[], Any]]) -> dict[str, Future[Any]]:
    """The ended calls."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return {name: pool.submit(call) for name, call in calls.items()}


# ---- without the right


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row.denied, Right)], ids=str)
def test_a_call_without_the_right_names_it(alice: AdminClient, things: dict[str, Things], row: Row) -> None:
    right = row.denied
    assert isinstance(right, Right)
    it = Things(things[PARTLY].none) if right.hides else things[PARTLY]
    with pytest.raises(AuthorizationError, match=f"needs {right.operation} on .*kafka-acls --add") as caught:
        row.call(Within(alice, SECONDS), it)
    assert (caught.value.operation, caught.value.resource) == (right.operation, right.resource)


# ---- good and bad items


@pytest.fixture(scope="module")
def partly(admin: AdminClient, alice: AdminClient, things: dict[str, Things]) -> dict[str, Future[Any]]:
    """The calls about good and bad items."""
    mixed = {row.name: row.mixed for row in ROWS if isinstance(row.mixed, Mixed)}
    return all_at_once(
        {name: partial(outcomes, partial(one.call, alice if one.denied else admin, things[PARTLY])) for name, one in mixed.items()}
    )


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(row.mixed, Mixed)], ids=str)
def test_an_item_that_fails_is_named_and_the_others_are_done(
    admin: AdminClient, things: dict[str, Things], partly: dict[str, Future[Any]], row: Row
) -> None:
    mixed, it = row.mixed, things[PARTLY]
    assert isinstance(mixed, Mixed)
    done, errors = partly[row.name].result()
    assert (set(done), set(errors)) == (set(mixed.good(it)), set(mixed.bad(it)))
    assert {key: str(error) for key, error in errors.items() if mixed.text not in str(error)} == {}
    if (changed := mixed.changed) is not None:
        until(lambda: changed(admin, it), LONG_S, f"brokers to know what {row} has done")


# ---- while the controller is silent


@attrs.frozen
class Silence:
    """The calls while the broker that was the active controller was frozen: the seconds and the error of each, None if it worked."""

    ends: dict[str, tuple[float, KafkaError | None]]


def end_of(call: Callable[[], object]) -> tuple[float, KafkaError | None]:
    began, error = time.monotonic(), None
    try:
        call()
    except KafkaError as caught:
        error = caught
    return time.monotonic() - began, error


@pytest.fixture(scope="module")
def silence(cluster: Cluster, admin: AdminClient, things: dict[str, Things]) -> Silence:
    within, it, controller = Within(admin, SHORT_S), things[BEFORE], cluster.controller()
    cluster.freeze(controller)
    try:
        ended = all_at_once({row.name: partial(end_of, partial(row.call, within, it)) for row in ROWS})
    finally:
        cluster.thaw(controller)
    return Silence({name: future.result() for name, future in ended.items()})


def passes(error: KafkaError) -> bool:
    """Whether the error says that the same call may work later, and which broker is the cause."""
    if isinstance(error, PartialFailure):
        return all(map(passes, error.errors.values()))
    if isinstance(error, BrokerError):
        return error.retriable
    return isinstance(error, KafkaTimeoutError) and re.search(NAMED, str(error)) is not None


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_call_ends_in_time_while_the_controller_is_silent(silence: Silence, row: Row) -> None:
    seconds, error = silence.ends[row.name]
    assert seconds < SHORT_S + SLACK_S
    assert error is None or passes(error), error


@pytest.mark.parametrize("name", ["create_topics", "delete_topics", "alter_quotas", "create_acls", "create_token"])
def test_a_change_names_the_broker_that_stands_for_the_silent_controller(silence: Silence, name: str) -> None:
    error = silence.ends[name][1]
    assert isinstance(error, KafkaTimeoutError)
    assert re.search(r"no answer within 1\.2 s from broker \d, which stands in for the controller", str(error))


def test_a_list_names_a_broker_that_has_not_answered(silence: Silence) -> None:
    """On a busy machine another broker than the frozen one may be late, too."""
    for name in ("list_groups", "list_transactions"):
        error = str(silence.ends[name][1])
        assert re.search(r"broker (\d): \w+: no answer within [\d.]+ s from broker \1|broker \d has not answered Metadata", error), error


@pytest.fixture(scope="module")
def after(admin: AdminClient, things: dict[str, Things], silence: Silence) -> dict[str, Future[Any]]:
    """All calls again, as soon as the broker goes on."""
    return all_at_once({row.name: partial(row.call, Within(admin, LONG_S), things[AFTER]) for row in ROWS})


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_call_works_after_the_controller_was_silent(after: dict[str, Future[Any]], row: Row) -> None:
    after[row.name].result()
