"""Runs a Python worker of Spark, and reports the numbers of its producers while it works.

Spark starts this module instead of its own (`spark.python.worker.module`; Spark ignores names that do not begin with "pyspark"). The
producers of `format("pykafka4")` live in such workers. `worker_stats()` has their numbers, and the folder of `FLIGHTS_BOARD` passes them to
the script.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from flights_job import BOARD, CHECK_S, Board
from pyspark.worker import main as work

ENDED = threading.Event()


def main(infile: Any, outfile: Any) -> None:
    """Do one task as Spark's own module does, with a thread that reports."""
    board = Board(Path(os.environ[BOARD]))
    if "reporter" not in {thread.name for thread in threading.enumerate()}:
        threading.Thread(target=report, args=(board,), name="reporter", daemon=True).start()
    work(infile, outfile)
    board.report()


def report(board: Board) -> None:
    while not ENDED.wait(CHECK_S):
        board.report()
