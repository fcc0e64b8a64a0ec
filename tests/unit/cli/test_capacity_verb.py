"""``steelyard capacity``: a question becomes an experiment that stands on its own."""

import json
from pathlib import Path

import pytest
from command_line import EXPERIMENT, Shell

from steelyard.campaign.file.files import Surroundings, load_text
from steelyard.campaign.file.form_parts import GOAL_SHARES
from steelyard.cli.attaching import JobOptions
from steelyard.cli.questions import CapacityOptions, _capacity_command, capacity_text
from steelyard.core.experiment import Experiment, LatencyGoal
from steelyard.core.target import EndpointTarget, LocalTarget
from steelyard.core.wording import ExitCode
from steelyard.tuning.profiles import MachineFacts

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
    assert experiment.configurations[0].target == LocalTarget(bin="embedded")


def test_all_wrong_options_are_said_at_once(shell: Shell) -> None:
    """As all problems of a file are."""
    _, _, err = shell.run("capacity", "embedded", "--slo", "x", "--budget", "soon", "--dry-run")
    assert "--slo: `x` is not a goal" in err
    assert "--budget: `soon` is not a duration" in err


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
        ("17", LocalTarget(bin="17")),
        ("/opt/pg", LocalTarget(bin="/opt/pg")),
        ("local", LocalTarget()),
        (
            "postgresql://a@b/c?options=-c%20x%3D1",
            EndpointTarget(uri="postgresql://a@b/c?options=-c%20x%3D1"),
        ),
        ("{kind: endpoint, host: 'a: b'}", EndpointTarget(host="a: b")),
    ],
)
def test_every_kind_of_target(target: str, expected: object) -> None:
    """Words, directories, URIs and mappings, whatever characters they have."""
    assert _experiment(place=target).configurations[0].target == expected


def test_a_large_pool_has_room() -> None:
    """More clients than the default of max_connections allows raise it, on a server of ours."""
    (server,) = _experiment(client=200).configurations
    assert {setting.name: setting.value for setting in server.settings} == {
        "max_connections": "210"
    }
    assert _experiment(client=200, place="postgresql://h/d").configurations[0].settings == ()


def test_the_command_repeats_it() -> None:
    """Options that were not given stay away, so that the usual ones may change; the seed stays."""
    options = _options(
        place="postgresql://h/d",
        flags=("--random-seed=7",),
        client=4,
        slo="p99 < 10ms",
        seed=3,
        out=Path("c"),
        as_json=True,
        allow_existing=True,
    )
    assert _capacity_command(options) == (
        "steelyard capacity postgresql://h/d --seed 3 --client 4 --slo 'p99 < 10ms'"
        " --allow-existing -- --random-seed=7"
    )


def test_a_dry_run_shows_everything(shell: Shell) -> None:
    """Minutes, capacity and schedule with its rates; nothing is started."""
    code, out, err = shell.run("capacity", "embedded", "-s", "1", "--dry-run")
    assert code == 0, err
    assert "capacity   6 rounds of closed loops with 1, 2, 4, 8, 16 clients" in out
    assert " at 70 % [server]" in out
    code, out, _ = shell.run("capacity", "embedded", "-c", "4", "--dry-run", "--json")
    forecast = json.loads(out)
    assert forecast["configurations"] == ["server"]
    assert forecast["capacity_s"] > 0.0


def test_a_file_is_measured_with_its_configurations(shell: Shell) -> None:
    """Rates and goal are put into it; what it says itself cannot be said beside it."""
    Path("mine.yaml").write_text(EXPERIMENT)
    words = ("capacity", "mine.yaml", "-c", "4", "--slo", "p95 < 5ms", "--budget", "30m")
    code, out, err = shell.run(*words, "--dry-run", "--json")
    assert code == 0, err
    assert json.loads(out)["configurations"] == ["default", "other"]
    assert json.loads(out)["budget_s"] == 1800.0
    code, out, err = shell.run("capacity", "mine.yaml", "-s", "3", "--dry-run")
    assert code == ExitCode.BAD_INPUT
    assert "--scale is for a target, and mine.yaml describes its workloads" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "1m"), "ends before the first block"),
        (("--rate", "500"), "`--rate 500` has no share of the capacity, so none would be measured"),
    ],
)
def test_what_cannot_be_asked_is_refused(shell: Shell, words: tuple[str, ...], said: str) -> None:
    """With the value that is wrong, before anything is started."""
    code, _, err = shell.run("capacity", "embedded", *words, "--dry-run")
    assert code in (ExitCode.BAD_INPUT, ExitCode.REFUSED)
    assert said in err


def _with_rates(rates: str) -> None:
    """Write the usual file with rates of its own."""
    text = EXPERIMENT.replace("{clients: 1}", f"{{clients: 1, rate: {rates}}}")
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
    assert " at 30 % [" in out
    assert " at 50 % [" not in out
    out, err = _shares(shell, "--rate", "40%")
    assert " at 40 % [" in out
    assert " at 30 % [" not in out
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
            assert f" at {100.0 * share:g} % [" in out
