"""Defines the findings of a diagnosis."""

from __future__ import annotations

from enum import Enum

import attrs

__all__ = ["Finding", "Outcome"]


class Outcome(Enum):
    """The result of a check."""

    FINE = "fine"
    NOTICE = "notice"  # the thing works in part, or will fail later
    WRONG = "wrong"
    UNSEEN = "unseen"  # the check was not possible: a right is missing, or an earlier step failed


@attrs.frozen
class Finding:
    """The finding of a step `about` a thing: an address, a broker, a topic or a group; the cluster if `about` is empty.

    `what` describes the finding in a sentence. `evidence` is the measured value or the answer; `way_out` is the next action, empty if no
    action is needed, or if the error in `evidence` is all that is known.
    """

    step: str
    about: str
    outcome: Outcome
    what: str
    evidence: str = ""
    way_out: str = ""
