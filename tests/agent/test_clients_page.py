"""The programs of docs/guide/agent-clients.md run as they are shown, with another path, and hand over the message that they show."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from pykafka4.agent.format import parse
from pykafka4.agent.message import Message

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "agent-clients.md"
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
DATAGRAMS, STREAM = "/run/pykafka4/agent.sock", "/run/pykafka4/agent.stream"
WAIT_S = 120.0  # compilers on a busy machine
READ_S = 10.0


class Language(NamedTuple):
    """How a program of the page is run, and where its tools come from. The file is the argument that begins with `program`."""

    command: str
    needs: tuple[str, ...]
    install: str


LANGUAGES = {
    "c": Language("sh -c 'gcc -Wall -Werror -o program program.c && ./program'", ("gcc",), "apt install gcc libc6-dev"),
    "go": Language("go run program.go", ("go",), "apt install golang-go"),
    "javascript": Language("node program.js", ("node",), "apt install nodejs"),
    "java": Language("java program.java", ("java",), "apt install openjdk-17-jdk-headless"),
    "php": Language("php program.php", ("php",), "apt install php-cli"),
    "ruby": Language("ruby program.rb", ("ruby",), "apt install ruby"),
    "bash": Language("bash program.sh", ("bash", "socat"), "apt install bash socat"),
    "py": Language(f"{sys.executable} program.py", (), ""),
    "python": Language(f"{sys.executable} program.py", (), ""),
    "sh": Language("sh program.sh", (), ""),
}


class Sockets:
    """Both UNIX sockets of an agent."""

    def __init__(self, folder: Path) -> None:
        self.datagrams, self.stream = str(folder / "agent.sock"), str(folder / "agent.stream")
        self._datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._datagrams.bind(self.datagrams)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.stream)
        self._listener.listen()
        for sock in (self._datagrams, self._listener):
            sock.settimeout(WAIT_S)

    def of_datagram(self) -> bytes:
        """The next datagram."""
        return self._datagrams.recv(1 << 20)

    def of_stream(self) -> bytes:
        """All bytes of the next connection."""
        connection = self._listener.accept()[0]
        connection.settimeout(WAIT_S)
        with connection, connection.makefile("rb") as stream:
            return stream.read()

    def close(self) -> None:
        """End also a read that waits."""
        for sock in (self._datagrams, self._listener):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def run(language: str, text: str, folder: Path) -> Message:
    """The message that the program hands over; its path and value are replaced."""
    sockets = Sockets(folder)
    streams = STREAM in text and DATAGRAMS not in text
    here = text.replace(DATAGRAMS, sockets.datagrams).replace(STREAM, sockets.stream)
    command = LANGUAGES[language].command
    name = re.findall(r"program\.\w+", command)[0]
    (folder / name).write_text(here.replace("pykafka4 send", f"{sys.executable} -m pykafka4 send"))
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(sockets.of_stream if streams else sockets.of_datagram)  # Node waits until its connection is ended
        try:
            ended = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert (ended.returncode, ended.stderr) == (0, "")
            return parse(read.result(READ_S))
        finally:
            sockets.close()


def test_the_page_has_a_program_in_each_language() -> None:
    assert set(BLOCKS) == set(LANGUAGES)


@pytest.mark.timeout(2 * WAIT_S)
@pytest.mark.parametrize("value", ["hello", "grüße✓"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_of_the_page_hands_over_its_message(language: str, value: str, tmp_path: Path) -> None:
    missing = [tool for tool in LANGUAGES[language].needs if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: {LANGUAGES[language].install}")
    topic, found, key, partition_key, timestamp = run(language, BLOCKS[language].replace("hello", value), tmp_path)
    assert (topic, found, key, partition_key) == ("clicks", value.encode(), b"user-1", None)
    assert timestamp > 1_700_000_000_000
