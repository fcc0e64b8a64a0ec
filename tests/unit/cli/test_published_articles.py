"""``run article:NAME``: what runs here, what stands in, what is told, and going on."""

import errno
import json
import re
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from steelyard.campaign.file.files import (
    LoadedExperiment,
    Study,
    bundle_names,
    load_bundle,
    preset_names,
)
from steelyard.campaign.file.shortening import NOTICE
from steelyard.cli import bundle, launching
from steelyard.cli.main import cli
from steelyard.core.experiment import Experiment  # noqa: TC001
from steelyard.core.wording import InputError, PreflightError, PrivilegeError, parse_duration_s
from steelyard.record.directory import has_begun
from support.examples import EXAMPLES


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Be in an empty directory, without a cluster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return tmp_path


def invoked(*arguments: str) -> Result:
    """Return what the command line did."""
    return CliRunner().invoke(cli, arguments, catch_exceptions=True)


def refused(done: Result) -> str:
    """Return the message of what was refused as wrong input."""
    assert isinstance(done.exception, InputError), done.output
    return done.exception.message


@pytest.mark.parametrize("name", bundle_names())
def test_every_article_names_presets_that_are_there(name: str) -> None:
    """Those of its studies and of what stands in; no two studies have one directory."""
    bundle = load_bundle(name)
    for study in bundle.studies:
        assert study.preset in preset_names()
        assert study.stand_in is None or study.stand_in.preset in preset_names()
    names = [study.name for study in bundle.studies]
    assert len(set(names)) == len(names)
    assert bundle.cited
    assert bundle.not_shown


def test_a_study_that_this_machine_cannot_run_is_told_before_it_begins(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage of its own needs root and programs of the system, for articles and studies."""
    monkeypatch.setattr("steelyard.gateways.stores._SYSTEM_PATH", str(nowhere))
    done = invoked("run", "article:002", "--dry-run", "--json")
    (study,) = json.loads(done.stdout)["studies"]
    assert re.search("there is no mkfs.xfs|only root can make", study["trouble"])
    alone = invoked("run", "preset:page-size", "--dry-run")
    assert isinstance(alone.exception, PreflightError | PrivilegeError)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--short", "--budget", "30m")])
@pytest.mark.parametrize("name", bundle_names())
def test_a_dry_run_says_of_every_study_what_becomes_of_it(
    name: str, options: tuple[str, ...]
) -> None:
    """It runs, or something stands in, or there is a reason; minutes and disk where it runs."""
    done = invoked("run", f"article:{name}", "--dry-run", "--json", *options)
    assert done.exit_code == 0, done.output
    for study in json.loads(done.stdout)["studies"]:
        assert (study["most_s"] is None) == (study["trouble"] is not None)
        assert (study["disk_bytes"] is None) == (study["trouble"] is not None)
        assert study["stands_in_for"] is None or study["why"]


def test_without_a_cluster_simulated_storage_stands_in_or_says_why_not() -> None:
    """As root the ladder; else the reasons of both."""
    done = invoked("run", "article:003", "--dry-run", "--json")
    storage = next(s for s in json.loads(done.stdout)["studies"] if s["name"] == "storage")
    assert "kubeconfig" in storage["why"]
    assert storage["preset"] == "storage-ladder"
    assert (storage["stands_in_for"] == "published-storage") != bool(storage["trouble"])


def test_what_is_for_one_campaign_is_refused() -> None:
    """With the options by name; so are unknown articles."""
    done = invoked("run", "article:003", "--target", "16", "--width", "1%")
    assert "--width, --target" in refused(done)
    assert "-o json" in refused(invoked("run", "article:003", "--json"))
    assert "--resume" in refused(invoked("run", "article:003", "--resume", "out"))
    assert "article" in refused(invoked("run", "article:3", "--dry-run"))


@pytest.mark.parametrize(
    ("budget", "told"), [("600", "`600` has no unit"), ("0s", "`0s` is too short")]
)
def test_a_budget_is_refused_as_of_one_campaign(budget: str, told: str) -> None:
    """Before it is divided, which would give its parts a unit and a second at least."""
    done = invoked("run", "article:003", "--dry-run", "--budget", budget)
    assert f"--budget: {told}" in refused(done)


class _Started:
    """Stands for starting and resuming campaigns: records are copies of kept ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: str = "") -> None:
        self.begun: list[str] = []
        self.resumed: list[str] = []
        self.experiments: list[Experiment] = []
        self._fails = fails
        monkeypatch.setattr(launching, "start", self._start)
        monkeypatch.setattr(launching, "resume", self._resume)
        monkeypatch.setattr(bundle, "_checked", self._checked)
        self.commands: list[str] = []

    def _checked(
        self, study: Study, preset: str, options: launching.RunOptions, *further: object
    ) -> bundle.Looked:
        """Have the matrix ask for twice as long as the storage, and need a minute at least."""
        if preset == "published-storage":
            raise PreflightError("there is no cluster", hint="None is needed here.")
        budget = further[1] if len(further) > 1 else None
        if budget is not None and parse_duration_s(str(budget)) < 60.0:
            raise PreflightError("the budget is too short", hint="Give it more.")
        return bundle.Looked(
            study=study,
            preset=preset,
            overrides=bundle._overrides(study, preset, options),
            needs_s=1200.0 if preset == "published-matrix" else 600.0,
            most_s=60.0,
            budget=None if budget is None else str(budget),
            disk_bytes=1 << 20,
        )

    def _start(
        self, loaded: LoadedExperiment, command: str, options: launching.RunOptions, *_: object
    ) -> None:
        assert options.out is not None
        if options.out.name == self._fails:
            raise PreflightError("the disk is full", hint="Make room.")
        self.begun.append(options.out.name)
        self.commands.append(command)
        self.experiments.append(loaded.experiment)
        kept = "published-matrix" if options.out.name == "matrix" else "quick"
        shutil.copytree(EXAMPLES / kept, options.out)

    def _resume(self, options: launching.RunOptions, given: tuple[str, ...]) -> None:
        assert options.resume is not None
        assert given == ()
        self.resumed.append(options.resume.name)


