"""``steelyard redis split``: what it prints, writes and refuses."""

import json
from pathlib import Path

from command_line import Shell

from steelyard.core.wording import ExitCode

ASKED = ("redis", "split", "--memory", "2GiB")


def test_it_prints_memory_settings_risks_and_the_way_to_start(shell: Shell) -> None:
    """Each setting with reason and source, each death with what is gone."""
    code, out, _ = shell.run(*ASKED)
    assert code == 0
    words = " ".join(out.split())
    for text in (
        "A plan for split persistence of Redis",
        "= maxmemory 1,228",
        "min-replicas-max-lag 10",
        "both lose their power: what the replica had not flushed",
        "the primary is started empty past start.sh: everything",
        "sh start.sh primary: asks the replica first",
        "Not written; --out DIR writes them:",
    ):
        assert text in words, text


def test_it_writes_a_plan_that_programs_read(shell: Shell, tmp_path: Path) -> None:
    """With --out plan.json and the files are there; --json prints the same plan."""
    place = tmp_path / "pair"
    code, out, _ = shell.run(*ASKED, "--replica", "[::1]:6390", "--out", str(place), "--json")
    assert code == 0
    assert (place / "plan.json").read_text("utf-8") == out
    plan = json.loads(out)
    assert plan["design"]["request"]["replica"] | {"directory": ""} == {
        "host": "::1",
        "port": 6390,
        "directory": "",
    }
    assert len(plan["files"]) == 4
    for file in plan["files"]:
        assert (place / "files" / file["name"]).read_text("utf-8") == file["content"]


def test_a_directory_of_others_is_left_alone(shell: Shell, tmp_path: Path) -> None:
    """What is not a plan's directory is not written to."""
    (tmp_path / "diary.txt").write_text("mine")
    code, _, err = shell.run(*ASKED, "--out", str(tmp_path))
    assert code == ExitCode.BAD_INPUT
    assert "has other files in it" in err
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


def test_what_cannot_be_is_refused(shell: Shell) -> None:
    """A wrong port is bad input; a volume that fills up is refused before the start."""
    code, _, err = shell.run(*ASKED, "--primary", "redis:port")
    assert (code, "write HOST or HOST:PORT" in err) == (ExitCode.BAD_INPUT, True)
    code, _, err = shell.run(*ASKED, "--storage", "1GiB")
    assert (code, "Ask for 5.0 GiB" in err) == (ExitCode.REFUSED, True)
