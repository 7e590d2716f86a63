"""Load a topic into Parquet files with several processes. After a kill, the next start continues where this one stopped.

    pip install pyarrow        # and rich, for a better progress bar
    python examples/parallel_load.py --bootstrap-servers localhost:9092 --topic orders --to /data/orders --processes 4

The first start divides the present records of the topic into splits, and writes that plan to the folder. A process reads one split into one
file, which gets its name when it is complete. So after a kill the existing files are complete, the missing files are made again, and each
record is in exactly one file. To load newer records, delete the folder, or choose another one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import sys
import time
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pykafka4 import Client, Split, read_arrow

PLAN = "plan.pickle"
PROGRESS_S = 0.5  # seconds between two reads of the progress
loaded: Synchronized[int]  # the number of records that all processes have loaded


def load(work: tuple[Split, Path, Any, str]) -> None:
    """Read one split into one file, in a process of the pool."""
    split, file, config, servers = work
    unfinished = file.with_suffix(".unfinished")
    with Client.from_properties(config, bootstrap_servers=servers) as client:
        reader = pa.RecordBatchReader.from_stream(read_arrow(split=split, client=client))
        with pq.ParquetWriter(unfinished, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                with loaded.get_lock():
                    loaded.value += batch.num_rows
    unfinished.replace(file)


def planned(folder: Path, topic: str, count: int, config: Any, servers: str) -> list[Split]:
    """The splits of the first start. Later starts read this plan: with new splits, finished files would overlap with other splits."""
    plan = folder / PLAN
    if not plan.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with Client.from_properties(config, bootstrap_servers=servers) as client:
            splits = client.splits(topic, count, until="now")
        unfinished = plan.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(splits))
        unfinished.replace(plan)
    found: list[Split] = pickle.loads(plan.read_bytes())
    return found


def begin(counter: Synchronized[int]) -> None:
    """Keep the shared counter. Each process of the pool calls this function once, when it starts."""
    global loaded
    loaded = counter


def show(total: int, counter: Synchronized[int], result: Any) -> None:
    """Show a progress bar until `result` is ready."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        while not result.ready():
            result.wait(PROGRESS_S)
            print(f"\r{counter.value:,} of {total:,} offsets", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("loading", total=total)
        while not result.ready():
            result.wait(PROGRESS_S)
            progress.update(task, completed=counter.value)
        progress.update(task, completed=total)


def main() -> None:
    parser = argparse.ArgumentParser(description="Load a topic into Parquet files with several processes.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--to", type=Path, required=True, help="the folder for the files")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--splits", type=int, help="number of files, by default four for each process")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    where = options.config, options.bootstrap_servers
    splits = planned(options.to, options.topic, options.splits or 4 * options.processes, *where)
    files = {split.number: options.to / f"part-{split.number:05}.parquet" for split in splits}
    left = [split for split in splits if not files[split.number].exists()]
    work = [(split, files[split.number], *where) for split in left]
    began, total = time.monotonic(), sum(map(len, left))
    context = multiprocessing.get_context("spawn")  # a client does not survive a fork
    counter = context.Value("q", 0)
    with context.Pool(options.processes, begin, (counter,)) as pool:
        result = pool.map_async(load, work, chunksize=1)
        show(total, counter, result)
        result.get()
    seconds = time.monotonic() - began
    print(f"{counter.value:,} records in {len(left)} files, {len(splits) - len(left)} were there already; {seconds:.1f} s")


if __name__ == "__main__":
    main()
