"""All mutants. Rule: a mutant is in the module that is named after the source it changes, in the folders of `pykafka4`.

`tools/mutants/catalogue/core/group/classic.py` has those of `pykafka4/core/group/classic.py` and of the files around it. All mutants of one file are
in one module.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MODULES", "MUTANTS"]

MODULES: Final[dict[str, tuple[Mutant, ...]]] = {
    found.name.removeprefix(f"{__name__}."): import_module(found.name).MUTANTS
    for found in pkgutil.walk_packages(__path__, f"{__name__}.")
    if not found.ispkg
}
MUTANTS: Final = tuple(mutant for mutants in MODULES.values() for mutant in mutants)
