"""``linux`` and ``manual`` in experiment files: inherited, varied, and refused."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, problems_of

from steelyard.core.experiment import Layer

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


def test_a_step_needs_a_way_back() -> None:
    """Else the other configuration would be measured with it."""
    text = SMALL.replace("{extends: default}", "{extends: default, manual: {text: Do it.}}")
    (problem,) = problems_of(text)
    assert "nothing leads back" in problem.message
    assert problem.hint


def test_an_endpoints_kernel_is_out_of_reach() -> None:
    """Knobs are of this machine, and the server is on another."""
    found = problems_of(_STACK, "configurations.default.target={kind: endpoint, host: db}")
    assert [p.line for p in found] == [11, 14]
    assert all("knobs of this machine" in p.message for p in found)


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("ipmitool --password hunter2", True),
        ("ipmitool -password=hunter2", True),
        ("[cycle, --token, hunter2]", True),
        ("env PGPASSWORD=hunter2 cycle", True),
        ("sshpass -p hunter2 ssh host", True),
        ("[ipmitool, -H, bmc, -U, root, -P, hunter2, chassis, power, cycle]", True),
        ("\"curl -H 'Authorization: Bearer hunter2' http://bmc\"", True),
        ("env AWS_SECRET_ACCESS_KEY=hunter2 cycle", True),
        ("curl -u admin:$PW http://bmc", False),
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
