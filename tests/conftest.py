"""What holds for all tests, wherever they are started."""

import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

# A shell has its background jobs ignore SIGINT, and what they start inherits that. Tests interrupt
# themselves and what they start, so here it is heard again, by child processes too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Workers are told the width of a terminal that is none; what is printed has its own width.
os.environ.pop("COLUMNS", None)

# The set-up may have brought Redis, which Steelyard finds there and the tests start themselves.
os.environ["PATH"] += os.pathsep + str(Path(sys.executable).parent)

# No test may fail because the machine was slow for a moment; every run of the tests draws anew.
hypothesis.settings.register_profile(
    "a few", deadline=None, max_examples=int(os.environ.get("STEELYARD_EXAMPLES", "30"))
)
hypothesis.settings.load_profile("a few")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that passed in an earlier run, which STEELYARD_PASSED names."""
    if path := os.environ.get("STEELYARD_PASSED"):
        lines = Path(path).read_text("utf-8").splitlines()
        passed = {line.partition("\t")[2] for line in lines if line.startswith("passed\t")}
        gone = [item for item in items if item.nodeid in passed]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item.nodeid not in passed]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Append what passed and what was left out, and why, to the file of STEELYARD_RESULTS."""
    path = os.environ.get("STEELYARD_RESULTS")
    if not path:
        return
    with Path(path).open("a", encoding="utf-8") as results:
        passed = terminalreporter.getreports("passed")
        results.writelines(f"passed\t{report.nodeid}\n" for report in passed)
        for report in terminalreporter.getreports("skipped"):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            results.writelines([f"left out\t{report.nodeid}\t{reason}\n"])
