"""The door to files that a plan places on the machine: units, sysctl.d, profiles, includes.

What was there is kept with mode, owner and extended attributes, or its absence and that of the
directories above it. A file that was there keeps its mode and owner.
"""

import json
import shlex
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from steelyard.gateways.placed_files import PlacedFile, PlacedFiles
from steelyard.model.errors import PreflightError, PrivilegeError, TargetError
from steelyard.model.stack import Knob
from steelyard.tuning.applying.door import Check, Seen

_KERNEL: Final = ("/proc/", "/sys/", "/dev/")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDoor:
    """Places files.

    Attributes:
        uid: Owner of a file that was not there; likewise ``gid``.
        rendered: The plan's ready file for a path, where there is one.
    """

    files: PlacedFiles
    uid: int = 0
    gid: int = 0
    rendered: Mapping[str, Path] = field(default_factory=dict)

    def seen(self, knob: Knob) -> Seen:
        """Return the content of the file."""
        found = self.files.look(knob.place)
        if found is None:
            return Seen(value=None, source=knob.place, reason=f"{knob.place} is not there")
        return Seen(value=found.content.decode(errors="replace"), source=knob.place)

    def require(self, knob: Knob) -> None:
        """Check that a file may be placed there.

        Raises:
            PreflightError: The path is no place for a plain file.
            PrivilegeError: The account may not.
        """
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
        """Place the file.

        Raises:
            TargetError: The disk is full or refuses.
        """
        was = self.files.look(knob.place) or PlacedFile(content=b"", uid=self.uid, gid=self.gid)
        self.files.place(knob.place, replace(was, content=knob.value.encode()))

    def verify(self, knob: Knob) -> Check:
        """Return whether the file has the content of the plan."""
        seen = self.seen(knob)
        if seen.value == knob.value:
            return Check(holds=True, facts=(f"{knob.place} has the content of the plan.",))
        fact = seen.reason or f"{knob.place} has another content than the plan says"
        return Check(holds=False, facts=(f"{fact}.",), remedy="Apply the plan.")

    def revert(self, knob: Knob, snapshot: str) -> None:
        """Put back the file that was there, or remove it and the directories made for it.

        Raises:
            TargetError: The disk is full or refuses.
        """
        before: dict[str, Any] = json.loads(snapshot)
        if "absent" in before:
            self.files.remove(knob.place)
            for directory in reversed(before["absent"]):
                self.files.remove_directory(directory)
            return
        was = _file(before)
        if self.files.look(knob.place) != was:
            self.files.place(knob.place, was)

    def altered(self, knob: Knob, snapshot: str) -> str:
        """Return that the file is neither that of the plan nor the former one; else nothing.

        Raises:
            TargetError: It is no plain file any more.
        """
        before: dict[str, Any] = json.loads(snapshot)
        found = self.files.look(knob.place)
        former = None if "absent" in before else _file(before)
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


def _file(before: dict[str, Any]) -> PlacedFile:
    return PlacedFile(
        content=b64decode(before["content"]),
        mode=before["mode"],
        uid=before["uid"],
        gid=before["gid"],
        attributes={name: b64decode(value) for name, value in before["attributes"].items()},
    )
