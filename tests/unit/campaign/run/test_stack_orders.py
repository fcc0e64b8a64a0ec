"""The stack of configurations in any order: shared steps, shared knobs, and what fails."""

from dataclasses import replace

import pytest

from fakes.stack import READ_AHEAD, SWAPPINESS, Outside, asking
from steelyard.core.experiment import ManualStep
from steelyard.core.stack import KnobKind
from steelyard.core.wording import LeftBehindError
from steelyard.targets.stack import Hooks, StackMeans, StackSettings
from steelyard.tuning.apply.kernel import kernel_doors
from support.stack import MemoryLedger

OTHER_DISK = "/sys/dev/block/8:16/queue/read_ahead_kb"
_HOOK = ManualStep(command=("hook", "guest"))
_BOTH = {"read_ahead": "128kB", "vm.swappiness": "1"}


def test_one_command_for_all_configurations_runs_for_each() -> None:
    """It knows its configuration from the environment: an equal command is not the same step."""
    outside = Outside()
    outside.processes.on("hook")
    settings = outside.settings(asking({}, {}, manual=(_HOOK, _HOOK)), MemoryLedger())
    for configuration in ("slow", "slow", "fast", "slow"):
        settings.put(configuration)
    told = [command.environment["STEELYARD_CONFIGURATION"] for command in outside.processes.ran]
    assert told == ["slow", "fast", "slow"]


@pytest.mark.parametrize("order", [("slow", "fast"), ("fast", "slow")])
def test_the_pool_for_a_server_does_not_depend_on_who_comes_first(order: tuple[str, str]) -> None:
    """Counted on the pool before the first change, not on one that another configuration made."""
    outside = Outside()
    asked = asking({"vm.nr_hugepages": "300"}, {"vm.nr_hugepages": "auto"})
    settings = outside.settings(asked, MemoryLedger())
    for configuration in (*order, "fast"):
        settings.put(configuration)
    assert outside.kernel.pools() == {0: 75}


def _two_disks(outside: Outside) -> StackSettings:
    """Return two configurations that set the read-ahead of a disk each, and one that sets none."""
    outside.kernel.files[OTHER_DISK] = "4096\n"
    experiment = asking({"read_ahead": "128kB"}, {"read_ahead": "64kB"})
    plain = replace(experiment.configurations[0], name="plain", settings=())
    means = StackMeans(
        doors=kernel_doors(outside.kernel, outside.kernel),
        host=outside.kernel,
        latency=outside.latency,
        hooks=Hooks(processes=outside.processes, operator=outside.operator),
        ledger=MemoryLedger(),
        devices={"slow": "8:0", "fast": "8:16", "plain": "8:0"},
    )
    return StackSettings(
        replace(experiment, configurations=(*experiment.configurations, plain)), means
    )


def test_a_knob_with_a_place_for_each_configuration_is_put_back_at_each() -> None:
    """Two disks have two read-aheads: what the coming configuration does not turn is as before."""
    outside = Outside()
    settings = _two_disks(outside)
    for configuration, there, other in (
        ("slow", "128\n", "4096\n"),
        ("plain", "8192\n", "4096\n"),
        ("fast", "8192\n", "64\n"),
        ("slow", "128\n", "4096\n"),
    ):
        settings.put(configuration)
        assert outside.kernel.files[READ_AHEAD] == there, configuration
        assert outside.kernel.files[OTHER_DISK] == other, configuration
    settings.remove()
    assert outside.kernel.files[READ_AHEAD] == "8192\n"
    assert outside.kernel.files[OTHER_DISK] == "4096\n"


def test_what_a_configuration_leaves_alone_is_shown_of_its_own_disk() -> None:
    """One line for one name, and not the read-ahead of somebody else's disk."""
    outside = Outside()
    settings = _two_disks(outside)
    settings.put("plain")
    (seen,) = settings.in_force().effective
    assert (seen.name, seen.value) == ("linux: read_ahead", "8192")


def test_what_fails_at_the_end_keeps_nothing_else_turned() -> None:
    """All the rest goes back, and what does not is told."""
    outside, ledger = Outside(), MemoryLedger()
    settings = outside.settings(asking({}, _BOTH), ledger)
    settings.put("fast")
    settings._kept.sort(key=lambda knob: knob.kind is KnobKind.SYSFS)  # turned last
    outside.kernel.closed[READ_AHEAD] = "it is read-only now"
    with pytest.raises(LeftBehindError, match="read-only now"):
        settings.remove()
    assert outside.kernel.files[SWAPPINESS] == "60\n"
    assert list(ledger.snapshots) == [READ_AHEAD]


def test_what_fails_is_a_deviation_of_its_configuration() -> None:
    """The other settings are turned all the same; the block is void, not the campaign."""
    outside = Outside()
    settings = outside.settings(asking({}, _BOTH), MemoryLedger())
    outside.kernel.closed[READ_AHEAD] = "it is read-only now"
    settings.put("fast")
    assert outside.kernel.files[SWAPPINESS] == "1\n"
    reason = f"{READ_AHEAD} cannot be written: it is read-only now"
    assert settings.in_force().deviations == (f"linux: read_ahead: {reason}",)
