"""Marks every test of this folder `harness`: they are about clusters, engines and machines, not about the client."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker("harness")
