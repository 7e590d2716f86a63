"""All mutants, by subject."""

from __future__ import annotations

from typing import Final

from tools.mutants import (
    application,
    compiled,
    consumer,
    consumer_api,
    loop,
    network,
    options,
    plain,
    producer,
    rest,
    sessions,
    spark,
    values,
)
from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final[tuple[Mutant, ...]] = (
    *producer.MUTANTS,
    *consumer.MUTANTS,
    *network.MUTANTS,
    *loop.MUTANTS,
    *rest.MUTANTS,
    *application.MUTANTS,
    *values.MUTANTS,
    *sessions.MUTANTS,
    *consumer_api.MUTANTS,
    *spark.MUTANTS,
    *options.MUTANTS,
    *compiled.MUTANTS,
    *plain.MUTANTS,
)
