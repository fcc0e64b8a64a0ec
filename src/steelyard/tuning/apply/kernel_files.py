"""What every door to the kernel's files asks of them.

How the kernel's files say a value, and when two texts mean the same.
"""

import re

from steelyard.core.errors import PreflightError, PrivilegeError
from steelyard.core.stack import Knob
from steelyard.gateways.host import Host, KernelFiles
from steelyard.tuning.apply.door import Check, Seen

_SELECTED = re.compile(r"\[([^\]]+)\]")
# Parameters of modules: they take 1 and show Y (kernel/params.c, param_get_bool).
_TRUTH = {"Y": "1", "N": "0"}


def current(text: str) -> str:
    """Return the value in a file: of a selection such as ``always [madvise] never`` the chosen."""
    match = _SELECTED.search(text)
    return match[1] if match else " ".join(text.split())


def same(asked: str, actual: str) -> bool:
    """Return whether what is asked for is what is there, however its blanks are."""
    return _plain(asked) == _plain(actual)


def _plain(text: str) -> str:
    words = " ".join(text.split())
    return _TRUTH.get(words, words)


def require_writable(path: str, host: Host, kernel: KernelFiles) -> None:
    """Check that a file of the kernel can be read and written.

    Raises:
        PreflightError: It is not there, or its value cannot be read, so not be put back.
        PrivilegeError: The account may not, or it is read-only here.
    """
    obstacle = kernel.obstacle(path)
    if host.read(path) is None:
        why = obstacle or "it cannot be read, so it could not be put back"
        raise PreflightError(f"{path}: {why}", hint="Leave it out of the plan.")
    if obstacle:
        raise PrivilegeError(
            f"{path} cannot be written: {obstacle}",
            hint="Run this as root on the machine itself, not in a container.",
        )


def compared(knob: Knob, seen: Seen) -> Check:
    """Return whether what is seen at a knob's place is what it asks for."""
    if seen.value is None:
        return Check(holds=None, facts=(f"{knob.name}: {seen.reason}.",))
    holds = same(knob.value, seen.value)
    fact = f"{knob.place} was asked to be {knob.value!r} and is {seen.value!r} ({seen.source})."
    out = "Apply the plan; where it changes back afterwards, find out who writes it."
    remedy = "" if holds else out
    return Check(holds=holds, facts=(fact,), remedy=remedy, pending=seen.pending)
