"""The door to sysctl settings: files below /proc/sys.

Of some pairs only one is in force, and writing it zeroes the other; 0 itself cannot be written to
``vm.dirty_bytes``. What is put back is then the one that was in force before.
Source: Documentation/admin-guide/sysctl/vm.rst; EINVAL seen on Linux 6.18.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from steelyard.gateways.host import Host
from steelyard.gateways.kernel import KernelFiles
from steelyard.model.errors import PreflightError, TargetError
from steelyard.model.stack import Knob, KnobKind
from steelyard.tuning.applying.door import Check, Seen
from steelyard.tuning.applying.huge_pages import HugePagesDoor
from steelyard.tuning.applying.kernel_files import compared, require_writable
from steelyard.tuning.applying.kernel_values import current, same

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
