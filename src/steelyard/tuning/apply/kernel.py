"""The doors to sysctl settings, /sys and files of the machine, and to what others must do.

Of some pairs of sysctl settings only one is in force, and writing it zeroes the other; 0 itself
cannot be written to ``vm.dirty_bytes``. What is put back is then the one that was in force before.
Source: Documentation/admin-guide/sysctl/vm.rst; EINVAL seen on Linux 6.18.

A place in /sys (transparent huge pages, governors, idle states, disks) may hold ``*`` for all files
that are alike, as in ``/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor``; each is put back to
its own value.

Of a file that a plan places (units, sysctl.d, profiles, includes) the snapshot keeps mode, owner
and extended attributes, or its absence and that of the directories above it. A file that was there
keeps its mode and owner.

Not done from here are steps of an operator, and what belongs to a cloud.
"""

import json
import re
import shlex
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Final

from steelyard.core.outside import Command
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.wording import PreflightError, PrivilegeError, SteelyardError, TargetError
from steelyard.gateways.host import Host, KernelFiles, LocalHost
from steelyard.gateways.placed_files import PlacedFile, PlacedFiles
from steelyard.gateways.process import Processes
from steelyard.tuning.apply import door
from steelyard.tuning.apply.huge_pages import HugePagesDoor

_POOL: Final = frozenset({"vm.nr_hugepages", "vm.nr_hugepages_mempolicy"})
_ACTIONS: Final = frozenset({"vm.drop_caches", "vm.compact_memory"})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_:-]+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SysctlDoor(door.KnobDoor):
    """Turns sysctl settings; the number of huge pages through their own door."""

    host: Host
    kernel: KernelFiles
    pools: HugePagesDoor

    def seen(self, knob: Knob) -> door.Seen:
        """Return the value in /proc/sys."""
        if _is_pool(knob):
            return self.pools.seen(self._as_pool(knob))
        path = path_of(knob.place)
        text = self.host.read(path)
        if text is None:
            return door.Seen(value=None, source=path, reason=f"{path} is not there or not readable")
        return door.Seen(value=door.current(text), source=path)

    def require(self, knob: Knob) -> None:
        """Check that the setting is there, may be written, and is no action of the moment."""
        if _is_pool(knob):
            self.pools.require(self._as_pool(knob))
            return
        if knob.place in _ACTIONS:
            raise PreflightError(
                f"{knob.place} is an action of the moment: nothing can take it back",
                hint="Leave it out of the plan.",
            )
        door.require_writable(path_of(knob.place), self.host, self.kernel)

    def snapshot(self, knob: Knob) -> str:
        """Return the setting, and the one that it zeroes, as they are."""
        if _is_pool(knob):
            return self.pools.snapshot(self._as_pool(knob))
        names = filter(None, (knob.place, door.COUNTERPART.get(knob.place)))
        return json.dumps({name: self._value(name) for name in names})

    def apply(self, knob: Knob) -> None:
        """Write the setting."""
        if _is_pool(knob):
            self.pools.apply(self._as_pool(knob))
            return
        self.kernel.write(path_of(knob.place), knob.value)

    def verify(self, knob: Knob) -> door.Check:
        """Return whether the setting reads as asked."""
        if _is_pool(knob):
            return self.pools.verify(self._as_pool(knob))
        return door.compared(knob, self.seen(knob))

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Write what was there; of a pair the one that was in force."""
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
        if door.same(now, knob.value) or not self._differing(before):
            return ""
        return (
            f"somebody has set {knob.place} since: it is {door.current(now)!r}, neither"
            f" {knob.value!r} of the plan nor {door.current(before[knob.place])!r} of before"
        )

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the call of sysctl."""
        return (f"sysctl -w {shlex.quote(f'{knob.place}={knob.value}')}",)

    def kernel_files(self, knob: Knob) -> tuple[str, ...]:
        """Return the file in /proc/sys."""
        return (path_of(knob.place),)

    def _differing(self, before: Mapping[str, str]) -> list[str]:
        return [name for name, value in before.items() if not door.same(value, self._value(name))]

    def _value(self, name: str) -> str:
        text = self.host.read(path_of(name))
        if text is None:
            raise TargetError(
                f"{path_of(name)} cannot be read, so it could not be put back",
                hint="Leave it out of the plan.",
            )
        return text.strip("\n")

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
class SysfsDoor(door.KnobDoor):
    """Turns settings in /sys."""

    host: Host
    kernel: KernelFiles

    def seen(self, knob: Knob) -> door.Seen:
        """Return the value; different ones of several files joined by commas."""
        values = self._values(knob)
        if not values:
            return door.Seen(value=None, source=knob.place, reason=f"{knob.place} is not there")
        return door.Seen(value=", ".join(dict.fromkeys(values.values())), source=knob.place)

    def require(self, knob: Knob) -> None:
        """Check that there are files, in /sys, and that they may be written."""
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
            door.require_writable(path, self.host, self.kernel)

    def snapshot(self, knob: Knob) -> str:
        """Return the value of each file."""
        return json.dumps(self._values(knob))

    def apply(self, knob: Knob) -> None:
        """Write each file that is not as asked."""
        for path, value in self._values(knob).items():
            if not door.same(knob.value, value):
                self.kernel.write(path, knob.value)

    def verify(self, knob: Knob) -> door.Check:
        """Return whether every file reads as asked."""
        return door.compared(knob, self.seen(knob))

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Write what each file had."""
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
        now = {path: door.current(self.host.read(path) or "") for path in before}
        strange = [
            f"{path} is {value!r} (before: {before[path]!r})"
            for path, value in now.items()
            if value and not door.same(knob.value, value) and not door.same(before[path], value)
        ]
        asked = f"; the plan made it {knob.value!r}"
        return f"somebody has set {', '.join(strange)} since{asked}" if strange else ""

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return a line for the shell for each file."""
        paths = self._paths(knob.place) or [knob.place]
        return tuple(f"echo {shlex.quote(knob.value)} > {shlex.quote(path)}" for path in paths)

    def kernel_files(self, knob: Knob) -> tuple[str, ...]:
        """Return the place."""
        return (knob.place,)

    def _is(self, path: str, value: str) -> bool:
        return door.same(value, door.current(self.host.read(path) or ""))

    def _values(self, knob: Knob) -> dict[str, str]:
        texts = {path: self.host.read(path) for path in self._paths(knob.place)}
        return {path: door.current(text) for path, text in texts.items() if text is not None}

    def _paths(self, place: str) -> list[str]:
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


