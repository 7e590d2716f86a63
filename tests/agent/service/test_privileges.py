"""The user that the agent becomes."""

from __future__ import annotations

import grp
import os
import pwd

import pytest

from pykafka4.agent.service.privileges import identity_of
from pykafka4.errors import ConfigError


def test_a_group_that_the_process_would_not_get_is_refused() -> None:
    mine = pwd.getpwuid(os.geteuid()).pw_name
    other = next(group for group in grp.getgrall() if group.gr_gid != os.getegid())
    assert identity_of(mine, str(os.getegid())).groups[0] == os.getegid()
    with pytest.raises(ConfigError, match=rf"group='{other.gr_name}': .* keeps its group {os.getegid()}; leave out `group`"):
        identity_of(mine, other.gr_name)
