"""``steelyard inspect``: what it looks at, what it prints, what it is worth to a script."""

import json
from pathlib import Path

import pytest
from command_line import Shell

from fakes.facts import FakeStack
from steelyard.cli import inspect
from steelyard.core.findings import Severity, State
from steelyard.core.stack import JudgedRule, StackFacts
from steelyard.core.wording import ExitCode
from steelyard.tuning.facts.collecting import Asked, collect
from steelyard.tuning.facts.file import read_facts
from steelyard.tuning.rules import catalogue as judging
from support.recorded_host import RECORDINGS
from support.recorded_stacks import PUBLISHED, RECOMMENDED, published

LIBVIRT = RECORDINGS.parent / "libvirt"


def violated(severity: Severity) -> tuple[JudgedRule, ...]:
    """Return one violated rule."""
    return (
        JudgedRule(
            code="X1",
            layers=("linux",),
            severity=severity,
            title="it holds",
            state=State.VIOLATED,
            messages=("it does not",),
        ),
    )


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> FakeStack:
    """Return a stack that the verb looks at instead of this machine."""
    stack = FakeStack()

    def collected(asked: Asked) -> StackFacts:
        return collect(asked, stack.doors())

    monkeypatch.setattr(inspect, "collected", collected)
    return stack


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [
        (Severity.ERROR, "error", ExitCode.GATE),
        (Severity.WARNING, "error", ExitCode.DONE),
        (Severity.WARNING, "warning", ExitCode.GATE),
        (Severity.INFO, "warning", ExitCode.DONE),
        (Severity.ERROR, "never", ExitCode.DONE),
    ],
)
def test_the_exit_code_is_a_gate(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, severity: Severity, fail_on: str, code: ExitCode
) -> None:
    """10 from the severity on that was named, by default an error; 0 below it."""
    monkeypatch.setattr(judging, "judge", lambda _: violated(severity))
    default = () if fail_on == "error" else ("--fail-on", fail_on)
    ended, out, _ = shell.run("inspect", "--from", str(PUBLISHED), *default)
    assert ended == code
    assert "X1: it does not\n  Expected: it holds" in out


def test_saved_facts_are_judged_elsewhere_as_they_were_here(shell: Shell, stack: FakeStack) -> None:
    """What is saved and judged again gives the same facts, rules and exit code."""
    code, out, _ = shell.run(
        "inspect", "--json", "--save", "facts.yaml", "--dsn", "postgresql:///x?host=/x"
    )
    here = json.loads(out)
    assert here["facts"]["postgres"]["version"] == 18
    again, out, _ = shell.run("inspect", "--json", "--from", "facts.yaml")
    assert (again, json.loads(out)) == (code, here)


def test_facts_for_programs_are_a_facts_file(shell: Shell) -> None:
    """The part `facts` of the JSON can be saved and read as such a file."""
    _, out, _ = shell.run("inspect", "--json", "--from", str(RECOMMENDED))
    Path("facts.json").write_text(json.dumps(json.loads(out)["facts"]))
    assert read_facts(Path("facts.json")) == read_facts(RECOMMENDED)
    assert json.loads(out)["format"] == 1


def test_a_hypervisors_file_is_put_below_the_machine(shell: Shell, stack: FakeStack) -> None:
    """Rules that join hypervisor and guest need both, and each is seen from its own place."""
    _, out, _ = shell.run("inspect", "--json", "--host-facts", str(PUBLISHED))
    facts = json.loads(out)["facts"]
    assert facts["domains"][0]["name"] == "published"
    assert len(facts["hypervisor"]["cpus"]) == 32
    assert len(facts["linux"]["cpus"]) == 8


def test_the_terminal_shows_facts_and_findings(shell: Shell) -> None:
    """Problems and counts; with --facts the facts and their sources, assumed ones marked."""
    _, out, _ = shell.run("inspect", "--from", str(PUBLISHED))
    assert "seen from" in out
    assert "Problems" in out
    assert "were skipped: " in out
    assert "16 cores of 2 threads" not in out
    _, out, _ = shell.run("inspect", "--facts", "--from", str(PUBLISHED))
    assert "16 cores of 2 threads" in out
    assert "assumed" in out
    assert published().linux is not None


def test_the_xml_that_was_asked_for_is_compared(
    shell: Shell, stack: FakeStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what libvirt keeps of it here; a facts file is judged with the XML alone."""
    kept = (LIBVIRT / "misplaced-balloon.dumpxml.xml").read_text(encoding="utf-8")
    monkeypatch.setattr(inspect, "defined_domain", lambda _: kept)
    assert stack.host is not None
    asked = ("--domain-xml", str(LIBVIRT / "misplaced-balloon.xml"))
    code, out, _ = shell.run("inspect", "--no-ping-pong", "--facts", *asked)
    assert code == ExitCode.GATE
    assert "[ERROR] KVM001" in out
    assert "compared with virsh dumpxml --inactive" in out
    _, out, _ = shell.run("inspect", "--from", str(RECOMMENDED), *asked)
    assert "belongs in <devices>" in out


def test_an_xml_that_is_not_there_is_said(shell: Shell) -> None:
    """It ends with exit code 2 and a way out."""
    words = ("--domain-xml", "absent.xml", "--from", str(RECOMMENDED))
    code, _, err = shell.run("inspect", *words)
    assert code == ExitCode.BAD_INPUT
    assert "absent.xml is not there" in err
    assert "hint:" in err


def test_a_place_to_save_is_checked_before_anything_is_looked_at(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Proves that nothing is collected where the facts could not be kept, and why is told."""

    def collected(asked: Asked) -> StackFacts:
        raise AssertionError(asked)

    monkeypatch.setattr(inspect, "collected", collected)
    missing = tmp_path / "missing"
    for place, told in (
        (missing / "x.yaml", f"there is no directory {missing}"),
        (tmp_path, f"{tmp_path} is a directory"),
    ):
        code, _, err = shell.run("inspect", "--save", str(place))
        assert code == ExitCode.BAD_INPUT
        assert told in " ".join(err.split())
        assert "hint:" in err
