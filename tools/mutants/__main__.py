"""`python -m tools.mutants`: see `tools.mutants.run`."""

from __future__ import annotations

import sys

from tools.mutants.run import main

sys.exit(main())