def test_studies_are_run_one_after_another_and_told_in_one_text(
    monkeypatch: pytest.MonkeyPatch, nowhere: Path
) -> None:
    """The stand-in has a directory, a note and a sentence of its own."""
    started = _Started(monkeypatch)
    done = invoked("run", "article:003", "--dir", "out", "--no-verdict")
    assert done.exit_code == 0, done.output
    assert started.begun == ["matrix", "storage-stand-in"]
    told = (nowhere / "out/article/article.md").read_text()
    assert "storage-stand-in: A stand-in: simulated storage" in told
    assert "published-storage was not run here: there is no cluster" in told
    content = json.loads((nowhere / "out/article/article.json").read_text())
    assert [each["label"] for each in content["campaigns"]] == ["matrix", "storage-stand-in"]
    assert any("RDS and Aurora" in each for each in content["not_shown"])


@pytest.mark.slow
def test_the_same_command_goes_on(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    """What is finished stays; what was ended in the middle is resumed."""
    started = _Started(monkeypatch)
    assert invoked("run", "article:003", "--dir", "out", "--no-verdict").exit_code == 0
    journal = nowhere / "out/storage-stand-in/journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))
    assert invoked("run", "article:003", "--dir", "out", "--no-verdict").exit_code == 0
    assert started.begun == ["matrix", "storage-stand-in"]
    assert started.resumed == ["storage-stand-in"]


def test_a_study_that_fails_does_not_stop_the_next(
    monkeypatch: pytest.MonkeyPatch, nowhere: Path
) -> None:
    """The text is of what there is, says what is missing, and the exit code says so."""
    _Started(monkeypatch, fails="matrix")
    done = invoked("run", "article:003", "--dir", "out", "--no-verdict")
    assert done.exit_code == PreflightError.exit_code
    assert not has_begun(nowhere / "out/matrix")
    assert (
        "matrix: not finished: the disk is full" in (nowhere / "out/article/article.md").read_text()
    )


def test_an_article_goes_on_where_nobody_reads_what_it_tells(
    monkeypatch: pytest.MonkeyPatch, nowhere: Path
) -> None:
    """As one campaign does: hours of the others are not lost with the reader."""
    started, echo = _Started(monkeypatch), click.echo

    def gone(text: str = "", *, err: bool = False, **more: bool) -> None:
        if err:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        echo(text, **more)

    monkeypatch.setattr(click, "echo", gone)
    assert invoked("run", "article:003", "--dir", "out", "--no-verdict").exit_code == 0
    assert started.begun == ["matrix", "storage-stand-in"]
    assert (nowhere / "out/article/article.md").is_file()


def test_where_nothing_runs_the_reasons_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written, and it is an error; a dry run is none."""

    def refuse(*_: object) -> bundle.Looked:
        raise PreflightError("this account may not", hint="Ask root.")

    monkeypatch.setattr(bundle, "_checked", refuse)
    done = invoked("run", "article:002", "--dir", "out")
    assert "article:002" in refused(done)
    assert "this account may not" in " ".join(done.output.split())
    assert not Path("out").exists()
    assert invoked("run", "article:002", "--dry-run").exit_code == 0


def test_an_override_is_for_the_studies_whose_file_has_its_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or for the one that it names, also where its file lacks the path; the plan says where."""
    started = _Started(monkeypatch)
    own = (
        "--override",
        "workloads.select-only.scale=2",
        "--override",
        "storage:measure.discard_start=1s",
    )
    arguments = ("run", "article:003", "--override", "load.clients=8", *own)
    plan = " ".join(invoked(*arguments, "--dry-run").stdout.split())
    assert "load.clients=8 in matrix, storage" in plan
    assert "workloads.select-only.scale=2 in matrix; not in storage" in plan
    assert invoked(*arguments, "--dir", "out").exit_code == 0
    matrix, storage = started.experiments
    assert {load.clients for load in (*matrix.loads, *storage.loads)} == {8}
    assert [work.scale for work in matrix.workloads] == [2, 100, 100]
    assert "'storage:" not in started.commands[1]
    assert "--override measure.discard_start=1s" in started.commands[1]
    told = Path("out/article/article.md").read_text()
    assert "Changed: load.clients=8, workloads.select-only" in told


def test_an_override_that_is_for_no_study_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the studies; so is a value that none can take, which is no reason for a stand-in."""
    done = invoked("run", "article:003", "--override", "workloads.get.keys=1", "--dry-run")
    assert "The studies are matrix (published-matrix), storage (" in refused(done)
    assert "storage (storage-ladder)" in refused(done)
    done = invoked("run", "article:003", "--override", "load.clients=none", "--dry-run")
    assert "load.clients" in refused(done)


def test_a_budget_is_divided_by_what_the_studies_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study whose part is too short is told, and the others are run."""
    started = _Started(monkeypatch)
    assert invoked("run", "article:003", "--budget", "9m", "--dir", "out").exit_code == 0
    assert [each.stop.budget_s for each in started.experiments] == [360.0, 180.0]
    plan = json.loads(invoked("run", "article:003", "--budget", "2m", "--dry-run", "--json").stdout)
    matrix, storage = plan["studies"]
    assert matrix["trouble"] is None
    assert "its part of 2m is 40 s: the budget is too short" in storage["trouble"]


@pytest.mark.parametrize("name", ["quick", "volume-burst"])
def test_a_shortened_run_says_so(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """In the plan, whatever rights and programs a preset needs for its run."""
    monkeypatch.setattr(launching, "_require_machine", lambda *_: None)
    monkeypatch.setattr(launching.session, "check", lambda *_: ())
    done = invoked("run", f"preset:{name}", "--short", "--dry-run")
    assert "(shortened)" in done.stdout.partition("\n")[0]
    assert NOTICE in done.stdout


def test_a_shortened_article_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the plan, in each record and its command, and in the text."""
    started = _Started(monkeypatch)
    done = invoked("run", "article:003", "--short", "--dir", "out")
    assert done.exit_code == 0, done.output
    assert "(shortened)" in done.stdout.partition("\n")[0]
    assert NOTICE in " ".join(done.stdout.split())
    for experiment, command in zip(started.experiments, started.commands, strict=True):
        assert experiment.name.endswith("(shortened)")
        assert experiment.description.startswith(NOTICE)
        assert command.endswith("--short")
    told = Path("out/article/article.md").read_text()
    assert told.startswith(f"# {load_bundle('003').title} (shortened)")
    assert f"matrix: {NOTICE}" in told


@pytest.mark.slow
def test_an_article_goes_on_with_what_it_was_begun_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies that begin later are changed alike; other options are refused, with the first."""
    started = _Started(monkeypatch, fails="storage-stand-in")
    begun = ("run", "article:003", "--dir", "out", "--short", "--override", "load.clients=8")
    assert invoked(*begun).exit_code == PreflightError.exit_code
    done = invoked("run", "article:003", "--dir", "out", "--budget", "20m")
    assert "was begun with `--override load.clients=8 --short`" in refused(done)
    started = _Started(monkeypatch)
    assert invoked("run", "article:003", "--dir", "out").exit_code == 0
    assert started.begun == ["storage-stand-in"]
    (storage,) = started.experiments
    assert storage.name.endswith("(shortened)")
    assert {load.clients for load in storage.loads} == {8}
