"""The stack below the servers: turned, seen in effect and put back, in any order, or told."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes import stack
from fakes.campaigns import CAMPAIGN_ID, Killed, Stage
from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.processes import Answer
from fakes.stack import READ_AHEAD, SWAPPINESS, Outside, asking
from steelyard.campaign.cleanup import leftovers
from steelyard.core.experiment import Experiment, ManualStep
from steelyard.core.outside import MadeDirectory, TurnedKnob
from steelyard.core.stack import KnobKind
from steelyard.core.wording import LeftBehindError, PreflightError, PrivilegeError, TargetError
from steelyard.gateways.doors import Doors
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory
from steelyard.targets.stack import Hooks, StackMeans, StackSettings
from steelyard.tuning.apply.kernel import kernel_doors
from support.left import left_knobs
from support.stack import MemoryLedger

PAGES = {"vm.nr_hugepages": "auto", "transparent_huge_pages": "never", "vm.swappiness": "1"}


def _settings(
    outside: stack.Outside, experiment: Experiment, ledger: MemoryLedger | None = None
) -> StackSettings:
    return outside.settings(experiment, ledger or MemoryLedger())


def _shown(settings: StackSettings) -> dict[str, str]:
    return {one.name: one.value for one in settings.in_force().effective}


def test_what_a_configuration_does_not_name_is_as_before_the_campaign() -> None:
    """Not as the last configuration left it, and not the kernel's default."""
    outside = stack.Outside()
    settings = _settings(outside, stack.asking({"vm.swappiness": "33"}, PAGES))
    settings.put("fast")
    assert outside.kernel.pools() == {0: 75}
    assert outside.kernel.files[stack.THP] == "always madvise [never]\n"
    assert _shown(settings)["linux: vm.nr_hugepages"] == "75"
    settings.put("slow")
    assert outside.kernel.pools() == {0: 10}
    assert outside.kernel.files[stack.THP] == "always [madvise] never\n"
    assert outside.kernel.files[stack.SWAPPINESS] == "33\n"
    assert settings.in_force().deviations == ()
    settings.remove()
    assert outside.kernel.files[stack.SWAPPINESS] == "60\n"
    assert outside.kernel.pools() == {0: 10}


def test_pages_in_use_come_on_top_and_are_counted_once() -> None:
    """What others hold before the first change is theirs; afterwards ours are in the pool too."""
    outside = stack.Outside()
    outside.kernel.hold(0, 4)
    settings = _settings(outside, stack.asking({}, PAGES))
    for configuration in ("fast", "slow", "fast"):
        settings.put(configuration)
    assert outside.kernel.pools() == {0: 79}
    assert outside.needs.counted == 1


def test_a_pool_that_is_large_enough_stays() -> None:
    """Free pages may be for somebody who has not started yet."""
    outside = stack.Outside(kernel=stack.a_kernel(pages=200))
    _settings(outside, stack.asking({}, PAGES)).put("fast")
    assert outside.kernel.pools() == {0: 200}


def test_fewer_pages_than_asked_for_are_a_deviation() -> None:
    """82 of 200: the kernel says nothing, and the configuration is not in force."""
    outside = stack.Outside(kernel=stack.a_kernel(fits=82))
    settings = _settings(outside, stack.asking({}, {"vm.nr_hugepages": "200"}))
    settings.put("fast")
    (deviation,) = settings.in_force().deviations
    assert deviation.startswith("linux: vm.nr_hugepages: 200 huge pages")
    assert "has 82" in deviation
    settings.put("slow")
    assert settings.in_force().deviations == ()
    assert outside.kernel.pools() == {0: 10}


def test_a_knob_that_somebody_turns_is_a_deviation() -> None:
    """What is read is the effect, each time it is asked."""
    outside = stack.Outside()
    settings = _settings(outside, stack.asking({}, {"read_ahead": "128kB"}))
    settings.put("fast")
    assert settings.in_force().deviations == ()
    outside.kernel.files[stack.READ_AHEAD] = "4096\n"
    (deviation,) = settings.in_force().deviations
    assert "linux: read_ahead" in deviation
    assert "4096" in deviation


def test_idle_cpus_are_kept_awake_while_a_configuration_wants_it() -> None:
    """Held while it is in force, and by nobody afterwards."""
    outside = stack.Outside()
    settings = _settings(outside, stack.asking({}, {"dma_latency": "20"}))
    settings.put("fast")
    assert outside.latency.held == 20
    assert _shown(settings) == {"linux: dma_latency": "20"}
    settings.put("slow")
    assert outside.latency.held is None
    assert _shown(settings) == {"linux: dma_latency": "unlimited"}
    settings.put("fast")
    settings.remove()
    assert outside.latency.held is None


