"""The door to settings in /sys: transparent huge pages, governors, idle states, disks.

A place may hold ``*`` for all files that are alike, as in
``/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor``; each is put back to its own value.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from steelyard.gateways.host import Host
from steelyard.gateways.kernel import KernelFiles
from steelyard.model.errors import PreflightError, TargetError
from steelyard.model.stack import Knob
from steelyard.tuning.applying.door import Check, Seen
from steelyard.tuning.applying.kernel_files import compared, require_writable
from steelyard.tuning.applying.kernel_values import current, same


@dataclass(frozen=True, slots=True, kw_only=True)
class SysfsDoor:
    """Turns settings in /sys."""

    host: Host
    kernel: KernelFiles

    def seen(self, knob: Knob) -> Seen:
        """Return the value; different ones of several files joined by commas."""
        values = self._values(knob)
        if not values:
            return Seen(value=None, source=knob.place, reason=f"{knob.place} is not there")
        return Seen(value=", ".join(dict.fromkeys(values.values())), source=knob.place)

    def require(self, knob: Knob) -> None:
        """Check that the files are there and may be written.

        Raises:
            PreflightError: There is none, or the place is not in /sys.
            PrivilegeError: The account may not.
        """
        if not knob.place.startswith("/sys/") or ".." in knob.place.split("/"):
            raise PreflightError(
                f"{knob.place} is no file of /sys", hint="Write its whole path, such as /sys/..."
            )
        paths = self._paths(knob.place)
        if not paths:
            raise PreflightError(
                f"there is no {knob.place} on this machine",
                hint="A virtual machine does not have its host's governor and idle states: turn"
                " them there, and leave them out here.",
            )
        for path in paths:
            require_writable(path, self.host, self.kernel)

    def snapshot(self, knob: Knob) -> str:
        """Return the value of each file."""
        return json.dumps(self._values(knob))

    def apply(self, knob: Knob) -> None:
        """Write each file that is not as asked.

        Raises:
            TargetError: The kernel refuses.
        """
        for path, value in self._values(knob).items():
            if not same(knob.value, value):
                self.kernel.write(path, knob.value)

    def verify(self, knob: Knob) -> Check:
        """Return whether every file reads as asked."""
        return compared(knob, self.seen(knob))

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Write what each file had.

        Raises:
            TargetError: The kernel refuses, or a file is gone.
        """
        before: Mapping[str, str] = json.loads(snapshot)
        for path, value in before.items():
            if not self._is(path, value):
                self.kernel.write(path, value)
        differing = [path for path, value in before.items() if not self._is(path, value)]
        if differing:
            raise TargetError(
                f"{knob.name}: {', '.join(differing)} did not go back to {before[differing[0]]!r}",
                hint="Somebody else may be changing it: tuned, for example.",
            )

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return which files have neither the value of the plan nor the former one."""
        before: Mapping[str, str] = json.loads(snapshot)
        now = {path: current(self.host.read(path) or "") for path in before}
        strange = [
            f"{path} is {value!r} (before: {before[path]!r})"
            for path, value in now.items()
            if value and not same(knob.value, value) and not same(before[path], value)
        ]
        asked = f"; the plan made it {knob.value!r}"
        return f"somebody has set {', '.join(strange)} since{asked}" if strange else ""

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return a line for the shell for each file."""
        paths = self._paths(knob.place) or [knob.place]
        return tuple(f"echo {shlex.quote(knob.value)} > {shlex.quote(path)}" for path in paths)

    def _is(self, path: str, value: str) -> bool:
        return same(value, current(self.host.read(path) or ""))

    def _values(self, knob: Knob) -> dict[str, str]:
        texts = {path: self.host.read(path) for path in self._paths(knob.place)}
        return {path: current(text) for path, text in texts.items() if text is not None}

    def _paths(self, place: str) -> list[str]:
        """Return the files that a place means, in order."""
        found = [""]
        for part in place.strip("/").split("/"):
            if "*" in part:
                found = [
                    f"{path}/{name}"
                    for path in found
                    for name in sorted(self.host.names(path))
                    if fnmatchcase(name, part)
                ]
            else:
                found = [f"{path}/{part}" for path in found]
        return [path for path in found if self.host.read(path) is not None]
