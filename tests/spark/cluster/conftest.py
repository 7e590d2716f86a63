"""A session on a standalone Spark cluster: a master and two workers, each with one executor of one core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.spark.cluster import StandaloneSpark

LOGS = Path(__file__).resolve().parents[3] / "build" / "logs"


@pytest.fixture(scope="module")
def standalone(request: pytest.FixtureRequest) -> Iterator[StandaloneSpark]:
    """One for each module; its logs are kept when a test of the module failed."""
    before = request.session.testsfailed
    with StandaloneSpark() as found:
        yield found
        if request.session.testsfailed > before:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.nodeid)
            print(f"logs of Spark's processes are kept in {found.keep_logs(LOGS / name / 'spark')}")


@pytest.fixture(scope="module")
def spark_settings(standalone: StandaloneSpark) -> dict[str, str]:
    """Batches of a hundred rows between JVM and Python: a fault midway then meets rows before it that are written."""
    return {**standalone.settings(), "spark.sql.execution.arrow.maxRecordsPerBatch": "100"}
