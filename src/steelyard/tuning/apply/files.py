"""The door to files that a plan places on the machine: units, sysctl.d, profiles, includes.

What was there is kept with mode, owner and extended attributes, or its absence and that of the
directories above it. A file that was there keeps its mode and owner.

Objects of a cluster as a plan asks for them, against those that are there.

A plan's object speaks of some fields. Of an object that is there already these alone are changed,
by a merge patch, and what they were is another merge patch, which puts them back.

The doors to what is not done from here: steps of an operator, and objects of a cluster.
"""

import json
import re
import shlex
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.core.command import Command
from steelyard.core.errors import (
    InputError,
    PreflightError,
    PrivilegeError,
    SteelyardError,
    TargetError,
)
from steelyard.core.kubernetes import CLUSTER, MANAGED_BY, MANAGER
from steelyard.core.stack import Knob
from steelyard.core.units import parse_quantity
from steelyard.gateways.host import Host, LocalHost
from steelyard.gateways.placed_files import PlacedFile, PlacedFiles
from steelyard.gateways.process import Processes
from steelyard.places.kubernetes.undoing import Difference
from steelyard.tuning.apply.door import Check, Seen

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


# Of a Cluster that is there: which image it has is not what a plan is about, and CloudNativePG
# takes one way of saying it at a time.
_IMAGE: Final = ("imageCatalogRef", "imageName")
_MOST_TOLD: Final = 4


def manifest_of(knob: Knob, namespace: str) -> dict[str, Any]:
    """Return the object that a knob asks for; one of a namespace is in this one.

    Raises:
        InputError: It is no object.
    """
    try:
        given = YAML(typ="safe", pure=True).load(knob.value)
    except YAMLError as error:
        raise InputError(f"{knob.place} is no YAML: {error}", hint="Make the plan anew.") from error
    if not isinstance(given, dict) or not {"apiVersion", "kind", "metadata"} <= given.keys():
        raise InputError(f"{knob.place} is no object of a cluster", hint="Make the plan anew.")
    made = json.loads(json.dumps(given))
    metadata = {**made["metadata"], "labels": {MANAGED_BY: MANAGER}}
    if made["kind"] == CLUSTER.name:
        metadata["namespace"] = namespace
    return {**made, "metadata": metadata}


def asked_of(manifest: Mapping[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a plan asks of an object that is there, without what stays as it is.

    Name and labels are no question; a Cluster keeps its image, and a volume that is larger.
    """
    asked = {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind", "metadata")}
    if live is None or manifest["kind"] != CLUSTER.name:
        return asked
    spec, there = dict(asked["spec"]), live.get("spec") or {}
    if any(name in there for name in _IMAGE):
        spec = {name: value for name, value in spec.items() if name not in _IMAGE}
    for name in ("storage", "walStorage"):
        size = (spec.get(name) or {}).get("size")
        if size is not None and _is_at_least((there.get(name) or {}).get("size"), size):
            spec[name] = {key: value for key, value in spec[name].items() if key != "size"}
    return {**asked, "spec": spec}


def told(found: list[Difference]) -> tuple[str, ...]:
    """Return differences as sentences, not too many of them."""
    sentences = [
        f"{path} was asked to be {_shown(asked)} and is {_shown(live)}."
        for path, asked, live in found[:_MOST_TOLD]
    ]
    more = len(found) - _MOST_TOLD
    return (*sentences, f"So are {more} more fields.") if more > 0 else tuple(sentences)


def _is_at_least(size: object, asked: object) -> bool:
    try:
        return size is not None and parse_quantity(str(size)) >= parse_quantity(str(asked))
    except InputError:
        return False


def _shown(value: object) -> str:
    return "absent" if value is None else json.dumps(value)


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
