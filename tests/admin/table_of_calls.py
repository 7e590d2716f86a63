"""Every call of an admin client with its outcomes: works, right missing, broker too old, some items fail, controller silent.

`test_old_brokers` runs the rows on model brokers, `tests/integration/test_admin_calls.py` on real ones, where every call is made while
the controller is silent. `test_table_of_calls` checks that no call and no outcome is missing.
"""

from __future__ import annotations

from tests.admin import calls_of_cluster, calls_of_data

__all__ = ["LOCAL", "ROWS"]

ROWS = (*calls_of_data.ROWS, *calls_of_cluster.ROWS)
LOCAL = {
    "close": "ends calls and connections",
    "from_properties": "makes an admin client",
    "metrics": "reads figures of this process",
    "status": "reads the state of this process",
}  # these ask no broker
