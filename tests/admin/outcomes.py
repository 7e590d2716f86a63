"""The five outcomes of a call of an admin client, and short ways to write the rows of `table_of_calls`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeAlias

import attrs

from pykafka4 import AdminClient, BrokerError, KafkaError, PartialFailure, TopicPartition, messages

PLACES = ((1, 2, 3), (2, 3, 1))  # of the replicas of a topic's partitions


@attrs.frozen
class Things:
    """What calls are about: a topic with two partitions, a group with offsets, a transactional id and a user, all of one name.

    A share group is called `share`. The things called `old` and `spare` may be deleted. Nothing is called `new` before a call has made it,
    and nothing ever `none`.
    """

    name: str
    token: bytes = b"token"
    old_token: bytes = b"old token"
    log_dir: str = "/d"  # of the first broker

    @property
    def old(self) -> str:
        return f"{self.name}-old"

    @property
    def new(self) -> str:
        return f"{self.name}-new"

    @property
    def none(self) -> str:
        return f"none-of-{self.name}"

    @property
    def spare(self) -> str:
        return f"{self.name}-spare"

    @property
    def share(self) -> str:
        return f"{self.name}-share"

    @property
    def old_share(self) -> str:
        return f"{self.name}-old-share"

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.name, 0)

    @property
    def bad_tp(self) -> TopicPartition:
        return TopicPartition(self.name, 9)


Call: TypeAlias = Callable[[Any, Things], Any]  # of an AdminClient, or of one `Within` a time


class Within:
    """An admin client whose calls end after `seconds`."""

    def __init__(self, admin: AdminClient, seconds: float) -> None:
        self._admin, self._seconds = admin, seconds

    def __getattr__(self, name: str) -> Any:
        return partial(getattr(self._admin, name), timeout=self._seconds)


# ---- columns


@attrs.frozen
class Right:
    """The right without which the call raises AuthorizationError, if the user may DESCRIBE the topic and the group."""

    operation: str
    resource: str

    @property
    def hides(self) -> bool:
        """Whether things are unknown to users without this right, so that these have to be other things."""
        return self.operation == "DESCRIBE" and self.resource != "cluster"

    def __str__(self) -> str:
        return f"{self.operation} on the {self.resource}"


@attrs.frozen
class Old:
    """A request that a broker does not have, or only up to version `top`; then the call, or `call` in its place, raises UnsupportedVersion.

    `since`: the first release that can do it. `what`: what of the call needs it, in the guide; empty for the call itself.
    """

    api: str
    since: str = attrs.field()
    top: int | None = None
    call: Call | None = None
    what: str = ""

    @since.default
    def _declared(self) -> str:
        return str(getattr(messages, f"{self.api}Request").since)


@attrs.frozen
class Mixed:
    """A call about good items and bad ones. `good`, `bad`: the keys of their outcomes; `text`: in the errors of the bad ones.

    `changed` says whether the good ones are done, where something is changed. `denied`: the bad items are those without a right.
    """

    call: Call
    good: Callable[[Things], Collection[Any]]
    bad: Callable[[Things], Collection[Any]]
    text: str
    changed: Callable[[AdminClient, Things], bool] | None = None
    denied: bool = False


@attrs.frozen
class Shown:
    """The outcome has a test of its own."""

    test: str


@attrs.frozen
class Never:
    """The call cannot have this outcome."""

    why: str


@attrs.frozen
class Row:
    """A call. `works`: the test that compares it with Kafka's own tools or another client."""

    name: str
    call: Call
    works: str
    denied: Right | Shown | Never
    old: tuple[Old, ...] | Shown | Never
    mixed: Mixed | Shown | Never

    def __str__(self) -> str:
        return self.name


# ---- words of the rows


def every(found: Mapping[Any, Any]) -> None:
    """Raise the error of an item, if there is one."""
    for one in found.values():
        if isinstance(one, KafkaError):
            raise one


def complete(found: Any) -> Any:
    """A list that was taken from every broker, or the error of one that was not asked."""
    every(found.errors)
    return found


def outcomes(call: Callable[[], Any]) -> tuple[dict[Any, Any], dict[Any, KafkaError]]:
    """The results and the errors of a call about several items."""
    try:
        found = call()
    except PartialFailure as failure:
        return failure.done, failure.errors
    errors = {key: one for key, one in found.items() if isinstance(one, KafkaError)}
    return {key: one for key, one in found.items() if key not in errors}, errors


def refused(code: str, call: Callable[[], object]) -> None:
    """The controller has carried out `call`, and refuses it: there is nothing harmless that it would do."""
    try:
        call()
    except BrokerError as error:
        if error.code.name != code:
            raise


def by_error(found: Mapping[Any, Any]) -> dict[Any, Any]:
    """Outcomes that have their error in a field."""
    return {key: one.error or one for key, one in found.items()}


def one(what: str) -> Never:
    return Never(f"is about one {what}")


LEFT_OUT = Never("brokers leave out what the user may not see")
ANY_BROKER = Never("every broker that this client talks to has the requests")
CLUSTER_ALTER, CLUSTER_DESCRIBE = Right("ALTER", "cluster"), Right("DESCRIBE", "cluster")
DESCRIBE_TOPIC, DESCRIBE_GROUP = Right("DESCRIBE", "topic"), Right("DESCRIBE", "group")
DESCRIBE_ID = Right("DESCRIBE", "transactional id")
NO_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
DENIED_GROUP = "needs DESCRIBE on group"


def names(*which: str) -> Callable[[Things], Collection[Any]]:
    return lambda it: [getattr(it, name) for name in which]


def partitions(*which: tuple[str, int]) -> Callable[[Things], Collection[Any]]:
    return lambda it: [TopicPartition(getattr(it, name), number) for name, number in which]


FIRST, MISSING = names("tp"), names("bad_tp")