_KERNEL: Final = ("/proc/", "/sys/", "/dev/")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDoor(door.KnobDoor):
    """Places files.

    Attributes:
        uid: Owner of a file that was not there; likewise ``gid``.
        rendered: The plan's ready file for a path, where there is one.
    """

    files: PlacedFiles
    uid: int = 0
    gid: int = 0
    rendered: Mapping[str, Path] = field(default_factory=dict)

    def seen(self, knob: Knob) -> door.Seen:
        """Return the content of the file."""
        found = self.files.look(knob.place)
        if found is None:
            return door.Seen(value=None, source=knob.place, reason=f"{knob.place} is not there")
        return door.Seen(value=found.content.decode(errors="replace"), source=knob.place)

    def require(self, knob: Knob) -> None:
        """Check that it is a place for a plain file, and that one may be placed there."""
        parts = knob.place.split("/")
        if not knob.place.startswith("/") or ".." in parts or knob.place.startswith(_KERNEL):
            raise PreflightError(
                f"{knob.place} is no path for a file of a plan", hint="Write its whole path."
            )
        try:
            self.files.look(knob.place)
        except TargetError as error:
            raise PreflightError(error.message, hint=error.hint) from error
        obstacle = self.files.obstacle(knob.place)
        if obstacle:
            raise PrivilegeError(f"{knob.place} cannot be written: {obstacle}", hint="Be root.")

    def snapshot(self, knob: Knob) -> str:
        """Return the file with all that it has, or its absence."""
        found = self.files.look(knob.place)
        if found is None:
            return json.dumps({"absent": self.files.absent_directories(knob.place)})
        attributes = {name: b64encode(v).decode() for name, v in found.attributes.items()}
        return json.dumps(
            {
                "content": b64encode(found.content).decode(),
                "mode": found.mode,
                "uid": found.uid,
                "gid": found.gid,
                "attributes": attributes,
            }
        )

    def apply(self, knob: Knob) -> None:
        """Place the file."""
        was = self.files.look(knob.place) or PlacedFile(content=b"", uid=self.uid, gid=self.gid)
        self.files.place(knob.place, replace(was, content=knob.value.encode()))

    def verify(self, knob: Knob) -> door.Check:
        """Return whether the file has the content of the plan."""
        seen = self.seen(knob)
        if seen.value == knob.value:
            return door.Check(holds=True, facts=(f"{knob.place} has the content of the plan.",))
        fact = seen.reason or f"{knob.place} has another content than the plan says"
        return door.Check(holds=False, facts=(f"{fact}.",), remedy="Apply the plan.")

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Put back the file that was there, or remove it and the directories made for it."""
        before: dict[str, Any] = json.loads(snapshot)
        was = _file(before)
        if was is None:
            self.files.remove(knob.place)
            for directory in reversed(before["absent"]):
                self.files.remove_directory(directory)
        elif self.files.look(knob.place) != was:
            self.files.place(knob.place, was)

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return that the file is neither that of the plan nor the former one; else nothing.

        Raises:
            TargetError: It is no plain file any more.
        """
        found, former = self.files.look(knob.place), _file(json.loads(snapshot))
        if found == former or (found is not None and found.content == knob.value.encode()):
            return ""
        how = "removed" if found is None else "changed"
        return f"somebody has {how} {knob.place} since the plan placed it"

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the lines that write the file."""
        path = shlex.quote(knob.place)
        if knob.place in self.rendered:
            return (f"install -D -m 644 {shlex.quote(str(self.rendered[knob.place]))} {path}",)
        return (
            f"mkdir -p {shlex.quote(str(Path(knob.place).parent))}",
            f"printf %s {shlex.quote(knob.value)} > {path}",
        )


def _file(before: dict[str, Any]) -> PlacedFile | None:
    """Return the file of a snapshot; None for a file that was absent."""
    if "absent" in before:
        return None
    return PlacedFile(
        content=b64decode(before["content"]),
        mode=before["mode"],
        uid=before["uid"],
        gid=before["gid"],
        attributes={name: b64decode(value) for name, value in before["attributes"].items()},
    )


_TIMEOUT_S = 60.0
_BOOTED = "/run/systemd/system"  # is there where systemd runs: sd_booted(3)
_COMMANDS = {
    ".yaml": "kubectl apply -f {path}",
    ".json": "aws rds modify-db-parameter-group --cli-input-json file://{path}",
}
_KUBELET = re.compile(r"^kind: \W?KubeletConfiguration", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualDoor(door.LookingDoor):
    """Looks at what an operator does; turns nothing and puts nothing back.

    A plan may come from anywhere, so a check that Steelyard would not write is shown, not run.

    Attributes:
        is_ours: Returns whether this version would write a command as the check of a step.
    """

    processes: Processes
    is_ours: Callable[[str], bool]
    host: Host = field(default_factory=LocalHost)

    def verify(self, knob: Knob) -> door.Check:
        """Return what the check of the step says."""
        if not knob.value or not self.is_ours(knob.value):
            fact = f"Nothing tells whether this was done: {knob.place}."
            if knob.value:
                fact = (
                    f"The check is only shown, because Steelyard did not write it: `{knob.value}`."
                )
            return door.Check(holds=None, facts=(fact,), pending=knob.place)
        if _BOOTED in knob.value and "system" not in self.host.names("/run/systemd"):
            return door.Check(
                holds=None,
                facts=("Nothing is kept over a reboot here: no systemd runs.",),
                remedy=f"Where one runs: {knob.place}",
            )
        try:
            shell = Command(argv=("/bin/sh", "-c", knob.value))
            completed = self.processes.run(shell, timeout_s=_TIMEOUT_S)
        except SteelyardError as error:
            return door.Check(holds=None, facts=(f"{error.message}.",), pending=knob.place)
        if completed.succeeded:
            return door.Check(holds=True, facts=(f"`{knob.value}` says that it is done.",))
        fact = f"`{knob.value}` exits with {completed.exit_status}: {completed.tail(1)}"
        facts = (f"{fact.rstrip(': ')}.",)
        return door.Check(holds=False, facts=facts, remedy=knob.place, pending=knob.place)

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the step, as a comment, and its check."""
        return (f"# {knob.place}", *([knob.value] if knob.value else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedDoor(door.LookingDoor):
    """Names the command that would apply a rendered file; applies none.

    Attributes:
        directory: Where the plan's rendered files are.
    """

    only_names: ClassVar[bool] = True
    directory: Path

    def verify(self, knob: Knob) -> door.Check:
        """Return that nobody looked."""
        return door.Check(holds=None, facts=(f"{knob.place}: it is not applied from here.",))

    def commands(self, knob: Knob) -> Sequence[str]:
        """Return the command that would apply the file."""
        path = shlex.quote(str(self.directory / knob.place))
        if _KUBELET.search(knob.value):
            return (
                f"# merge {path} into the node's kubelet configuration, as its first lines say",
            )
        command = _COMMANDS.get(Path(knob.place).suffix, "# run what {path} says")
        return (command.format(path=path),)


def kernel_doors(host: Host, kernel: KernelFiles) -> Mapping[KnobKind, door.KnobDoor]:
    """Return the doors to the kernel of this machine: sysctl, /sys and huge pages."""
    pools = HugePagesDoor(host=host, kernel=kernel)
    return {
        KnobKind.SYSCTL: SysctlDoor(host=host, kernel=kernel, pools=pools),
        KnobKind.SYSFS: SysfsDoor(host=host, kernel=kernel),
        KnobKind.HUGE_PAGES: pools,
    }
