"""Reads the settings again, and logs which changes need a restart. Invariant: a file with errors changes no setting."""

from __future__ import annotations

import logging
from pathlib import Path

from pykafka4.agent.service.check import check
from pykafka4.agent.settings.changes import changes, with_live_changes
from pykafka4.agent.settings.file import SettingsError, read_settings
from pykafka4.agent.settings.values import AgentSettings

__all__ = ["reread"]

log = logging.getLogger("pykafka4.agent")


def reread(file: Path, running: AgentSettings) -> AgentSettings | None:
    """Return the running settings with the live changes of the file; None without live changes or after errors."""
    try:
        settings = read_settings(file)
        problems = check(settings)
    except SettingsError as error:
        problems = list(error.problems)
    if problems:
        for problem in problems:
            log.error("agent: reload: %s", problem)
        log.error("agent: reload: %s has errors; the agent continues with its present settings", file)
        return None
    found = changes(running, settings)
    for change in found:
        if change.live:
            log.info("agent: reload: %s has changed", change.key)
        else:
            log.warning("agent: reload: %s has changed, and takes effect only after a restart", change.key)
    if not found:
        log.info("agent: reload: no setting of %s has changed", file)
    return with_live_changes(running, settings) if any(change.live for change in found) else None
