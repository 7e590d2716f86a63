"""Prints the errors of a failed test at once: a run that is killed never comes to its report."""

from __future__ import annotations

import pytest

ERROR_LINES = 20


class Failures:
    """A plugin of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self.config.pluginmanager.getplugin("terminalreporter")  # a worker of xdist has none
        if report.failed and terminal is not None:
            errors = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
            terminal.write_line("\n".join(["", f"{report.nodeid}: {report.when} failed", *errors[:ERROR_LINES]]))
            terminal.flush()


def pytest_configure(config: pytest.Config) -> None:
    """For `-p tests.failures`."""
    config.pluginmanager.register(Failures(config))
