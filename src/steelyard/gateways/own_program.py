"""Modules of ours that run as programs of their own: no fork of a process that has threads."""

import json
import sys
from pathlib import Path
from typing import Any

from steelyard.gateways.process import Processes
from steelyard.model.command import Command
from steelyard.model.errors import MeasurementError


def answer_of(
    module: str, *arguments: str, processes: Processes, directory: Path, timeout_s: float
) -> Any:  # noqa: ANN401 - JSON; the caller is in this package and makes a dataclass of it
    """Return what a module prints as JSON when it is run as a program.

    Args:
        module: Its full name.
        arguments: Of the program.
        processes: Runs it.
        directory: Its working directory, by which it is recognised when Steelyard dies.
        timeout_s: After which it is killed.

    Raises:
        MeasurementError: It failed, took too long or gave a reason for having no answer.
    """
    # -P: whatever lies in the working directory is no module.
    argv = (sys.executable, "-P", "-m", module, *arguments)
    completed = processes.run(Command(argv=argv, directory=directory), timeout_s=timeout_s)
    try:
        answer = json.loads(completed.stdout)
    except ValueError as error:
        said = completed.tail(1) or "nothing"
        raise MeasurementError(f"python -m {module} failed: it said {said}") from error
    if "unknown" in answer:
        raise MeasurementError(str(answer["unknown"]))
    return answer
