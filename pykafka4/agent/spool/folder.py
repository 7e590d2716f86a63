"""Locks the spool's folder for one agent, and finds the messages of earlier agents in the folder.

lock                                    held with flock; names the process and the format
topics/t-NAME/NUMBER.seg                the segments of a topic, in the order of their numbers
damaged/t-NAME-NUMBER.seg               segments with bytes that could not be read
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Final

from pykafka4.agent.spool.disk import Disk
from pykafka4.agent.spool.fifo import Fifo
from pykafka4.agent.spool.frames import VERSION
from pykafka4.agent.spool.segment import Segment
from pykafka4.logs import get_log
from pykafka4.misuse import is_legal_topic

__all__ = ["Folder", "SpoolUnusable"]

log = get_log("pykafka4.agent.spool")

FOLDER_MODE: Final = 0o700
PREFIX: Final = "t-"  # without it a topic such as `.x` would have a hidden folder
SEGMENT: Final = re.compile(r"([0-9]{20})\.seg")
FORMAT: Final = "pykafka4 spool, format"


class SpoolUnusable(Exception):
    """Raised if the path is not a folder, or the folder is not accessible, has another format, or is locked by another agent."""


class Folder:
    """The locked folder of the spool."""

    def __init__(self, path: Path) -> None:
        """Create the folder if necessary, and lock it. Raises SpoolUnusable."""
        self.path = path
        try:
            path.mkdir(mode=FOLDER_MODE, exist_ok=True)
            path.chmod(FOLDER_MODE)
            (path / "topics").mkdir(mode=FOLDER_MODE, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as refused:
            reason = f"{refused.filename or path}: {refused.strerror}"
            raise SpoolUnusable(
                f"[spool] path = {str(path)!r} cannot be used: {reason}; the agent's user needs a folder that it may write to"
            ) from None
        try:
            self._lock_folder()
        except BaseException:
            os.close(self._lock)
            raise

    def _lock_folder(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = re.search(r"process (\d+)", self._text())
            by = f"the agent with the process id {owner[1]}" if owner else "another agent"
            raise SpoolUnusable(f"[spool] path = {str(self.path)!r} is used by {by}; each agent needs a folder of its own") from None
        written = re.match(rf"{FORMAT} (\d+)", self._text())
        if written and int(written[1]) != VERSION:
            raise SpoolUnusable(
                f"[spool] path = {str(self.path)!r} has the format {written[1]}; this agent reads {VERSION}: run the version that wrote "
                "it until the spool is empty, or choose another folder"
            )
        try:
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"{FORMAT} {VERSION}\nprocess {os.getpid()}\n".encode(), 0)
        except OSError as refused:  # a full disk must not stop the agent from sending the messages that it has on disk
            log.warning("spool: cannot write %s: %s", self.path / "lock", refused.strerror)

    def _text(self) -> str:
        return os.pread(self._lock, 1000, 0).decode("ascii", "replace")

    def of_topic(self, topic: str) -> Path:
        """Return the folder of a topic, which must have a legal name."""
        assert is_legal_topic(topic), topic
        return self.path / "topics" / f"{PREFIX}{topic}"

    def fifos(self, disk: Disk) -> dict[str, Fifo]:
        """Return the FIFOs that earlier agents left, by topic. Raises SpoolUnusable."""
        fifos: dict[str, Fifo] = {}
        try:
            with os.scandir(self.path / "topics") as entries:
                names = sorted(entry.name for entry in entries)
        except OSError as refused:
            raise SpoolUnusable(f"[spool] path = {str(self.path)!r}: cannot list {self.path / 'topics'}: {refused.strerror}") from None
        for name in names:
            topic = name.removeprefix(PREFIX)
            if not name.startswith(PREFIX) or not is_legal_topic(topic):
                log.warning("spool: %s is not the agent's, and is left alone", self.path / "topics" / name)
                continue
            try:
                segments = _segments(self.path / "topics" / name)
            except OSError as refused:
                log.warning("spool: cannot list the folder of topic %s; its messages stay there: %s", topic, refused)
                continue
            fifo = Fifo(topic, self.path / "topics" / name, disk)
            fifo.restore(segments)
            if segments:
                fifos[topic] = fifo
            else:
                fifo.leave()
        return fifos

    def close(self) -> None:
        os.close(self._lock)


def _segments(folder: Path) -> list[Segment]:
    found: list[Segment] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            match = SEGMENT.fullmatch(entry.name)
            if match:
                found.append(Segment(folder, int(match[1]), entry.stat(follow_symlinks=False).st_size))
    return sorted(found, key=lambda segment: segment.number)
