"""Findings. Rule: a finding names the thing, shows the evidence, and says what to do if something is wrong."""

from __future__ import annotations

from enum import Enum

import attrs

__all__ = ["Finding", "Outcome"]


class Outcome(Enum):
    """How a thing was found."""

    FINE = "fine"
    NOTICE = "notice"  # it works, and may be what stops some user, or will stop everybody
    WRONG = "wrong"
    UNSEEN = "unseen"  # nobody could look, as a right is missing or something before is wrong


@attrs.frozen
class Finding:
    """What a step found out `about` a thing: an address, a broker, a topic, a group; or the cluster, if that is empty.

    `what` is a sentence about it, `evidence` what was measured or answered, `way_out` what to do; empty if there is nothing to do.
    """

    step: str
    about: str
    outcome: Outcome
    what: str
    evidence: str = ""
    way_out: str = ""
