"""Steelyard as a program on a machine without the extra ``charts``."""

import sys

del sys.path[0]  # this folder, which has a module `kubernetes` of its own
sys.modules["altair"] = None  # type: ignore[assignment] # as `find_spec` sees what is not installed

from steelyard.cli.main import main  # noqa: E402

main()
