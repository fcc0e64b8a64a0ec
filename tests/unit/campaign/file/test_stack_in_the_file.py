"""``linux`` and ``manual`` in experiment files: inherited, varied, and refused."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, problems_of

from steelyard.core.experiment import Layer, ManualStep

_STACK = """\
version: 1
name: stack
workloads:
  - {name: reads, builtin: select-only, scale_factor: 1}
loads: {clients: 1}
seed: 1
configurations:
  default: {}
  pages:
    extends: default
    linux: {vm.nr_hugepages: auto, vm.swappiness: 1, read_ahead: 128kB}
  more:
    extends: pages
    linux: {vm.swappiness: null, vm.nr_hugepages: 300}
"""
_STEPS = """\
version: 1
name: steps
workloads:
  - {name: reads, builtin: select-only, scale_factor: 1}
loads: {clients: 1}
seed: 1
configurations:
  default:
    target: {kind: endpoint, host: guest}
    manual: {command: "./cycle 'my guest'", timeout: 5m}
  pinned: {extends: default}
"""


def _asked(text: str, configuration: str, *overrides: str) -> dict[str, str]:
    return (
        load(text, Path("/nonexistent"), *overrides)
        .experiment.configuration(configuration)
        .asked(Layer.LINUX)
    )


def test_kernel_settings_are_settings_of_their_layer() -> None:
    """Each is inherited on its own, and null removes an inherited one."""
    assert _asked(_STACK, "default") == {}
    first = {"vm.nr_hugepages": "auto", "vm.swappiness": "1", "read_ahead": "128kB"}
    assert _asked(_STACK, "pages") == first
    assert _asked(_STACK, "more") == {"vm.nr_hugepages": "300", "read_ahead": "128kB"}
    labels = {s.label for s in load(_STACK).experiment.configuration("pages").settings}
    assert "linux: vm.nr_hugepages" in labels


def test_dotted_names_are_reached_from_the_command_line() -> None:
    """The dot in a sysctl's name is no step of the path."""
    override = "configurations.pages.linux.vm.swappiness=60"
    assert _asked(_STACK, "pages", override)["vm.swappiness"] == "60"


def test_factors_vary_kernel_settings() -> None:
    """By the short form and by levels; two factors may not set one knob."""
    head = _STACK[: _STACK.index("configurations:")]
    short = head + "factors:\n  swap: {linux: {vm.swappiness: [60, 1]}}\n"
    thp = "  thp: {off: , on: {linux: {transparent_huge_pages: always}}}\n"
    experiment = load(short + thp).experiment
    found = {t.name: t.asked(Layer.LINUX) for t in experiment.configurations}
    assert found["swap+thp"] == {"vm.swappiness": "1", "transparent_huge_pages": "always"}
    twice = thp.replace("transparent_huge_pages: always", "vm.swappiness: 5")
    assert "`vm.swappiness` is set by the factor" in problems_of(short + twice)[0].message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("linux: {vm.swapiness: 1 2, kernel.core_pattern: x}", "not for experiments"),
        ("linux: {transparent_huge_page: never}", "no name of a kernel setting"),
        ("linux: {transparent_huge_pages: 'on'}", "`on` is unknown"),
        ("linux: {vm.nr_hugepages: plenty}", "no number of huge pages"),
        ("linux: {vm.swappiness: null}", "no inherited `vm.swappiness` to remove"),
        ("linux: {vm.swappiness: [1]}", "a list or mapping"),
        ("manual: {timeout: 5m}", "neither what to do nor which command"),
        ('manual: {command: "a \'b"}', "is no command"),
        ("manual: {text: Do it.}", "nothing leads back"),
    ],
)
def test_each_mistake_is_told_with_a_way_out(given: str, message: str) -> None:
    """Names, values, and steps that nobody does."""
    text = SMALL.replace(
        "  other: {extends: default}\n", f"  other: {{extends: default, {given}}}\n"
    )
    found = [problem for problem in problems_of(text) if message in problem.message]
    assert found
    assert all(problem.hint and problem.line in (8, 9) for problem in found)


def test_a_misspelled_knob_is_recognised() -> None:
    """The way out names the one that was meant."""
    text = SMALL.replace(
        "extends: default}", "extends: default, linux: {transparent_huge_page: a}}"
    )
    assert problems_of(text)[0].hint == "did you mean `transparent_huge_pages`?"


def test_an_endpoints_kernel_is_out_of_reach() -> None:
    """Knobs are of this machine, and the server is on another."""
    found = problems_of(_STACK, "configurations.default.target={kind: endpoint, host: db}")
    assert [p.line for p in found] == [11, 14]
    assert all("knobs of this machine" in p.message for p in found)


def test_the_command_of_a_step_is_inherited() -> None:
    """It is split as a shell would."""
    step = load(_STEPS).experiment.configuration("pinned").manual
    assert step == ManualStep(command=("./cycle", "my guest"), timeout_s=300.0)


def test_the_command_that_restarts_an_endpoint_has_no_password_either() -> None:
    """Its words are in the record like those of a step."""
    target = "{kind: endpoint, host: db, restart_command: [reboot, --password, hunter2]}"
    found = problems_of(SMALL, f"configurations.default.target={target}")
    assert [p.message for p in found if "password" in p.message] == [
        "the command has a password in it"
    ]


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("ipmitool --password hunter2", True),
        ("ipmitool -password=hunter2", True),
        ("[cycle, --token, hunter2]", True),
        ("env PGPASSWORD=hunter2 cycle", True),
        ("sshpass -p hunter2 ssh host", True),
        ("ipmitool --password-file /root/bmc", False),
        ("cycle --password --wait", False),
    ],
)
def test_a_command_with_a_password_is_refused(command: str, *, refused: bool) -> None:
    """It would be in the record; a file that it is read from is not."""
    old = "{command: \"./cycle 'my guest'\", timeout: 5m}"
    text = _STEPS.replace(old, f"{{command: {command}}}")
    if not refused:
        assert load(text).experiment.configuration("pinned").manual
        return
    (problem,) = problems_of(text)
    assert "has a password in it" in problem.message
    assert "hunter2" not in problem.message + problem.hint
