"""Ctrl-C at each line of the generators behind loops that end: the same iterator goes on afterwards, and ends at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from pykafka4.bounded.read import Read
from pykafka4.consumer.session import ConsumerSession
from pykafka4.testing import ModelServer
from tests.bounded.conftest import Reads
from tests.consumer.consuming import Maker, topic

COUNT = 20


def interrupted(loop: Iterator[Any], code: Any, at: int) -> tuple[list[int], bool]:
    """The offsets that `loop` returns, with a KeyboardInterrupt at the line event of this number in `code`, and whether there was one."""
    left, offsets, hit = [at], [next(loop).offset], False  # the lines before the block run once, before the first record

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        while True:
            try:
                record = next(loop, None)
            except KeyboardInterrupt:
                hit = True
                continue
            if record is None:
                return offsets, hit
            offsets.append(record.offset)
    finally:
        sys.settrace(before)


def check_each_place(make_loop: Callable[[], Iterator[Any]], code: Any) -> None:
    for at in range(1, 40):
        offsets, hit = interrupted(make_loop(), code, at)
        assert offsets == list(range(COUNT)), f"at line event {at}"
        if not hit:
            break
    assert 5 < at < 39


def test_a_read_goes_on_after_ctrl_c(server: ModelServer, reads: Reads) -> None:
    topic(server, COUNT)
    check_each_place(lambda: iter(reads(max_poll_records=5)), Read._lists.__code__)


def test_until_end_goes_on_after_ctrl_c(server: ModelServer) -> None:
    topic(server, COUNT)
    make = Maker(server)
    try:
        check_each_place(lambda: make.assigned(0, max_poll_records=5).until_end(), ConsumerSession.lists_until_end.__code__)
    finally:
        make.close()
