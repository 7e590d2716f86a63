"""Implements `pykafka4 send`, which sends messages to the agent on this machine. The command has all options of Dory's `to_dory`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import TextIO

from pykafka4.agent.channel import Address, Channel, Loss, tcp, unix_datagram, unix_stream
from pykafka4.agent.client import DATAGRAM_BYTES, STREAM_BYTES
from pykafka4.agent.format import pack

__all__ = ["main"]

PATH = "/run/pykafka4/agent.sock"
WAIT_S = 10.0
PROGRESS_AFTER_S, PROGRESS_EVERY_S = 1.0, 0.2
LOST, MISUSED = 1, 2  # exit codes; argparse also exits with 2
TEXTS = ("--key", "--topic", "--value")
EXAMPLES = """\
examples:
  pykafka4 send --topic clicks --value hello
  pykafka4 send --topic clicks --key user-1 --partition-key 1 --value hello
  journalctl --follow --output json | pykafka4 send --topic journal --lines
  pykafka4 send --stream-socket-path /run/pykafka4/agent.stream --topic pictures --stdin < cat.jpeg
  pykafka4 send --topic load --count 100000 --interval 100 --seq --pad 6 --value x

exit codes: 0 the agent's socket took all messages, 1 it did not, 2 wrong options or input"""


class Progress:
    """Reports the number of sent messages: on standard output at multiples of `every`, or on the terminal if `every` is 0."""

    def __init__(self, every: int, total: int | None, out: TextIO, terminal: TextIO, clock: Callable[[], float]) -> None:
        self.sent = 0
        self._every, self._total, self._out, self._clock = every, total, out, clock
        self._terminal = terminal if terminal.isatty() and not every else None
        self._begun = clock()
        self._next = self._begun + PROGRESS_AFTER_S
        self._shown = False

    def add(self) -> None:
        self.sent += 1
        if self._every and self.sent % self._every == 0:
            self._print()
        if self._terminal is not None and (now := self._clock()) >= self._next:
            of = "" if self._total is None else f" of {self._total:,}"
            self._terminal.write(f"\r\x1b[Kmessages: {self.sent:,}{of}, {self.sent / (now - self._begun):,.0f} per second")
            self._terminal.flush()
            self._next, self._shown = now + PROGRESS_EVERY_S, True

    def _print(self) -> None:
        try:
            self._out.write(f"{self.sent} messages written\n")
            self._out.flush()
        except OSError:  # a closed pipe (`| head -1`): sending goes on; without /dev/null, the flush of buffered text at exit would fail
            self._every = 0
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self._out.fileno())

    def end(self) -> None:
        if self._shown and self._terminal is not None:
            self._terminal.write("\n")


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    given = parser.parse_args(_joined(arguments))
    try:
        channel = Channel(_address(given), given.max_message_bytes or _usual_largest(given))
        values = _values(given)
    except (OSError, ValueError) as error:
        return _complain(str(error), MISUSED)
    total = None if given.lines and given.count is None else given.count or 1
    progress = Progress(given.print, total, sys.stdout, sys.stderr, time.monotonic)
    try:
        trouble = _send_all(given, values, channel, progress)
    except ValueError as error:
        return _complain(str(error), MISUSED)
    finally:
        channel.close()
        progress.end()
    cut = channel.lost[Loss.CUT]
    if trouble is None and cut:
        trouble = f"incomplete messages at {channel.address.text}: {cut:,}; the agent took only a part, because it was behind or has ended"
    return 0 if trouble is None else _complain(trouble, LOST)


def _complain(text: str, code: int) -> int:
    sys.stderr.write(f"pykafka4 send: {text}\n")
    return code