def test_a_wake_up_limit_without_effect_is_a_deviation() -> None:
    """The kernel took the request, and its limit is another."""
    outside = stack.Outside(latency=stack.FakeLatency(heeded=False))
    settings = _settings(outside, stack.asking({}, {"dma_latency": "20"}))
    settings.put("fast")
    (deviation,) = settings.in_force().deviations
    assert "asked to be 20 us" in deviation


def test_what_cannot_be_is_said_before_anything_is_touched() -> None:
    """Memory, privilege, and a person to ask; nothing is written."""
    outside = stack.Outside(kernel=stack.a_kernel(fits=20))
    with pytest.raises(PreflightError, match="do not fit"):
        _settings(outside, stack.asking({}, PAGES)).require_ready()
    closed = stack.Outside(latency=stack.FakeLatency(why_not="this account may not"))
    with pytest.raises(PrivilegeError, match="may not"):
        _settings(closed, stack.asking({}, {"dma_latency": "0"})).require_ready()
    shut = stack.Outside()
    shut.kernel.closed["/proc/sys"] = "this account may not write it"
    with pytest.raises(PrivilegeError, match="swappiness"):
        _settings(shut, stack.asking({}, {"vm.swappiness": "1"})).require_ready()
    alone = stack.Outside(operator=stack.FakeOperator(is_there=False))
    by_hand = (ManualStep(text="Do it."), ManualStep(text="Undo it."))
    with pytest.raises(PreflightError, match="no terminal"):
        _settings(alone, stack.asking({}, {}, manual=by_hand)).require_ready()
    assert [outside.kernel.written, shut.kernel.written] == [[], []]


def test_what_this_machine_lacks_is_told_by_key() -> None:
    """So that the file's line can be shown: an unknown sysctl, an invisible governor."""
    asked = {"vm.swapiness": "1", "governor": "performance", "vm.swappiness": "1"}
    found = _settings(stack.Outside(), stack.asking({}, asked)).unfit("fast")
    assert {one.key: one.hint for one in found} == {
        "vm.swapiness": "did you mean `vm.swappiness`?",
        "governor": "Turn it on the host, as a `manual` step, or leave it out.",
    }


_DIRTY = {"dirty_bytes": "0", "dirty_ratio": "20", "overcommit_kbytes": "0"}


def _with_dirty_limits() -> stack.Outside:
    outside = stack.Outside()
    for name, value in {**_DIRTY, "overcommit_ratio": "50"}.items():
        outside.kernel.files[f"/proc/sys/vm/{name}"] = f"{value}\n"
    return outside


@pytest.mark.parametrize(
    ("one", "other"),
    [("vm.dirty_bytes", "vm.dirty_ratio"), ("vm.overcommit_kbytes", "vm.overcommit_ratio")],
)
def test_settings_that_exclude_each_other_are_told_by_key(one: str, other: str) -> None:
    """The kernel zeroes the first when the second is written."""
    (found,) = _settings(_with_dirty_limits(), stack.asking({}, {one: "9000", other: "5"})).unfit(
        "fast"
    )
    assert found.key == other
    assert f"`fast` sets `{other}` and `{one}`" in found.message


def test_they_may_be_compared_with_each_other() -> None:
    """One configuration has a share of the memory and the other bytes: each is in force."""
    outside = _with_dirty_limits()
    asked = stack.asking({"vm.dirty_ratio": "5"}, {"vm.dirty_bytes": "536870912"})
    settings = _settings(outside, asked)
    for configuration, expected in (("fast", "536870912"), ("slow", "0"), ("fast", "536870912")):
        assert settings.unfit(configuration) == ()
        settings.put(configuration)
        assert settings.in_force().deviations == ()
        assert outside.kernel.files["/proc/sys/vm/dirty_bytes"] == f"{expected}\n"
    settings.remove()
    assert outside.kernel.files["/proc/sys/vm/dirty_ratio"] == "20\n"


def test_a_manual_step_is_done_when_another_configuration_comes() -> None:
    """Not at every start of a server, and again after the other configuration was there."""
    outside = stack.Outside()
    steps = (ManualStep(text="Out."), ManualStep(text="In."))
    settings = _settings(outside, stack.asking({}, {}, manual=steps))
    for configuration in ("fast", "fast", "slow", "fast"):
        settings.put(configuration)
    assert outside.operator.asked == ["fast: In.", "slow: Out.", "fast: In."]


