"""The option `auto_offset_reset`: durations as the Java client takes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pykafka4.errors import ConfigError
from pykafka4.options.config import ConsumerConfig
from pykafka4.options.resets import duration_ms

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT20.345S", 20_345),
        ("PT15M", 900_000),
        ("PT10H", 10 * HOUR_MS),
        ("P2D", 48 * HOUR_MS),
        ("P2DT3H4M", 51 * HOUR_MS + 240_000),
        ("pt1h", HOUR_MS),
        ("PT0S", 0),
        ("PT-6H+3M", None),
        ("-PT-6H+3M", 6 * HOUR_MS - 180_000),
        ("PT1M-0.5S", 59_500),
        ("PT1,5S", 1_500),
        *(
            (wrong, None)
            for wrong in (
                "",
                "P",
                "PT",
                "P1DT",
                "1h",
                "PT1",
                "-PT1H",
                "PT-0.5S",
                "P1Y",
                "P1W",
                "PT1H ",
                "PT99999999999999999H",
                "PT\u0661H",
            )
        ),
    ],
)
def test_a_duration_is_read_as_java_reads_it(text: str, ms: int | None) -> None:
    """The first ten are the examples of `java.time.Duration.parse`, or follow from them; negative sums are refused."""
    assert duration_ms(f"by_duration:{text}") == ms


@pytest.mark.parametrize(
    ("value", "ms"), [(timedelta(hours=1), HOUR_MS), (timedelta(milliseconds=1), 1), (timedelta(days=365), 8_760 * HOUR_MS)]
)
def test_a_timedelta_is_a_duration(value: timedelta, ms: int) -> None:
    config = ConsumerConfig(bootstrap_servers="h:1", auto_offset_reset=value)  # type: ignore[arg-type]
    assert duration_ms(config.auto_offset_reset) == ms


@pytest.mark.parametrize("value", [timedelta(microseconds=-1), timedelta(microseconds=-100), timedelta(hours=-1)])
def test_a_negative_timedelta_is_refused(value: timedelta) -> None:
    with pytest.raises(ConfigError, match="not negative"):
        ConsumerConfig(bootstrap_servers="h:1", auto_offset_reset=value)  # type: ignore[arg-type]
