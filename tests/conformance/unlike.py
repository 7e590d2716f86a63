"""Where the model of an old release does not answer as that release did, and why it is left so.

"Up to" a release means: seen there, and not in the next release that was tried (1.1, 2.1, 2.8, 3.9).

Invariant: `UNLIKE[broker][script]` names exactly the steps that differ; a step that no longer differs has to leave the table.
"""

from __future__ import annotations

from typing import Final

__all__ = ["UNLIKE"]

CLOSES: Final = ("produce nothing", "produce a header cut short", "produce a batch cut short", "produce a length of 0", "produce magic 3")
# Up to 2.1 a broker does not look at how a batch is cut; it fails to parse it, and closes the connection.
NOT_PARSED: Final = (*CLOSES, "produce two batches")
# Up to 1.1 a broker takes a transactional batch without a transactional id, so that all later offsets differ as well.
TRANSACTIONAL: Final = (
    "produce transactional",
    "produce a leader epoch",
    "produce the last batch",
    "produce by name",
    "produce in version 3",
    "produce acks=1",
)
# Up to 2.1 the checks of a record stop at the first that fails.
FIRST_ERROR: Final = ("compacted, without a key and too old",)
# The timestamp -3 asks for the newest record since 3.0; before, every record is later than it.
NO_NEWEST: Final = ("list newest",)
# Up to 2.1 a waiting fetch does not notice that its topic is deleted.
UNHEARD: Final = ("fetch ends when the topic is deleted",)
# Up to 2.1 Metadata calls a name that is not legal unknown.
NAMES: Final = ("metadata of a topic: illegal", "metadata of a topic: empty", "metadata of a topic: too long")
# Up to 2.1 a refused JoinGroup has generation 0, not -1.
GENERATION_0: Final = (
    "join with an id that nobody gave",
    "join without protocols",
    "join without a kind",
    "join with another protocol",
    "join of another kind",
    "join with the id after leaving",
)

UNLIKE: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "0.11.0.3": {
        # 0.11 does not compare the last offset delta with the count.
        "formats": (*NOT_PARSED, *TRANSACTIONAL, "produce a last offset delta beyond the count"),
        "records": FIRST_ERROR,
        "offsets": NO_NEWEST,
        "waiting": UNHEARD,
        "metadata": NAMES,
        "joining": tuple(step for step in GENERATION_0 if not step.startswith("join without")),
        "commits": ("commit of no partition", "committed of no partition"),
    },
    "1.1.1": {
        # The start of the log stands beside UNKNOWN_SERVER_ERROR for zstd.
        "formats": (*NOT_PARSED, *TRANSACTIONAL, "produce zstd in version 6", "produce zstd"),
        "records": FIRST_ERROR,
        # The model plays 1.0, which has no fetch sessions yet.
        "offsets": (*NO_NEWEST, "fetch in an unknown session"),
        "waiting": UNHEARD,
        "metadata": NAMES,
        "joining": GENERATION_0,
        # Positions of partitions that do not exist are stored.
        "commits": ("commit of no partition", "committed of no partition"),
    },
    "2.1.1": {
        "formats": NOT_PARSED,
        "records": FIRST_ERROR,
        # ListOffsets sends no leader epoch.
        "offsets": (
            *NO_NEWEST,
            "list earliest",
            "list latest",
            "list long ago",
            "list in between",
            "list earliest of an empty log",
            "list latest of an empty log",
            "list earliest of a log that was cut",
        ),
        "waiting": UNHEARD,
        "metadata": NAMES,
        "joining": GENERATION_0,
    },
    "2.8.2": {
        "offsets": NO_NEWEST,
        # A member id that is known counts, although the instance id is not.
        "static": ("a known member id with an unknown instance",),
    },
}
