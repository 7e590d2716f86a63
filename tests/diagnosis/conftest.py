"""A model cluster, an admin client of it, and members."""

from __future__ import annotations

from tests.admin.conftest import admin, impatient, make

__all__ = ["admin", "impatient", "make"]
