"""``stack apply``, ``verify`` and ``revert`` on files of a directory: exit codes and words."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from command_line import Shell

from fakes.clock import FakeClock
from fakes.kernel import PAGE_BYTES, FakeKernel
from fakes.settings import FakeSettings
from steelyard.cli.stack.applying import ApplyOptions, RevertOptions, apply, revert, verify
from steelyard.core.stack import UNIT_PATH, Knob, KnobKind
from steelyard.core.wording import InputError, Interrupted, PreflightError
from steelyard.gateways.doors import Doors
from steelyard.record.journal import KnobKept, encode, read_lines
from steelyard.tuning.apply.applier import UnprivilegedError
from steelyard.tuning.plan.designing import _enabling
from support.stack import OWN_CHECK, knob, stack_plan, write_plan


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a directory that a plan places files in."""
    path = tmp_path / "etc"
    path.mkdir()
    (path / "old.conf").write_text("old\n")
    return path


def _knobs(place: Path) -> tuple[Knob, Knob]:
    old = knob(KnobKind.FILE, str(place / "old.conf"), "new\n")
    return old, knob(KnobKind.FILE, str(place / "made/new.conf"), "new\n", after=(old.name,))


def _files(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text() for p in place.rglob("*") if p.is_file()}


def test_a_plan_is_applied_verified_and_reverted(shell: Shell, place: Path) -> None:
    """Proves the whole way: in effect, verified, restored, and verified not to be in effect."""
    write_plan(Path("p"), stack_plan(*_knobs(place)))
    code, out, _ = shell.run("stack", "apply", "p", "--yes")
    assert code == 0
    assert "In effect." in out
    assert _files(place) == {"old.conf": "new\n", "made/new.conf": "new\n"}
    code, out, _ = shell.run("stack", "verify", "p", "--json")
    assert code == 0
    assert [each["in_effect"] for each in json.loads(out)["knobs"]] == [True, True]
    code, out, _ = shell.run("stack", "revert", "p", "--yes")
    assert code == 0
    assert "Everything is as it was." in out
    assert _files(place) == {"old.conf": "old\n"}
    assert not (place / "made").exists()
    code, out, _ = shell.run("stack", "verify", "p")
    assert code == 10
    assert out.startswith("[NOT IN EFFECT]")
    assert out.endswith("2 settings of the plan: 2 not in effect, 0 not visible, 0 ok.\n")
    assert shell.run("stack", "revert", "p")[:2] == (0, "Nothing is applied from p.\n")


def test_a_changed_plan_does_not_change_the_revert(shell: Shell, place: Path) -> None:
    """Proves that the record has its own copy: an edited or deleted plan.json harms nothing."""
    write_plan(Path("p"), stack_plan(*_knobs(place)))
    shell.run("stack", "apply", "p", "--yes")
    other = knob(KnobKind.FILE, str(place / "other.conf"), "other\n")
    write_plan(Path("p"), stack_plan(other))
    code, _, err = shell.run("stack", "apply", "p", "--yes")
    assert code == 3
    assert "Revert it first" in err
    Path("p/plan.json").unlink()
    assert shell.run("stack", "revert", "p", "--yes")[0] == 0
    assert _files(place) == {"old.conf": "old\n"}


