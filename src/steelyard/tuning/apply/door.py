"""What the applier asks of the door to a kind of knob, and what the doors to kernel files share."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from steelyard.core.stack import Knob
from steelyard.core.wording import PreflightError, PrivilegeError
from steelyard.gateways.host import Host, KernelFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is in effect at a knob's place.

    Attributes:
        value: None where it cannot be seen; then ``reason`` says why.
        source: What it was read from: the effect, not the request.
        pending: What must still happen before the request is in effect (a restart, a power
            cycle); empty when nothing is open.
    """

    value: str | None
    source: str
    reason: str = ""
    pending: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether a knob is in effect.

    Attributes:
        holds: None where it cannot be seen.
        facts: Sentences: what was asked, what is there, by what it was seen.
        remedy: The way out where it does not hold.
    """

    holds: bool | None
    facts: tuple[str, ...]
    remedy: str = ""
    pending: str = ""


class KnobDoor(Protocol):
    """Turns knobs of one kind.

    ``snapshot`` is stored durably before ``apply`` is called, and is all that ``revert`` gets.

    Attributes:
        only_names: It names the command that would turn a knob, and does not even look.
    """

    only_names: ClassVar[bool] = False

    def seen(self, knob: Knob) -> Seen:
        """Return what is in effect now."""

    def require(self, knob: Knob) -> None:
        """Check that the knob could be turned here, before anything is touched.

        Raises:
            PreflightError: It cannot take effect, with what would do.
            PrivilegeError: The account may not.
        """

    def snapshot(self, knob: Knob) -> str:
        """Return what is there now, enough to restore it exactly."""

    def apply(self, knob: Knob) -> None:
        """Turn the knob.

        Raises:
            TargetError: It failed, or succeeded in part; with the remedy.
        """

    def verify(self, knob: Knob) -> Check:
        """Return whether the knob is in effect, read from the effect."""

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Restore what the snapshot says; what is that way already is left alone.

        Raises:
            TargetError: It failed; nothing else was touched.
        """

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the shell commands that would do the same, for those without the privilege."""

    def altered(self, _knob: Knob, _snapshot: str) -> str:
        """Return what somebody has changed since the knob was turned, as a sentence, or nothing.

        Nothing where what the plan made and what was before cannot be told from anything else.
        """
        return ""

    def kernel_files(self, _knob: Knob) -> tuple[str, ...]:
        """Return what of the kernel's files is read for it beside those that are always read."""
        return ()


class LookingDoor(KnobDoor):
    """Turns nothing, and puts nothing back: somebody else does."""

    def seen(self, knob: Knob) -> Seen:
        """Return whether it is done, as ``done`` or ``open``."""
        check = self.verify(knob)
        if check.holds is None:
            return Seen(value=None, source=knob.place, reason=" ".join(check.facts))
        value = "done" if check.holds else "open"
        return Seen(value=value, source=knob.place, pending=check.pending)

    def require(self, knob: Knob) -> None:
        """Accept every knob."""

    def snapshot(self, _knob: Knob) -> str:
        """Return nothing: nothing is changed from here."""
        return ""

    def apply(self, knob: Knob) -> None:
        """Do nothing."""

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Do nothing."""


_SELECTED = re.compile(r"\[([^\]]+)\]")
# Parameters of modules: they take 1 and show Y (kernel/params.c, param_get_bool).
_TRUTH = {"Y": "1", "N": "0"}
_PAIRS = (
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
    ("vm.overcommit_kbytes", "vm.overcommit_ratio"),
)
# Of two sysctl settings one is in force: the kernel zeroes the other when one is written.
COUNTERPART = {**dict(_PAIRS), **{second: first for first, second in _PAIRS}}


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
    fact = f"{knob.place} is {seen.value!r} ({seen.source}); the plan sets {knob.value!r}."
    out = "Apply the plan; where it changes back afterwards, find out who writes it."
    remedy = "" if holds else out
    return Check(holds=holds, facts=(fact,), remedy=remedy, pending=seen.pending)
