"""Limits in experiment files: read, inherited, removed, varied, and refused with their lines."""

from pathlib import Path

import pytest
from experiment_texts import load

from steelyard.campaign.run.session import check
from steelyard.core.wording import ExperimentFileError, PrivilegeError
from steelyard.places.protocol import Unfit
from steelyard.targets.assembly import Assembly

_LIMITED = """\
version: 1
name: limited
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
configurations:
  default: {}
  small:
    extends: default
    cgroup: {cpus: 0.60, cpuset: 0-1}
    postgres: {work_mem: 8MB}
  slow:
    extends: small
    cgroup:
      cpus: null
      read_bytes_per_s: 20MB
      write_iops: 200
"""
_FACTORED = """\
version: 1
name: factored
workloads:
  - {name: reads, builtin: select-only, scale: 1}
load: {clients: 1, protocol: simple}
seed: 1
factors:
  quota: {cgroup: {cpus: [2, 0.6]}}
  place: {apart: , together: {cgroup: {cpuset: "0", generator_cpuset: "0"}}}
"""


def test_factors_vary_limits() -> None:
    """By the short form, whose levels are called by the values, and by levels with names."""
    experiment = load(_FACTORED).experiment
    assert experiment.attribution is not None
    assert experiment.attribution.factors[0].second == "0.6"
    found = {t.name: {s.name: s.value for s in t.settings} for t in experiment.configurations}
    both = {"cpuset": "0", "generator_cpuset": "0"}
    assert found == {
        "default": {"cpus": "2"},
        "quota": {"cpus": "0.6"},
        "place": {"cpus": "2", **both},
        "quota+place": {"cpus": "0.6", **both},
    }


def test_overrides_reach_limits() -> None:
    """On the command line as in the file."""
    overrides = (
        "configurations.small.cgroup.cpus=1.5",
        "configurations.default.cgroup.write_iops=9",
    )
    experiment = load(_LIMITED, Path("/nonexistent"), *overrides).experiment
    asked = [(s.name, s.value) for s in experiment.configuration("small").settings]
    assert ("cpus", "1.5") in asked
    assert ("write_iops", "9") in asked


class _Server:
    """A server and its place, of which only the limits matter."""

    def __init__(self, *unfit: Unfit) -> None:
        self._unfit = unfit

    def unfit(self, limits: object) -> tuple[Unfit, ...]:
        """Return what does not fit, where anything is asked for."""
        return self._unfit if limits else ()

    def known_settings(self, _configuration: str) -> frozenset[str]:
        """Return the one that is asked for."""
        return frozenset({"work_mem"})

    def label(self, _configuration: str) -> str:
        """Return a name."""
        return "Fake 1"

    def complaints(self, _configuration: str) -> tuple[object, ...]:
        """Return none."""
        return ()

    def check_flags(self) -> None:
        """Allow every flag."""

    def require_ready(self) -> None:
        """Be an ordinary account."""
        raise PrivilegeError("only root can make control groups", hint="Be root.")


def test_what_this_machine_has_not_is_a_problem_of_the_file() -> None:
    """Once, at the line where it is written and not where it is inherited; then come the rights."""
    loaded = load(_LIMITED)
    unfit = Unfit(key="cpuset", message="this machine has no CPU 1: it has 0", hint="Name others.")
    server = _Server(unfit)
    names = [t.name for t in loaded.experiment.configurations]
    with pytest.raises(ExperimentFileError) as caught:
        check(loaded, Assembly(engine=server, platforms=dict.fromkeys(names, server)))  # type: ignore[arg-type]
    assert [(p.line, p.message) for p in caught.value.problems] == [(11, unfit.message)]
    able = _Server()
    with pytest.raises(PrivilegeError, match="only root"):
        check(loaded, Assembly(engine=able, platforms=dict.fromkeys(names, able)))  # type: ignore[arg-type]