def test_a_revert_does_not_trust_a_record_of_others(
    shell: Shell, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves that values of a foreign or edited record are shown, and put back by --adopt only."""
    write_plan(Path("p"), stack_plan(*_knobs(place)))
    shell.run("stack", "apply", "p", "--yes")
    record = Path("p/applied.jsonl")
    lines, _ = read_lines(record)
    edited = [
        replace(line, entry=replace(entry, snapshot=entry.snapshot.replace("b2xk", "ZXZpbA")))
        if isinstance(entry := line.entry, KnobKept)
        else line
        for line in lines
    ]
    assert edited != list(lines)
    genuine = record.read_bytes()
    record.write_bytes(b"".join(map(encode, edited)))
    code, out, err = shell.run("stack", "revert", "p", "--yes")
    assert code == 3
    assert "ZXZpbA" in out
    assert "was not written by this account" in err
    record.write_bytes(genuine)
    digests = tmp_path / "cache" / "applied.jsonl"
    digests.chmod(0o666)
    for verb in (["apply", "--dry-run"], ["verify"], ["revert", "--yes"]):
        code, _, err = shell.run("stack", *verb, "p")
        assert (code, "other accounts may write" in err) == (3, True)
    digests.chmod(0o644)
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "another"))
    assert shell.run("stack", "revert", "p", "--yes")[0] == 3
    for verb in (["apply", "--dry-run"], ["apply", "--yes"], ["verify"]):
        code, _, err = shell.run("stack", *verb, "p")
        assert (code, "was not written by this account" in err) == (3, True)
    assert _files(place) == {"old.conf": "new\n", "made/new.conf": "new\n"}
    assert shell.run("stack", "revert", "p", "--yes", "--adopt")[0] == 0
    assert _files(place) == {"old.conf": "old\n"}


def test_settings_without_a_server_are_bad_input(shell: Shell) -> None:
    """Proves that the way out names --dsn, and that --only leaves the settings out."""
    setting = knob(KnobKind.POSTGRES, "work_mem", "8MB")
    write_plan(Path("p"), stack_plan(setting))
    code, _, err = shell.run("stack", "apply", "p", "--yes")
    assert code == 2
    assert "--dsn" in err
    code, out, _ = shell.run("stack", "verify", "p")
    assert code == 0
    assert "[NOT VISIBLE]" in out


_ON_PLANS = ("verify", "verify --json", "apply --dry-run", "apply", "apply --yes", "revert --yes")


@pytest.fixture
def processes() -> Iterator[list[str]]:
    """Return the command lines of the processes that this one starts from now on."""
    started: list[str] = []
    is_open = [True]

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if is_open and event == "subprocess.Popen":
            started.append(" ".join(map(str, arguments[1])))

    sys.addaudithook(note)  # it cannot be taken away
    yield started
    is_open.clear()


def _ways(value: object) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to each text of a JSON document."""
    if isinstance(value, str):
        yield ()
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from ((key, *way) for way in _ways(inner))


@pytest.mark.parametrize("before", ["", f"{OWN_CHECK}; "])
def test_no_verb_runs_a_command_that_a_plan_brings(
    shell: Shell, place: Path, tmp_path: Path, processes: list[str], before: str
) -> None:
    """Proves it for every text of a plan; a check that Steelyard writes itself is run."""
    steps = (*_knobs(place), knob(KnobKind.MANUAL, "take it away", OWN_CHECK))
    write_plan(Path("p"), stack_plan(*steps))
    shell.run("stack", "verify", "p")
    assert [line for line in processes if OWN_CHECK in line]
    whole, mark = Path("p/plan.json").read_text(), tmp_path / "mark"
    for way in _ways(json.loads(whole)):
        document = inner = json.loads(whole)
        for key in way[:-1]:
            inner = inner[key]
        inner[way[-1]] = f"{before}touch {mark}\n"
        Path("p/plan.json").write_text(json.dumps(document))
        processes.clear()
        for verb in _ON_PLANS:
            shell.run("stack", *verb.split(), "p")
            assert not mark.exists(), (way, verb)
            assert not [line for line in processes if str(mark) in line], (way, verb)


def test_a_check_that_steelyard_would_not_write_is_shown(shell: Shell, tmp_path: Path) -> None:
    """Proves that the step stays the operator's word, before and after the question."""
    check = f"touch {tmp_path / 'made'}"
    write_plan(Path("p"), stack_plan(knob(KnobKind.MANUAL, "restart", check)))
    for verb, code in (("verify", 0), ("apply --dry-run", 0), ("apply --yes", 10)):
        left, out, _ = shell.run("stack", *verb.split(), "p")
        assert (left, check in out) == (code, True), verb
    assert not (tmp_path / "made").exists()


def test_a_dry_run_needs_no_server(shell: Shell, place: Path) -> None:
    """Proves that settings are shown with their statements, and that nothing is changed."""
    setting = knob(KnobKind.POSTGRES, "work_mem", "8MB")
    write_plan(Path("p"), stack_plan(*_knobs(place), setting))
    code, out, err = shell.run("stack", "apply", "p", "--dry-run")
    assert (code, err) == (0, "")
    assert f"{setting.name}: not looked at -> 8MB" in out
    assert "    ALTER SYSTEM SET \"work_mem\" = '8MB';" in out
    assert out.count("no server is named") == 1
    assert "--dsn" in out
    assert "printf %s" in out
    assert _files(place) == {"old.conf": "old\n"}
    assert [path.name for path in Path("p").iterdir()] == ["plan.json"]


def test_a_wrong_dsn_is_told_before_anything_is_turned(
    shell: Shell, place: Path, tmp_path: Path
) -> None:
    """Proves exit code 4 for a server that is not there, 2 for a password, and nothing changed."""
    write_plan(Path("p"), stack_plan(*_knobs(place), knob(KnobKind.POSTGRES, "work_mem", "8MB")))
    nowhere = f"postgresql://nobody@/postgres?host={tmp_path}&port=1"
    assert shell.run("stack", "apply", "p", "--yes", "--dsn", nowhere)[0] == 4
    secret = "postgresql://me:secret@localhost/postgres"
    assert shell.run("stack", "apply", "p", "--yes", "--dsn", secret)[0] == 2
    assert _files(place) == {"old.conf": "old\n"}
    assert not Path("p/applied.jsonl").exists()


def test_a_damaged_plan_and_record_are_told(shell: Shell, place: Path) -> None:
    """Proves exit code 2 for no plan or a broken one, and 6 for a record that lies."""
    assert shell.run("stack", "apply", "nowhere", "--yes")[0] == 2
    Path("p").mkdir()
    Path("p/plan.json").write_text("{}")
    assert shell.run("stack", "verify", "p")[0] == 2
    write_plan(Path("p"), stack_plan(*_knobs(place)))
    shell.run("stack", "apply", "p", "--yes")
    record = Path("p/applied.jsonl")
    record.write_text(record.read_text().replace("old.conf", "0ld.conf"))
    assert shell.run("stack", "revert", "p", "--yes")[0] == 6
    assert _files(place)["old.conf"] == "new\n"


def test_without_the_privilege_the_commands_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves exit code 8, the commands on standard output, and that nothing is begun."""
    pool = knob(KnobKind.HUGE_PAGES, f"0/{PAGE_BYTES}", "5")
    write_plan(tmp_path, stack_plan(knob(KnobKind.SYSCTL, "vm.swappiness", "7"), pool))
    kernel = FakeKernel(files={"/proc/sys/vm/swappiness": "60\n"}).with_pools({0: 0}, fits=9)
    kernel.closed = {"/": "this account may not write it"}
    options = ApplyOptions(directory=tmp_path, layers=(), dsn=None, yes=True)
    with pytest.raises(UnprivilegedError) as error:
        apply(options, Doors(host=kernel, kernel=kernel))
    assert error.value.exit_code == 8
    assert "Nothing was changed" in error.value.hint
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sysctl -w vm.swappiness=7"
    assert lines[1].startswith("echo 5 > /sys/devices/system/node/node0/hugepages/")
    assert not (tmp_path / "applied.jsonl").exists()


def test_a_record_of_another_machine_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves that a directory that was copied puts nothing back where nothing was changed."""
    write_plan(tmp_path, stack_plan(knob(KnobKind.SYSCTL, "vm.swappiness", "7")))
    kernel = FakeKernel(files={"/proc/sys/vm/swappiness": "60\n", "/etc/machine-id": "one\n"})
    outside = Doors(host=kernel, kernel=kernel)
    options = ApplyOptions(directory=tmp_path, layers=(), dsn=None, yes=True)
    apply(options, outside)
    kernel.files["/etc/machine-id"] = "two\n"
    with pytest.raises(PreflightError, match="another machine"):
        revert(RevertOptions(directory=tmp_path, yes=True), outside)
    kernel.files["/etc/machine-id"] = "one\n"
    revert(RevertOptions(directory=tmp_path, yes=True), outside)
    assert kernel.files["/proc/sys/vm/swappiness"] == "60\n"
    assert "as it was" in capsys.readouterr().out


def _code(options: ApplyOptions, outside: Doors) -> int:
    """Return the exit code of an application that leaves with one."""
    with pytest.raises(click.exceptions.Exit) as left:
        apply(options, outside)
    return left.value.exit_code


def _server_outside() -> Doors:
    return Doors(host=FakeKernel(), kernel=FakeKernel(), sql=FakeSettings(), clock=FakeClock())


_URI = "postgresql://me@/postgres?host=/fake"


@pytest.mark.parametrize(
    ("field", "first", "second", "words"),
    [("identifier", "7001", "7002", "other data"), ("place", "/data@1", "/data@2", "standby")],
)
def test_another_server_in_the_place_of_the_first_is_refused(
    tmp_path: Path, field: str, first: str, second: str, words: str
) -> None:
    """Proves that no settings of other data are reverted, nor those of equal data elsewhere."""
    setting = replace(knob(KnobKind.POSTGRES, "work_mem", "8MB"), layer="postgres")
    write_plan(tmp_path, stack_plan(setting))
    outside = _server_outside()
    server = outside.sql
    assert isinstance(server, FakeSettings)
    setattr(server, field, first)
    apply(ApplyOptions(directory=tmp_path, layers=(), dsn=_URI, yes=True), outside)
    assert server.file == {"work_mem": "8MB"}
    setattr(server, field, second)
    with pytest.raises(PreflightError, match=words):
        revert(RevertOptions(directory=tmp_path, yes=True), outside)
    setattr(server, field, first)
    revert(RevertOptions(directory=tmp_path, yes=True), outside)
    assert server.file == {}


def test_huge_pages_of_an_unseen_server_need_a_word(tmp_path: Path) -> None:
    """Proves that --remote reaches the check, and is refused beside knobs of that machine."""
    pages = replace(knob(KnobKind.POSTGRES, "huge_pages", "on"), layer="postgres")
    swap = knob(KnobKind.SYSCTL, "vm.swappiness", "7")
    write_plan(tmp_path, stack_plan(pages, swap))
    outside = _server_outside()
    options = ApplyOptions(directory=tmp_path, layers=("postgres",), dsn=_URI, yes=True)
    with pytest.raises(PreflightError, match="not visible from here"):
        apply(options, outside)
    with pytest.raises(InputError, match="another machine"):
        apply(replace(options, layers=(), remote=True), outside)
    assert _code(replace(options, remote=True), outside) == 10  # it waits for a restart
    assert isinstance(outside.sql, FakeSettings)
    assert outside.sql.file == {"huge_pages": "on"}


def test_the_last_words_are_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves that objects are not called in effect, nor a setting restored before its restart."""
    rendered = knob(KnobKind.RENDERED, "kubernetes/cluster.yaml", "")
    write_plan(tmp_path / "r", stack_plan(rendered))
    outside = _server_outside()
    apply(ApplyOptions(directory=tmp_path / "r", layers=(), dsn=None, yes=True), outside)
    out = capsys.readouterr().out
    assert "In effect" not in out
    assert "1 object is yours to apply" in out
    buffers = replace(knob(KnobKind.POSTGRES, "shared_buffers", "1GB"), layer="postgres")
    write_plan(tmp_path / "b", stack_plan(buffers, rendered))
    options = ApplyOptions(directory=tmp_path / "b", layers=(), dsn=_URI, yes=True)
    assert isinstance(outside.sql, FakeSettings)
    assert _code(options, outside) == 10
    assert "1 knob not in effect" in capsys.readouterr().out
    outside.sql.restart()
    capsys.readouterr()
    apply(options, outside)
    assert "In effect" in capsys.readouterr().out
    revert(RevertOptions(directory=tmp_path / "b", yes=True), outside)
    out = capsys.readouterr().out
    assert "Everything is as it was." not in out
    assert "Everything is put back; 1 knob is not as before yet:\n    linux:shared_buffers\n" in out
    assert out.endswith("Not in effect before this is done: a restart of the server.\n")


def test_an_interruption_tells_both_ways_out(tmp_path: Path) -> None:
    """Proves that Ctrl-C between two knobs names how to go on and how to go back."""
    write_plan(tmp_path, stack_plan(knob(KnobKind.SYSCTL, "vm.swappiness", "7")))
    kernel = FakeKernel(files={"/proc/sys/vm/swappiness": "60\n"})

    def stop(_path: str) -> None:
        raise Interrupted("interrupted by SIGINT")

    kernel.before_write = stop
    outside = Doors(host=kernel, kernel=kernel)
    with pytest.raises(Interrupted, match="SIGINT, with the plan applied in part") as error:
        apply(ApplyOptions(directory=tmp_path, layers=(), dsn=None, yes=True), outside)
    assert f"stack apply {tmp_path}` goes on" in error.value.hint
    assert f"stack revert {tmp_path}` restores" in error.value.hint
    kernel.before_write = lambda _path: None
    apply(ApplyOptions(directory=tmp_path, layers=(), dsn=None, yes=True), outside)
    kernel.before_write = stop
    with pytest.raises(Interrupted) as error:
        revert(RevertOptions(directory=tmp_path, yes=True), outside)
    assert "stack revert" in error.value.hint


def test_somebody_elses_edit_is_told_by_the_command(shell: Shell, place: Path) -> None:
    """Proves exit code 7 and the two ways out on the command line."""
    write_plan(Path("p"), stack_plan(*_knobs(place)))
    shell.run("stack", "apply", "p", "--yes")
    (place / "old.conf").write_text("mine\n")
    code, _, err = shell.run("stack", "revert", "p", "--yes")
    assert code == 7
    assert "somebody has changed" in err
    assert _files(place) == {"old.conf": "mine\n"}
    code, out, _ = shell.run("stack", "revert", "p", "--yes", "--changed", "keep")
    assert code == 0
    assert "1 knob left as somebody has changed it." in out
    assert _files(place) == {"old.conf": "mine\n"}
    assert shell.run("stack", "revert", "p")[1] == "Nothing is applied from p.\n"


def test_a_second_application_turned_nothing(shell: Shell, place: Path) -> None:
    """Proves that what an earlier run turned is not told as turned by this one."""
    old, new = _knobs(place)
    write_plan(Path("p"), stack_plan(old, new))
    assert "2 knobs turned now.\n" in shell.run("stack", "apply", "p", "--yes")[1]
    (place / "old.conf").write_text("old\n")
    out = shell.run("stack", "apply", "p", "--yes")[1]
    assert f"{old.name}: turned" in out
    assert f"{new.name}: in effect already" in out
    assert "1 knob turned now, 1 in effect already.\n" in out


def test_without_a_terminal_nobody_is_asked(shell: Shell, place: Path) -> None:
    """Proves that a question without a terminal is refused with --yes as the way out."""
    write_plan(Path("p"), stack_plan(*_knobs(place)))
    for verb, content in (("apply", "old\n"), ("revert", "new\n")):
        code, _, err = shell.run("stack", verb, "p")
        assert code == 3
        assert "there is no terminal to ask at" in err
        assert "--yes" in err
        assert _files(place)["old.conf"] == content
        shell.run("stack", verb, "p", "--yes")


def test_an_open_step_without_a_terminal_is_pending(shell: Shell) -> None:
    """Proves that a step of the operator's is not asked for where nobody is, and is told by 10."""
    write_plan(Path("p"), stack_plan(knob(KnobKind.MANUAL, "Restart the kubelet", "")))
    code, out, err = shell.run("stack", "apply", "p")
    assert code == 10, err
    assert "1 pending" in out


def test_settings_are_left_out_on_each_machine(shell: Shell, place: Path) -> None:
    """Proves that the hint for a plan of two machines names the layers of both."""
    old, new = _knobs(place)
    setting = replace(knob(KnobKind.POSTGRES, "work_mem", "8MB"), layer="postgres")
    here = replace(new, after=())
    below = replace(old, layer="hypervisor")
    write_plan(Path("p"), stack_plan(below, here, setting))
    code, _, err = shell.run("stack", "apply", "p", "--yes")
    assert code == 2
    assert "--only hypervisor on the hypervisor, with --only linux in the virtual machine" in err
    write_plan(Path("p"), stack_plan(here, setting))
    assert "with --only linux.\n" in shell.run("stack", "apply", "p", "--yes")[2]


def test_all_that_is_left_is_listed(shell: Shell, place: Path) -> None:
    """Proves that a knob that waits for another is among those that were counted."""
    old, new = _knobs(place)
    write_plan(Path("p"), stack_plan(old, new))
    shell.run("stack", "apply", "p", "--yes")
    (place / "made/new.conf").write_text("mine\n")
    code, _, err = shell.run("stack", "revert", "p", "--yes")
    assert code == 7
    message, _, hint = err.partition("hint: ")
    assert message.startswith("error: 2 knobs could not be put back:\n")
    assert [line.split(": ")[0].strip() for line in message.splitlines()[1:]] == [
        new.name,
        old.name,
    ]
    assert hint.splitlines()[-1].strip() == "Then run `steelyard stack revert p` again."


@pytest.mark.parametrize(("runs", "code"), [(False, 0), (True, 10)])
def test_no_systemd_keeps_nothing_and_costs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, runs: bool, code: int
) -> None:
    """Proves that enabling counts where systemd runs, and is told to be impossible where not."""
    step = replace(_enabling("linux", UNIT_PATH), after=())
    swap = knob(KnobKind.SYSCTL, "vm.swappiness", "7")
    write_plan(tmp_path, stack_plan(swap, step))
    files = {"/proc/sys/vm/swappiness": "60\n"}
    kernel = FakeKernel(files=files | ({"/run/systemd/system/x": ""} if runs else {}))
    outside = Doors(host=kernel, kernel=kernel)
    options = ApplyOptions(directory=tmp_path, layers=(), dsn=None, yes=True)
    told = "Nothing is kept over a reboot here: no systemd runs."
    for done in (apply, lambda *each: verify(each[0], form="text", outside=each[1])):
        left = 0
        try:
            done(options, outside)
        except click.exceptions.Exit as error:
            left = error.exit_code
        assert left == code
        assert (told in capsys.readouterr().out) is not runs