def _send_all(given: argparse.Namespace, values: Iterator[bytes], channel: Channel, progress: Progress) -> str | None:
    """Hand the values over at the requested pace, up to the first failure; return the failure as text, or None."""
    topic, key = os.fsencode(given.topic), os.fsencode(given.key)
    due = time.monotonic()
    for number, value in enumerate(values, 1):
        prefix = f"{number:0{given.pad}} ".encode() if given.seq else b""
        if (early := due - time.monotonic()) > 0:
            time.sleep(early)
        data = pack(topic, prefix + value, key, given.partition_key, time.time_ns() // 1_000_000)
        failure = channel.offer(_damaged(data) if given.bad else data, given.wait)
        if failure is not None:
            return f"message {number:,} was not handed over to {channel.address.text}: {failure.text}"
        progress.add()
        due += given.interval / 1_000_000
    return None


def _damaged(data: bytes) -> bytes:
    """Return the message with its size field reduced by one."""
    return (len(data) - 1).to_bytes(4, "big") + data[4:]


def _values(given: argparse.Namespace) -> Iterator[bytes]:
    if not (given.lines or given.stdin):
        return repeat(os.fsencode(given.value), 1 if given.count is None else given.count)
    lines = _input_lines()
    if given.lines:
        return islice((line.removesuffix(b"\n") for line in lines), given.count)
    return repeat(b"".join(lines), 1 if given.count is None else given.count)


def _input_lines() -> Iterator[bytes]:
    try:
        yield from sys.stdin.buffer
    except OSError as error:
        raise ValueError(f"standard input cannot be read: {error.strerror}") from None


def _address(given: argparse.Namespace) -> Address:
    if given.port is not None:
        return tcp(given.port)
    return unix_datagram(given.socket_path or PATH) if given.stream_socket_path is None else unix_stream(given.stream_socket_path)


def _usual_largest(given: argparse.Namespace) -> int:
    return DATAGRAM_BYTES if given.port is None and given.stream_socket_path is None else STREAM_BYTES


def _joined(arguments: Sequence[str]) -> list[str]:
    """Turn `--value -x` into `--value=-x`: otherwise argparse would take `-x` for an option."""
    joined, rest = [], iter(arguments)
    for argument in rest:
        following = next(rest, None) if argument in TEXTS else None
        joined.append(argument if following is None else f"{argument}={following}")
    return joined


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pykafka4 send",
        usage="pykafka4 send [options] --topic TOPIC",
        description="Hand messages to the agent of this machine (`pykafka4 agent`), which sends them to Kafka.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_sockets(parser)
    _add_message(parser)
    _add_run(parser)
    return parser


def _add_sockets(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the agent's socket")
    sockets = group.add_mutually_exclusive_group()
    sockets.add_argument("--socket-path", metavar="PATH", help=f"the agent's UNIX datagram socket (default {PATH})")
    sockets.add_argument("--stream-socket-path", metavar="PATH", help="the agent's UNIX stream socket")
    sockets.add_argument("--port", type=int, help="the agent's TCP port")


def _add_message(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the message")
    group.add_argument("--topic", required=True, help="Kafka's topic")
    group.add_argument("--key", default="", help="Kafka's key (default: empty, which the agent usually writes as null)")
    group.add_argument(
        "--partition-key", type=_partition_key, metavar="N", help="0 to 4294967295: the partition is N modulo the number of partitions"
    )
    values = group.add_mutually_exclusive_group()
    values.add_argument("--value", default="", help="Kafka's value (default: empty, which the agent usually writes as null, a tombstone)")
    values.add_argument("--stdin", action="store_true", help="all of standard input is the value")
    values.add_argument("--lines", action="store_true", help="each line of standard input is the value of a message")
    group.add_argument("--seq", action="store_true", help="begin each value with the number of its message and a space")
    group.add_argument("--pad", type=_natural, default=0, metavar="N", help="with --seq: pad the number with zeros to N digits")
    group.add_argument("--bad", action="store_true", help="write a wrong size, so that the agent refuses the message")


def _add_run(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how many, how fast")
    group.add_argument("--count", type=_natural, metavar="N", help="messages to send (default 1; with --lines: all)")
    group.add_argument("--interval", type=_natural, default=0, metavar="US", help="microseconds from message to message (default 0)")
    group.add_argument("--print", type=_natural, default=0, metavar="N", help="after every N messages, print how many were handed over")
    group.add_argument(
        "--wait",
        type=_seconds,
        default=WAIT_S,
        metavar="S",
        help=f"seconds to wait for an agent that is behind or away (default {WAIT_S:g})",
    )
    group.add_argument(
        "--max-message-bytes",
        type=_natural,
        metavar="N",
        help="refuse larger messages (default: the agent's defaults, 64 KiB for a datagram, otherwise 2 MiB)",
    )


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} must be an integer, 0 or more")
    return int(text)


def _partition_key(text: str) -> int:
    if (key := _natural(text)) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text} must be at most 4294967295")
    return key


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds, 0 or more and less than 1e9")
    return seconds
