"""What an experiment file may say of a server that is there already."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, problems_of

from steelyard.campaign.file.files import allow_existing
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import InputError

# What these keys become is in the snapshots.
EVERY_KEY = """\
version: 1
name: every key
workloads:
  - {name: reads, builtin: select-only, scale_factor: 1}
loads: {clients: 1}
seed: 1
configurations:
  default: {target: {kind: endpoint}}
  keys:
    target: {kind: endpoint, host: db, port: 5433, user: b, dbname: d, service: s,
             allow_existing: true, restart_command: 'ssh db restart', restore: vacuum}
  heir: {extends: keys}
  uri: {target: {kind: endpoint, uri: 'postgresql://b@db/x', restart_command: [a, b]}}
  reset:
    target: {kind: endpoint, dbname: d, allow_existing: true, reset_command: 'sh reset',
             reset_timeout: 30m}
"""


def at(keys: str = "", more: str = "") -> str:
    """Return the small experiment at an endpoint."""
    inside = ", ".join(filter(None, ["kind: endpoint", keys]))
    return SMALL.replace("default: {}", f"default: {{target: {{{inside}}}}}") + more


_FAR = "generator: {host: 'ssh://me@far:2222'}\n"


def test_kinds_of_one_system_are_mixed() -> None:
    """A server of this machine beside one that is there already."""
    text = SMALL.replace("{extends: default}", "{target: {kind: endpoint}}")
    kinds = [each.target.kind for each in load(text).experiment.configurations]
    assert kinds == ["local", "endpoint"]


@pytest.mark.parametrize(
    ("switch", "words"),
    [("restart", "cannot be restarted"), ("reprovision", "cannot make it anew")],
)
def test_what_steelyard_did_not_make_is_not_switched(switch: str, words: str) -> None:
    """Neither restarted without a command nor made anew: refused at its line."""
    problems = problems_of(at(more=f"measure: {{switch: {switch}}}\n"))
    assert problems
    assert all(words in problem.message for problem in problems)


def test_the_flag_allows_existing_databases_everywhere() -> None:
    """`--allow-existing` is for endpoints only."""
    allowed = allow_existing(load(at("dbname: shop"))).experiment
    assert all(target.allow_existing for target in allowed.endpoint_targets.values())
    with pytest.raises(InputError, match="has none"):
        allow_existing(load(SMALL))


_PROFILED = SMALL.replace("{extends: default}", "{extends: default, profile: fitted}")
NOWHERE = Path("/nonexistent")
_SERVER = "configurations.default.target={kind: endpoint, dbname: d}"


def test_a_profile_fits_the_server_that_is_described() -> None:
    """By keys of its target or by the command line, which says the same of every endpoint."""
    told = [
        load(_PROFILED, NOWHERE, _SERVER, *overrides).experiment
        for overrides in (
            ("memory=64GiB", "cpus=16"),
            (
                "configurations.default.target.memory=64GiB",
                "configurations.default.target.cpus=16",
            ),
        )
    ]
    for experiment in told:
        asked = experiment.configuration("other").asked()
        assert (asked["shared_buffers"], asked["max_parallel_workers"]) == ("16384MB", "16")
        assert experiment.configuration("default").target == EndpointTarget(dbname="d")
    assert told[0] == told[1]


@pytest.mark.parametrize("overrides", [(), ("memory=64GiB",), ("cpus=16",)])
def test_a_server_of_which_not_enough_is_said_has_no_profile(overrides: tuple[str, ...]) -> None:
    """And it is told how to say it."""
    (problem,) = problems_of(_PROFILED, _SERVER, *overrides)
    assert "the profile `fitted` fits this machine, not the one of an endpoint" in problem.message
    assert "--memory and --cpus" in problem.hint


def test_nobody_tells_steelyard_what_this_machine_has() -> None:
    """It sees that itself; a target of this machine has no such keys."""
    problems = problems_of(_PROFILED, "memory=64GiB", "cpus=16")
    assert {problem.message for problem in problems} == {
        f"`{key}` is what nobody sees of a server, and Steelyard sees this machine"
        for key in ("memory", "cpus")
    }
