"""Append the new records of a topic to a table of a DuckDB database, each record once.

    python examples/topic_to_duckdb.py --bootstrap-servers localhost:9092 --topic greetings --database greetings.duckdb

The program needs `pip install duckdb`. The next run begins after the offsets in the table, so there is no group and nothing to commit. A
run that is killed before its end appends nothing, because one statement inserts all rows.
"""

from __future__ import annotations

import argparse

import duckdb

from pykafka4 import Client, read, read_arrow

TABLE = """create table if not exists records (
    topic varchar, partition integer, "offset" bigint, timestamp timestamptz, timestamp_type integer, key blob, value blob,
    headers struct(key varchar, value blob)[]
)"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Append the new records of a topic to a table of DuckDB.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--database", default="records.duckdb")
    parser.add_argument("--config", default={}, help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    with (
        Client.from_properties(options.config, bootstrap_servers=options.bootstrap_servers) as client,
        duckdb.connect(options.database) as database,
    ):
        database.execute(TABLE)
        stored = database.execute('select partition, max("offset") + 1 from records where topic = ? group by 1', [options.topic]).fetchall()
        with read(options.topic, start="now", client=client) as nothing:
            earliest = {tp.partition: span.earliest for tp, span in nothing.spans.items()}
        rows = read_arrow(options.topic, start=earliest | dict(stored), progress=True, on_lost="warn", client=client)
        database.register("rows", rows)
        (count,) = database.execute("insert into records select * from rows").fetchall()[0]
    print(f"{count} records appended")


if __name__ == "__main__":
    main()
