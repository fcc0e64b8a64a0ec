"""The door to sysctl settings: files below /proc/sys.

Of some pairs only one is in force, and writing it zeroes the other; 0 itself cannot be written to
``vm.dirty_bytes``. What is put back is then the one that was in force before.
Source: Documentation/admin-guide/sysctl/vm.rst; EINVAL seen on Linux 6.18.

The door to settings in /sys: transparent huge pages, governors, idle states, disks.

A place may hold ``*`` for all files that are alike, as in
``/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor``; each is put back to its own value.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from steelyard.core.errors import PreflightError, TargetError
from steelyard.core.stack import Knob, KnobKind
from steelyard.gateways.host import Host, KernelFiles
from steelyard.tuning.apply.door import Check, Seen
from steelyard.tuning.apply.huge_pages import HugePagesDoor
from steelyard.tuning.apply.kernel_files import compared, current, require_writable, same

_POOL: Final = frozenset({"vm.nr_hugepages", "vm.nr_hugepages_mempolicy"})
_PAIRS: Final = (
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
    ("vm.overcommit_kbytes", "vm.overcommit_ratio"),
)
_COUNTERPART: Final = {**dict(_PAIRS), **{second: first for first, second in _PAIRS}}
_ACTIONS: Final = frozenset({"vm.drop_caches", "vm.compact_memory"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_:-]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SysctlDoor:
    """Turns sysctl settings; the number of huge pages through their own door."""

    host: Host
    kernel: KernelFiles
    pools: HugePagesDoor

    def seen(self, knob: Knob) -> Seen:
        """Return the value in /proc/sys."""
        if _is_pool(knob):
            return self.pools.seen(self._as_pool(knob))
        path = path_of(knob.place)
        text = self.host.read(path)
        if text is None:
            return Seen(value=None, source=path, reason=f"{path} is not there or not readable")
        return Seen(value=current(text), source=path)

    def require(self, knob: Knob) -> None:
        """Check that the setting is there and may be written.

        Raises:
            PreflightError: It is not there, or it is an action that nothing takes back.
            PrivilegeError: The account may not.
        """
        if _is_pool(knob):
            self.pools.require(self._as_pool(knob))
            return
        if knob.place in _ACTIONS:
            raise PreflightError(
                f"{knob.place} is an action of the moment: nothing can take it back",
                hint="Leave it out of the plan.",
            )
        require_writable(path_of(knob.place), self.host, self.kernel)

    def snapshot(self, knob: Knob) -> str:
        """Return the setting, and the one that it zeroes, as they are."""
        if _is_pool(knob):
            return self.pools.snapshot(self._as_pool(knob))
        return json.dumps({name: self._value(name) for name in self._together(knob.place)})

    def apply(self, knob: Knob) -> None:
        """Write the setting.

        Raises:
            TargetError: The kernel refuses.
        """
        if _is_pool(knob):
            self.pools.apply(self._as_pool(knob))
            return
        self.kernel.write(path_of(knob.place), knob.value)

    def verify(self, knob: Knob) -> Check:
        """Return whether the setting reads as asked."""
        if _is_pool(knob):
            return self.pools.verify(self._as_pool(knob))
        return compared(knob, self.seen(knob))

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Write what was there; of a pair the one that was in force.

        Raises:
            TargetError: The kernel refuses.
        """
        if _is_pool(knob):
            self.pools.revert(self._as_pool(knob), snapshot)
            return
        before: Mapping[str, str] = json.loads(snapshot)
        if not self._differing(before):
            return
        in_force = [name for name, value in before.items() if value != "0"] or [knob.place]
        for name in in_force:
            self.kernel.write(path_of(name), before[name])
        differing = self._differing(before)
        if differing:
            raise TargetError(
                f"{', '.join(differing)} did not go back to what was there before",
                hint=f"It was {before}; somebody else may be changing it.",
            )

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return that the setting is neither what the plan made it nor the former one.

        A pool of huge pages tells nothing: its number changes with who uses its pages.
        """
        if _is_pool(knob):
            return ""
        before: Mapping[str, str] = json.loads(snapshot)
        now = self._value(knob.place)
        if same(now, knob.value) or not self._differing(before):
            return ""
        return (
            f"somebody has set {knob.place} since: it is {current(now)!r}, neither"
            f" {knob.value!r} of the plan nor {current(before[knob.place])!r} of before"
        )

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the call of sysctl."""
        return (f"sysctl -w {shlex.quote(f'{knob.place}={knob.value}')}",)

    def _differing(self, before: Mapping[str, str]) -> list[str]:
        return [name for name, value in before.items() if not same(value, self._value(name))]

    def _value(self, name: str) -> str:
        text = self.host.read(path_of(name))
        if text is None:
            raise TargetError(
                f"{path_of(name)} cannot be read, so it could not be put back",
                hint="Leave it out of the plan.",
            )
        return text.strip("\n")

    def _together(self, name: str) -> tuple[str, ...]:
        other = _COUNTERPART.get(name)
        return (name,) if other is None else (name, other)

    def _as_pool(self, knob: Knob) -> Knob:
        place = f"all/{self.pools.default_page_bytes()}"
        return replace(knob, kind=KnobKind.HUGE_PAGES, place=place)


def path_of(name: str) -> str:
    """Return the file of a setting; dots and slashes change places, as sysctl(8) says.

    Raises:
        PreflightError: It is no name of a setting.
    """
    if not _NAME.fullmatch(name):
        raise PreflightError(
            f"{name!r} is no name of a sysctl setting", hint="Write it as vm.swappiness."
        )
    return "/proc/sys/" + name.translate(str.maketrans("./", "/."))


def _is_pool(knob: Knob) -> bool:
    return knob.place in _POOL


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
