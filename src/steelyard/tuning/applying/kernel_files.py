"""What every door to the kernel's files asks of them."""

from steelyard.gateways.host import Host
from steelyard.gateways.kernel import KernelFiles
from steelyard.model.errors import PreflightError, PrivilegeError
from steelyard.model.stack import Knob
from steelyard.tuning.applying.door import Check, Seen
from steelyard.tuning.applying.kernel_values import same


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
