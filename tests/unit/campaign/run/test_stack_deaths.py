"""Campaigns that define a virtual machine and have it power-cycled, killed at any line."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.campaigns import Killed, Stage
from fakes.clock import FakeClock
from fakes.processes import Answer, FakeProcesses
from fakes.sql import FakeSql
from fakes.stack import Outside, asking
from steelyard.campaign.cleanup import leftovers, undoing
from steelyard.core.experiment import Experiment, Layer, ManualStep, Setting
from steelyard.core.stack import KnobKind
from steelyard.gateways.doors import Doors
from steelyard.tuning.apply.door import KnobDoor
from steelyard.tuning.apply.kernel import kernel_doors
from support.left import left_knobs


def _experiment() -> Experiment:
    """Return two configurations with a definition, a setting of the kernel and a hook each."""
    made = asking({"vm.swappiness": "33"}, {"vm.swappiness": "1"})
    configurations = tuple(
        replace(
            configuration,
            settings=tuple(
                sorted(
                    (
                        *configuration.settings,
                        Setting(layer=Layer.KVM, name="domain", value=f"{configuration.name}.xml"),
                    )
                )
            ),
            domain_xml=f"<domain><name>guest</name><!-- {configuration.name} --></domain>",
            manual=ManualStep(command=("hook", configuration.name)),
        )
        for configuration in made.configurations
    )
    return replace(made, configurations=configurations)


def _doors(outside: Outside) -> Doors:
    processes = FakeProcesses(FakeClock())
    return Doors(
        processes=processes,
        sql=FakeSql(),
        clock=processes.clock,
        host=outside.kernel,
        cgroups=None,  # type: ignore[arg-type]
        kernel=outside.kernel,
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_defined_machine_is_as_it_was_after_any_death(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves that its definition and the kernel go back by the journal, whatever hooks have run."""
    experiment, deaths = _experiment(), 0
    defined: set[str] = set()
    for dies_at in range(1, 40):
        outside = Outside()
        cycle = Answer(does=lambda _command, machine=outside.machine: machine.power_cycle())
        outside.processes.on("hook", answer=cycle)
        before = outside.machine.defined, dict(outside.kernel.files)

        def found(_doors: Doors, outside: Outside = outside) -> Mapping[KnobKind, KnobDoor]:
            kernel = kernel_doors(outside.kernel, outside.kernel)
            return {**kernel, KnobKind.DOMAIN: outside.machine}

        monkeypatch.setattr(undoing, "stack_doors", found)
        path = tmp_path / str(dies_at)
        stage = Stage.new(experiment, path, FakeClock()).dying(dies_at, how)
        stage.stacked = lambda ledger, outside=outside: outside.settings(experiment, ledger)
        try:
            stage.campaign().run()
        except Killed:
            deaths += 1
        else:
            break
        finally:
            stage.directory.close()
        defined.add(outside.machine.defined)
        for leftover in leftovers.find_leftovers(_doors(outside), [path]):
            leftovers.undo(leftover, _doors(outside))
        assert (outside.machine.defined, outside.kernel.files) == before, dies_at
        assert left_knobs(path) == (), dies_at
    assert deaths > 20
    assert len(defined) == 3  # it died with either definition, and with the former one
