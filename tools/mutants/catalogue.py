"""All mutants, by subject."""

from __future__ import annotations

from typing import Final

from tools.mutants import compiled, consumer, loop, network, plain, producer, rest
from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final[tuple[Mutant, ...]] = (
    *producer.MUTANTS,
    *consumer.MUTANTS,
    *network.MUTANTS,
    *loop.MUTANTS,
    *rest.MUTANTS,
    *compiled.MUTANTS,
    *plain.MUTANTS,
)
