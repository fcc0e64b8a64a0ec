"""From `stack plan --dir` to `apply`, `verify` and `revert`, with the files that it rendered."""

import configparser
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from steelyard.gateways.host import LocalHost
from steelyard.tuning.apply.door import current
from steelyard.tuning.apply.kernel import path_of
from support.lacking import lacking
from support.live import Steelyard
from support.machine_lock import machine

__all__ = ["machine"]
pytestmark = pytest.mark.live

_FILES = (
    Path("/etc/systemd/system/steelyard-huge-pages.service"),
    Path("/etc/sysctl.d/90-steelyard.conf"),
    Path("/etc/tuned/steelyard/tuned.conf"),
)
_BOOTED = Path(
    "/run/systemd/system"
).is_dir()  # else nothing can be enabled: that counts for nothing
_NOT_ENABLED = 10 if _BOOTED else 0
_ENABLED = False if _BOOTED else None
_PLAN = ("stack", "plan", "--cpus", "1", "--memory", "1GiB", "--server", "formula", "--dir", "p")


@dataclass(frozen=True)
class Planned:
    """A plan of this machine, as it was written."""

    steelyard: Steelyard
    knobs: tuple[dict[str, str], ...]

    def state(self) -> dict[str, str | None]:
        """Return everything that the knobs of this machine change."""
        host, found = LocalHost(), dict[str, str | None]()
        for knob in self.knobs:
            kind, place = knob["kind"], knob["place"]
            if kind == "sysctl":
                found[place] = host.read(path_of(place))
            elif kind == "huge-pages":
                node = place.partition("/")[0]
                path = f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
                found[place] = host.read(f"{path}/nr_hugepages")
            elif kind in ("file", "sysfs"):
                found |= {str(p): host.read(str(p)) for p in Path("/").glob(place.lstrip("/"))}
        above = {str(parent) for file in _FILES for parent in file.parents}
        return found | {path: str(Path(path).is_dir()) for path in above}

    def of_kind(self, kind: str) -> dict[str, str]:
        """Return place and value of the knobs of a kind."""
        return {knob["place"]: knob["value"] for knob in self.knobs if knob["kind"] == kind}


@pytest.fixture
def planned(machine: None, steelyard: Steelyard) -> Iterator[Planned]:
    """A plan for this machine, held against other tests; it must be as it was afterwards."""
    if os.geteuid() != 0:
        lacking("only root may turn kernel settings")
    if any(path.exists() for path in _FILES):
        lacking(f"one of {', '.join(map(str, _FILES))} is on this machine already")
    made = steelyard.run(*_PLAN)
    assert made.returncode == 0, made.stderr
    directory = steelyard.directory / "p"
    knobs = json.loads((directory / "plan.json").read_text())["knobs"]
    here = Planned(steelyard, tuple(knob for knob in knobs if knob["layer"] == "linux"))
    before = here.state()
    try:
        yield here
        assert here.state() == before
    finally:
        steelyard.run("stack", "revert", "p", "--yes", "--changed", "replace")


def test_a_rendered_plan_is_applied_verified_and_reverted(planned: Planned) -> None:
    """Proves the whole way on this kernel: the files that `plan` rendered are those in effect."""
    steelyard, before = planned.steelyard, planned.state()
    applied = steelyard.run("stack", "apply", "p", "--only", "linux", "--yes")
    assert applied.returncode == _NOT_ENABLED, applied.stderr + applied.stdout
    assert "In effect." not in applied.stdout  # nothing has enabled the unit and the profile
    assert "systemctl enable steelyard-huge-pages.service" in applied.stdout
    for file in _FILES:
        rendered = steelyard.directory / "p/files/linux" / file.name
        assert file.read_bytes() == rendered.read_bytes()
    found: dict[str, list[bool | None]] = {}
    verified = steelyard.run("stack", "verify", "p", "--only", "linux", "--json")
    assert verified.returncode == _NOT_ENABLED, verified.stderr
    for each in json.loads(verified.stdout)["knobs"]:
        found.setdefault(each["kind"], []).append(each["in_effect"])
    for kind, states in found.items():
        assert set(states) == ({_ENABLED} if kind == "manual" else {True}), kind
    _assert_the_files_say_what_is_in_effect(planned)
    reverted = steelyard.run("stack", "revert", "p", "--yes")
    assert reverted.returncode == 0, reverted.stderr
    assert "Everything is as it was." in reverted.stdout
    assert planned.state() == before


def _assert_the_files_say_what_is_in_effect(planned: Planned) -> None:
    """Load the sysctl file into the kernel; compare the profile with the kernel."""
    asked, now = planned.of_kind("sysctl"), planned.state()
    program = shutil.which("sysctl", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if program is None:
        lacking("sysctl (package procps) is not installed")
    loaded = subprocess.run(
        [program, f"--load={_FILES[1]}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert loaded.returncode == 0, loaded.stderr
    said = dict(line.split(" = ", 1) for line in loaded.stdout.splitlines())
    assert said == asked
    assert planned.state() == now
    profile = configparser.ConfigParser()
    profile.optionxform = str  # type: ignore[assignment,method-assign]
    profile.read(_FILES[2])
    assert dict(profile["sysctl"]) == asked
    turned = planned.of_kind("sysfs")
    settings = dict(profile["sysfs"]) if profile.has_section("sysfs") else {}
    assert settings.items() <= turned.items()
    for place, value in settings.items():
        assert current(Path(place).read_text()) == value


def test_an_edited_rendered_file_survives_the_revert(planned: Planned) -> None:
    """Proves on real files that a revert tells what somebody has added, and leaves it there."""
    steelyard = planned.steelyard
    applied = steelyard.run("stack", "apply", "p", "--only", "linux", "--yes")
    assert applied.returncode == _NOT_ENABLED, applied.stderr
    with _FILES[1].open("a") as file:
        file.write("vm.max_map_count = 262144\n")
    edited = _FILES[1].read_bytes()
    refused = steelyard.run("stack", "revert", "p", "--yes")
    assert refused.returncode == 7, refused.stdout
    assert "--changed keep" in refused.stderr
    assert _FILES[1].read_bytes() == edited
    replaced = steelyard.run("stack", "revert", "p", "--yes", "--changed", "replace")
    assert replaced.returncode == 0, replaced.stderr
    assert not _FILES[1].exists()
