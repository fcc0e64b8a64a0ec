"""The doors to what is not done from here: steps of an operator, and objects of a cluster."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.gateways.host import Host, LocalHost
from steelyard.gateways.process import Processes
from steelyard.model.command import Command
from steelyard.model.errors import SteelyardError
from steelyard.model.stack import Knob
from steelyard.tuning.applying.door import Check, Seen

_TIMEOUT_S = 60.0
_BOOTED = "/run/systemd/system"  # is there where systemd runs: sd_booted(3)
_NOT_APPLIED = "it is not applied from here"
_COMMANDS = {
    ".yaml": "kubectl apply -f {path}",
    ".json": "aws rds modify-db-parameter-group --cli-input-json file://{path}",
}
_KUBELET = re.compile(r"^kind: \W?KubeletConfiguration", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualDoor:
    """Looks at what an operator does; turns nothing and puts nothing back."""

    processes: Processes
    host: Host = field(default_factory=LocalHost)

    def seen(self, knob: Knob) -> Seen:
        """Return whether the check of the step succeeds, as ``done`` or ``open``."""
        check = self.verify(knob)
        source = knob.value or "nothing"
        if check.holds is None:
            return Seen(value=None, source=source, reason=check.facts[0])
        return Seen(value="done" if check.holds else "open", source=source, pending=check.pending)

    def require(self, knob: Knob) -> None:
        """Accept every step."""

    def snapshot(self, _knob: Knob) -> str:
        """Return nothing: a step is not undone by anybody but the operator."""
        return ""

    def apply(self, knob: Knob) -> None:
        """Do nothing: the operator does."""

    def verify(self, knob: Knob) -> Check:
        """Return what the check of the step says."""
        if not knob.value:
            return Check(
                holds=None,
                facts=(f"Nothing tells whether this was done: {knob.place}.",),
                pending=knob.place,
            )
        if _BOOTED in knob.value and "system" not in self.host.names("/run/systemd"):
            return Check(
                holds=None,
                facts=("Nothing is kept over a reboot here: no systemd runs.",),
                remedy=f"Where one runs: {knob.place}",
            )
        try:
            shell = Command(argv=("/bin/sh", "-c", knob.value))
            completed = self.processes.run(shell, timeout_s=_TIMEOUT_S)
        except SteelyardError as error:
            return Check(holds=None, facts=(f"{error.message}.",), pending=knob.place)
        if completed.succeeded:
            return Check(holds=True, facts=(f"`{knob.value}` says that it is done.",))
        fact = f"`{knob.value}` exits with {completed.exit_status}: {completed.tail(1)}".rstrip(
            ": "
        )
        return Check(holds=False, facts=(f"{fact}.",), remedy=knob.place, pending=knob.place)

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Do nothing: the operator does."""

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the step, as a comment, and its check."""
        return (f"# {knob.place}", *([knob.value] if knob.value else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedDoor:
    """Names the command that would apply a rendered file; applies none.

    Attributes:
        directory: Where the plan's rendered files are.
    """

    directory: Path

    def seen(self, knob: Knob) -> Seen:
        """Return that nobody looks."""
        return Seen(value=None, source=knob.place, reason=_NOT_APPLIED)

    def require(self, knob: Knob) -> None:
        """Accept every file."""

    def snapshot(self, _knob: Knob) -> str:
        """Return nothing: nothing is changed."""
        return ""

    def apply(self, knob: Knob) -> None:
        """Do nothing."""

    def verify(self, knob: Knob) -> Check:
        """Return that nobody looked."""
        return Check(holds=None, facts=(f"{knob.place}: {_NOT_APPLIED}.",))

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Do nothing."""

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the command that would apply the file."""
        path = shlex.quote(str(self.directory / knob.place))
        if _KUBELET.search(knob.value):
            return (
                f"# merge {path} into the node's kubelet configuration, as its first lines say",
            )
        command = _COMMANDS.get(Path(knob.place).suffix, "# run what {path} says")
        return (command.format(path=path),)