@pytest.mark.parametrize(
    ("step", "answer", "said"),
    [
        (ManualStep(text="In."), Answer(), "nobody confirmed within 10 min"),
        (
            ManualStep(command=("hook",)),
            Answer(exit_status=3, stderr="no VM"),
            "exited with 3: no VM",
        ),
        (
            ManualStep(command=("hook",)),
            Answer(exit_status=1, stderr="connecting with token Zq9secret"),
            r"exited with 1: connecting with token \*{3}$",
        ),
        (ManualStep(command=("hook",)), Answer(takes_s=999.0), "`manual` of `fast` failed"),
    ],
)
def test_a_step_that_was_not_done_is_an_error_and_asked_again(
    step: ManualStep, answer: Answer, said: str
) -> None:
    """The configuration is not in force, whoever failed."""
    outside = stack.Outside(operator=stack.FakeOperator(willing=False))
    outside.processes.on("hook", answer=answer)
    settings = _settings(outside, stack.asking({}, {}, manual=(step, step)))
    for _ in range(2):
        with pytest.raises(TargetError, match=said):
            settings.put("fast")
    assert len(outside.operator.asked) + len(outside.processes.ran) == 2


def test_what_does_not_go_back_is_left_behind_and_the_rest_goes() -> None:
    """Somebody took our huge pages; the other knobs are put back all the same."""
    outside, ledger = stack.Outside(), MemoryLedger()
    settings = _settings(outside, stack.asking({}, PAGES), ledger)
    settings.put("fast")
    outside.kernel.hold(0, 50)
    with pytest.raises(LeftBehindError, match="still in use") as left:
        settings.remove()
    assert "steelyard clean" in left.value.hint
    assert outside.kernel.files[stack.SWAPPINESS] == "60\n"
    assert list(ledger.snapshots) == ["vm.nr_hugepages"]
    outside.kernel.hold(0, 0)
    settings.remove()
    assert ledger.snapshots == {}


def _stage(path: Path, outside: stack.Outside, clock: FakeClock, *, resumed: bool = False) -> Stage:
    experiment = stack.asking({"vm.swappiness": "33"}, PAGES)
    stage = (Stage.resumed if resumed else Stage.new)(experiment, path, clock)
    stage.stacked = lambda ledger: outside.settings(experiment, ledger)
    return stage


def _doors(outside: stack.Outside) -> Doors:
    return fake_doors(host=outside.kernel, kernel=outside.kernel)


def test_a_campaign_records_the_stack_and_leaves_none_of_it(tmp_path: Path) -> None:
    """Settings in force are in the environment; every knob is noted as turned and put back."""
    outside = stack.Outside()
    stage = _stage(tmp_path / "c", outside, FakeClock())
    stage.run()
    assert outside.kernel.files[stack.SWAPPINESS] == "60\n"
    assert outside.kernel.pools() == {0: 10}
    record = CampaignDirectory.reopen(tmp_path / "c", FakeClock()).read()
    assert record.environment is not None
    seen = {
        server.configuration: {s.name: s.value for s in server.settings}
        for server in record.environment.servers
    }
    assert seen["slow"]["linux: vm.swappiness"] == "33"
    assert seen["fast"]["linux: vm.nr_hugepages"] == "75"
    assert left_knobs(tmp_path / "c") == ()
    assert record.plan is not None
    assert str(record.plan.switch) == "restart"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_death_at_any_line_of_the_journal_can_be_undone(tmp_path: Path, how: str) -> None:
    """Whatever was turned is put back by what the journal and the registry say."""
    before = None
    for dies_at in range(1, 24):
        outside = stack.Outside()
        before = dict(outside.kernel.files)
        path = tmp_path / f"{how}-{dies_at}"
        stage = _stage(path, outside, FakeClock()).dying(dies_at, how)
        with pytest.raises(Killed):
            stage.campaign().run()
        stage.directory.close()
        for leftover in leftovers.find_leftovers(_doors(outside), [path]):
            leftovers.undo(leftover, _doors(outside))
        assert outside.kernel.files == before, dies_at
        assert left_knobs(path) == (), dies_at
    assert before is not None


def test_a_resumed_campaign_turns_its_knobs_again(tmp_path: Path) -> None:
    """The dead session's are put back first, so that what was before stays what is known."""
    outside, clock = stack.Outside(), FakeClock()
    stage = _stage(tmp_path / "c", outside, clock).dying(22, "after")
    with pytest.raises(Killed):
        stage.campaign().run()
    stage.directory.close()
    for leftover in leftovers.find_leftovers(_doors(outside), [tmp_path / "c"]):
        leftovers.undo(leftover, _doors(outside))
    _stage(tmp_path / "c", outside, clock, resumed=True).run()
    assert outside.kernel.files[stack.SWAPPINESS] == "60\n"
    assert outside.kernel.pools() == {0: 10}
    assert left_knobs(tmp_path / "c") == ()


