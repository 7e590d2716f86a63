"""Runs `python -m tools.mutants`: see `tools.mutants.command`."""

from __future__ import annotations

import sys

from tools.mutants.command import main

sys.exit(main())
