"""What a campaign records of the wake-ups of its machine."""

from dataclasses import replace
from pathlib import Path

from fakes.campaigns import Stage, an_experiment
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.servers import FakeEngine, FakePlatform
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.campaign.run.session import facts_of
from steelyard.core.linux import recorded_suspects
from steelyard.targets.assembly import Assembly
from support.machines import metal


def test_a_campaign_records_what_makes_wakeups_slow(tmp_path: Path) -> None:
    """Idle states and their limit are rows of the machine, so that a report can name suspects."""
    clock, host = FakeClock(), metal()
    state = "/sys/devices/system/cpu/cpu0/cpuidle/state2/disable"
    host = replace(
        host,
        files={**host.files, state: "0"},
        numbers={"/dev/cpu_dma_latency": 2_000_000_000},
    )
    stage = Stage.new(an_experiment(), tmp_path / "c", clock)
    journal = JournalLedger(stage.directory.journal, "c")
    platform = FakePlatform(stage.world, journal, tmp_path)
    assembly = Assembly(
        engine=FakeEngine(stage.world),
        platforms={each.name: platform for each in stage.experiment.configurations},
    )
    facts = facts_of(stage.experiment, assembly, fake_doors(clock, host=host))
    stage.directory.close()
    rows = {fact.name: fact.value for fact in facts if fact.subject == "machine"}
    assert rows["idle states"] == "POLL 0 µs, C1 2 µs, C6 133 µs"
    assert rows["wake-up limit"] == "none"
    assert recorded_suspects(facts) == (
        "idle CPUs of this machine enter C6, which takes 0.13 ms to leave",
    )
