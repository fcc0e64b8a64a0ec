"""``run article:NAME``: what runs here, what stands in, what is told, and going on."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from steelyard.campaign.file.files import Study, bundle_names, load_bundle, preset_names
from steelyard.cli import launching
from steelyard.cli.main import cli
from steelyard.core.wording import InputError, PreflightError, PrivilegeError
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
@pytest.mark.parametrize("name", bundle_names())
def test_a_dry_run_says_of_every_study_what_becomes_of_it(name: str) -> None:
    """It runs, or something stands in, or there is a reason; minutes and disk where it runs."""
    done = invoked("run", f"article:{name}", "--dry-run", "--json")
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
    done = invoked("run", "article:003", "--override", "load.clients=1", "--width", "1%")
    assert "--override, --width" in refused(done)
    assert "--json" in refused(invoked("run", "article:003", "--json"))
    assert "article" in refused(invoked("run", "article:3", "--dry-run"))


class _Started:
    """Stands for starting and resuming campaigns: records are copies of kept ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: str = "") -> None:
        self.begun: list[str] = []
        self.resumed: list[str] = []
        self._fails = fails
        monkeypatch.setattr(launching, "start", self._start)
        monkeypatch.setattr(launching, "resume", self._resume)
        monkeypatch.setattr(launching, "_checked", self._checked)

    def _checked(self, study: Study, preset: str, *_: object) -> launching.Looked:
        if preset == "published-storage":
            raise PreflightError("there is no cluster", hint="None is needed here.")
        return launching.Looked(study=study, preset=preset, most_s=60.0, disk_bytes=1 << 20)

    def _start(
        self, _loaded: object, _command: str, options: launching.RunOptions, *_: object
    ) -> None:
        assert options.out is not None
        if options.out.name == self._fails:
            raise PreflightError("the disk is full", hint="Make room.")
        self.begun.append(options.out.name)
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


def test_where_nothing_runs_the_reasons_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written, and it is an error; a dry run is none."""

    def refuse(*_: object) -> launching.Looked:
        raise PreflightError("this account may not", hint="Ask root.")

    monkeypatch.setattr(launching, "_checked", refuse)
    done = invoked("run", "article:002", "--dir", "out")
    assert "article:002" in refused(done)
    assert "this account may not" in " ".join(done.output.split())
    assert not Path("out").exists()
    assert invoked("run", "article:002", "--dry-run").exit_code == 0
