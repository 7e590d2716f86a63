"""Resolves the names of APIs and errors in ordered faults. Invariant: a wrong name is rejected when the fault is ordered."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar, Final, Protocol

from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol import declared  # noqa: F401  # its import fills REQUESTS
from pykafka4.wire.protocol.schema import REQUESTS

__all__ = ["Api", "Keyed", "api_key", "api_name", "error_name"]

KEYS: Final[dict[str, int]] = {cls.__name__.removesuffix("Request"): key for key, cls in sorted(REQUESTS.items())}
FORMER: Final = {"NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER", "INVALID_GROUP_GENERATION": "ILLEGAL_GENERATION"}
NAMES: Final[dict[int, str]] = {key: name for name, key in KEYS.items()}


class Keyed(Protocol):
    api_key: ClassVar[int]


Api = str | int | type[Keyed]


def api_key(api: Api) -> int:
    """The key of an API, given by its name ("Produce"), its key, or its request class. Raises ValueError for an unknown API."""
    if isinstance(api, str):
        if api not in KEYS:
            raise ValueError(f"{api!r} is not the name of an API{nearest(api, KEYS)}")
        return KEYS[api]
    key = api if isinstance(api, int) and not isinstance(api, bool) else getattr(api, "api_key", None)
    if not isinstance(key, int) or key not in NAMES:
        raise ValueError(f"{api!r} is not an API; give its name, such as 'Produce'")
    return key


def api_name(api: Api) -> str:
    return NAMES[api_key(api)]


def error_name(error: str) -> str:
    """Raises ValueError if Kafka has no such error."""
    if not isinstance(error, str) or error not in BY_NAME or BY_NAME[error].code == 0:
        hint = nearest(FORMER.get(error, error), BY_NAME.keys() - {"NONE"}) if isinstance(error, str) else ""
        raise ValueError(f"{error!r} is not the name of a Kafka error{hint}")
    return error


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message; empty if no known name is near."""
    known = list(known)
    folded = {candidate.lower().replace("_", ""): candidate for candidate in known}
    wanted = name.lower().replace("_", "").removesuffix("request")
    found = difflib.get_close_matches(wanted, folded, n=1)
    return f"; did you mean {folded[found[0]]!r}?" if found else ""
