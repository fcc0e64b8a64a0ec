"""What a file may say of turns, and of the design that takes them."""

import pytest
from experiment_texts import SMALL, load, only_problem

SINGLE = SMALL.replace("  other: {extends: default}\n", "").replace(
    "name: small", "name: small\ndesign: single-pass"
)


def with_measure(keys: str, text: str = SMALL) -> str:
    """Return an experiment file with these keys of `measure`."""
    return f"{text}measure: {{{keys}}}\n"


QUOTA = SMALL.replace("other: {extends: default}", "other: {extends: default, cgroup: {cpus: 0.5}}")


@pytest.mark.parametrize(
    ("text", "turn_s", "settling_s"),
    [
        (QUOTA, 0.4, 0.2),
        (QUOTA.replace("cpus: 0.5", "cpuset: '0'"), 0.25, 0.1),
        (with_measure("turn: 250ms", QUOTA), 0.25, 0.1),
        (with_measure("settling: 150ms", QUOTA), 0.25, 0.15),
        (with_measure("slice: 4s", QUOTA), 0.4, 0.2),
    ],
)
def test_a_quota_settles_for_two_periods(text: str, turn_s: float, settling_s: float) -> None:
    """Of any configuration, in the turns of all; what is written holds."""
    found = load(text).experiment.measure.turns
    assert (found.turn_s, found.settling_s) == (turn_s, settling_s)


@pytest.mark.parametrize(
    ("keys", "turn_s"),
    [
        ("resources: {limits: {cpu: '1', memory: 1Gi}}", 0.4),
        ("generators: {resources: {limits: {cpu: '1'}}}", 0.4),
        ("generators: {resources: {limits: {memory: 1Gi}}}", 0.25),
    ],
)
def test_pods_with_a_limit_of_cpu_settle_longer(keys: str, turn_s: float) -> None:
    """The server's limit or that of the load generators; requests alone become a limit, too."""
    text = f"""\
version: 1
name: pods
baseline: default
workloads: [{{name: reads, builtin: select-only, scale_factor: 1}}]
loads: {{clients: [1]}}
configurations:
  default: {{target: {{kind: cloudnative-pg, {keys}}}}}
  other: {{extends: default, postgres: {{work_mem: 8MB}}}}
"""
    assert load(text).experiment.measure.turns.turn_s == turn_s


def test_a_workload_has_a_slice_of_its_own() -> None:
    """Where it has none, that of all; one that holds no two turns is told at its line."""
    text = with_measure("slice: 4s, turn: 2s")
    assert text.count("scale_factor: 1}") == 1
    experiment = load(text.replace("scale_factor: 1}", "scale_factor: 1, slice: 9s}")).experiment
    assert experiment.slice_s(experiment.workloads[0].name) == 9.0
    assert (load(text).experiment.slices, experiment.slices) == ("4 s", "9 s")
    told = only_problem(text.replace("scale_factor: 1}", "scale_factor: 1, slice: 3s}"))
    assert "3 s hold fewer than two turns of 2 s" in told


@pytest.mark.parametrize("key", ["turn: 500ms", "settling: 200ms", "reconnections: 2"])
def test_turns_are_refused_where_none_are_taken(key: str) -> None:
    """A key without an effect is not passed over in silence, also where it is the default."""
    told = only_problem(with_measure(key, SINGLE))
    assert f"`{key.split(':', maxsplit=1)[0]}` says how turns are taken" in told
    assert load(SINGLE).experiment