def test_a_record_from_elsewhere_cannot_name_what_is_turned_back(tmp_path: Path) -> None:
    """Only what this account's own registry knows is written into the kernel."""
    outside = stack.Outside()
    stage = _stage(tmp_path / "c", outside, FakeClock()).dying(12, "after")
    with pytest.raises(Killed):
        stage.campaign().run()
    stage.directory.close()
    assert left_knobs(tmp_path / "c")
    note = registry.directory() / CAMPAIGN_ID
    note.write_text(note.read_text().splitlines()[0] + "\n")
    written = list(outside.kernel.written)
    for leftover in leftovers.find_leftovers(_doors(outside), [tmp_path / "c"]):
        assert not any(isinstance(thing, TurnedKnob) for thing in leftover.things)
    assert outside.kernel.written == written


def test_knobs_are_put_back_when_the_record_is_gone(tmp_path: Path) -> None:
    """By the registry alone."""
    outside = stack.Outside()
    before = dict(outside.kernel.files)
    stage = _stage(tmp_path / "c", outside, FakeClock()).dying(12, "after")
    with pytest.raises(Killed):
        stage.campaign().run()
    stage.directory.close()
    (tmp_path / "c" / "journal.jsonl").unlink()
    (leftover,) = leftovers.find_leftovers(_doors(outside))
    assert any(isinstance(thing, TurnedKnob) for thing in leftover.things)
    leftovers.undo(leftover, _doors(outside))
    assert outside.kernel.files == before


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


ASKED = {"vm.swappiness": "33", "transparent_huge_pages": "never", "vm.nr_hugepages": "90"}


@pytest.fixture
def outside() -> Outside:
    """Return a machine."""
    return Outside()


@pytest.fixture
def dead(tmp_path: Path, outside: Outside) -> Stage:
    """Return a campaign that died with its knobs turned."""
    stage = Stage.new(asking(ASKED, ASKED), tmp_path / "c", FakeClock())
    stage.stacked = lambda noted: outside.settings(stage.experiment, noted)
    stage.dying(18, "after")
    with pytest.raises(Killed):
        stage.campaign().run()
    stage.directory.close()
    assert len(left_knobs(stage.path)) == 3
    outside.kernel.files[SWAPPINESS] = "33\n"  # a kill has no end that puts the last one back
    return stage


def _stuck_doors(outside: Outside) -> Doors:
    return fake_doors(host=outside.kernel, kernel=outside.kernel)


def test_a_knob_that_does_not_go_back_keeps_no_other_turned(outside: Outside, dead: Stage) -> None:
    """Somebody uses our huge pages; the rest goes back, and that is noted."""
    outside.kernel.hold(0, 50)
    (leftover,) = leftovers.find_leftovers(_stuck_doors(outside), [dead.path])
    with pytest.raises(LeftBehindError, match="still in use"):
        leftovers.undo(leftover, _stuck_doors(outside))
    assert outside.kernel.files[SWAPPINESS] == "60\n"
    assert [knob.label for knob in left_knobs(dead.path)] == ["sysctl vm.nr_hugepages"]


def test_a_torn_line_of_the_registry_is_of_a_knob_that_was_not_turned(
    outside: Outside, dead: Stage
) -> None:
    """The registry has it before the knob is turned; the lines before it count."""
    note = registry.directory() / CAMPAIGN_ID
    note.write_text(note.read_text() + 'knob {"knob": {"name": "lin')
    (leftover,) = leftovers.find_leftovers(_stuck_doors(outside), [dead.path])
    leftovers.undo(leftover, _stuck_doors(outside))
    assert outside.kernel.files[SWAPPINESS] == "60\n"
    assert left_knobs(dead.path) == ()


def test_one_campaign_does_not_keep_another_from_being_cleaned(
    tmp_path: Path, outside: Outside, dead: Stage
) -> None:
    """All are tried, and what is left of any is told in the end."""
    other = tmp_path / "live" / "zz"
    other.mkdir(parents=True)
    second = leftovers.Leftover(
        campaign_id="zz",
        record=None,
        things=(MadeDirectory(path=other),),
        processes=(),
        size_bytes=0,
    )
    outside.kernel.hold(0, 50)
    found = leftovers.find_leftovers(_stuck_doors(outside), [dead.path])
    with pytest.raises(LeftBehindError, match="still in use"):
        leftovers.undo_all((*found, second), _stuck_doors(outside))
    assert not other.exists()
