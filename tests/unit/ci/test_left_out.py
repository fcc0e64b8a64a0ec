"""What a bare machine leaves out is listed, and a machine without packages is told its way out."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / ".ci"
_FLOOR = "TESTS_ON_A_BARE_MACHINE = "


def judged(folder: Path, *lines: str, bare: bool = True) -> subprocess.CompletedProcess[str]:
    """Return what the list says of results, with a floor of two tests that pass."""
    for name in ("left_out.py", "left_out.toml", "house_figures.py"):
        shutil.copy(SCRIPTS / name, folder)
    figures = folder / "house_figures.py"
    texts = figures.read_text("utf-8").splitlines()
    low = [f"{_FLOOR}2" if line.startswith(_FLOOR) else line for line in texts]
    figures.write_text("\n".join(low), "utf-8")
    (folder / "results").write_text("\n".join(lines), "utf-8")
    words = [sys.executable, str(folder / "left_out.py"), str(folder / "results")]
    return subprocess.run(
        [*words, *(["--bare"] if bare else [])], capture_output=True, text=True, check=False
    )


PASSED = ("passed\ta.py::one", "passed\ta.py::two")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (
            (*PASSED, "left out\ta.py::three\tnobody knows why"),
            "the reason is not listed: nobody knows why",
        ),
        (
            (*PASSED, *(f"left out\t{n}\tgroff is not installed" for n in "ab")),
            "more than the 1 listed need groff: 2",
        ),
        ((PASSED[0], PASSED[0]), "fewer tests passed than 2: 1"),
    ],
)
def test_a_bare_machine_leaves_out_no_more_than_is_listed(
    tmp_path: Path, lines: tuple[str, ...], problem: str
) -> None:
    """A reason that is not listed, more tests than listed, or fewer that passed is a failure."""
    done = judged(tmp_path, *lines)
    assert (done.returncode, problem in done.stderr) == (1, True)
    assert judged(tmp_path, *lines, bare=False).returncode == 0


def test_what_is_left_out_is_told_with_its_way_out(tmp_path: Path) -> None:
    """Each part stands with its number and the command that installs it."""
    line = "left out\ta.py::three\tgroff is not installed"
    done = judged(tmp_path, *PASSED, line, line)
    assert done.returncode == 0
    assert done.stdout == (
        "== 2 tests passed, 1 were left out\n==   1 for want of groff: apt-get install groff-base\n"
    )


def test_a_system_without_packages_of_redis_is_set_up_without_them(tmp_path: Path) -> None:
    """The set-up goes on, and says what the tests leave out."""
    for name in ("bash", "env", "mktemp", "rm", "dirname"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    done = subprocess.run(
        [str(SCRIPTS / "redis-programs"), str(tmp_path)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "this system has no apt-get" in done.stderr
    assert "Install redis-server and redis-benchmark" in done.stderr
