"""Defines the findings of a diagnosis."""

from __future__ import annotations

from enum import Enum

import attrs

__all__ = ["Finding", "Outcome"]


class Outcome(Enum):
    """The result of a check."""

    FINE = "fine"
    NOTICE = "notice"  # an action may be needed
    WRONG = "wrong"
    UNSEEN = "unseen"  # the check was not possible, for example because a right is missing


@attrs.frozen
class Finding:
    """The finding of a step. `about` names the examined thing, such as an address or a topic; empty for the cluster or the whole step.

    `what` describes the finding. `evidence` is the measured value or the answer; `way_out` is the next action, empty if no
    action is needed, or if the error in `evidence` is all that is known.
    """

    step: str
    about: str
    outcome: Outcome
    what: str
    evidence: str = ""
    way_out: str = ""
