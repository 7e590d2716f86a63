"""Nothing in the client is timed by the wall clock, which may jump.

It is read for the timestamps of records and of log lines, and to compare with dates that others wrote: of certificates and of tokens.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "pykafka4"
WALL = re.compile(
    r"\btime\.(?:time|time_ns|localtime|gmtime|ctime)\b|\bdate(?:time)?\.(?:now|utcnow|today)\(|\bCLOCK_REALTIME\w*|\bgettimeofday\b"
)
ALLOWED = Counter(
    {
        "agent/account/discard_log.py": 1,  # the times of entries, and the names of archives
        "agent/account/ledger.py": 1,  # when reports begin, for people
        "agent/client.py": 1,  # timestamps of messages
        "agent/http/agent_view.py": 2,  # times that pages show
        "agent/http/dory.py": 1,  # likewise, as text
        "agent/http/observer.py": 1,  # likewise
        "agent/http/server.py": 1,  # likewise
        "pages/processes.py": 1,  # likewise
        "pages/watcher.py": 1,  # likewise
        "agent/router.py": 1,  # whether a client's timestamp is in the future
        "agent/sending.py": 1,  # timestamps of messages
        "admin/arguments.py": 1,  # an offset so long before now
        "admin/transactions.py": 1,  # transactions that began so long before now
        "diagnosis/addresses.py": 1,  # whether a certificate's date is near, and the time of the controllers
        "bounds.py": 1,  # likewise
        "net/credentials.py": 1,  # whether a certificate's or a token's date has passed
        "net/oidc.py": 1,  # likewise
        "net/logs.py": 1,  # the time of a log record
        "wire/records/_plain_arguments.py": 1,  # timestamps of records
        "wire/records/compiled/_plat.h": 3,  # likewise
        "gil/_gil.h": 1,  # where a system has no condition on the monotonic clock, for a millisecond
    }
)


def test_the_wall_clock_is_read_nowhere_else() -> None:
    files = [path for suffix in ("py", "pyx", "pxi", "pxd", "h") for path in sorted(PACKAGE.rglob(f"*.{suffix}"))]
    found = Counter({path.relative_to(PACKAGE).as_posix(): len(WALL.findall(path.read_text())) for path in files})
    assert +Counter({name: count for name, count in found.items() if not name.startswith("testing/")}) == ALLOWED
