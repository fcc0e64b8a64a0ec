"""Files for a machine: the huge-page unit really run on made trees, sysctls, the tuned profile."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from fakes import stack_designs
from steelyard.core.stack import UNIT_PATH, PoolDesign
from steelyard.core.wording import GIB, MIB
from steelyard.tuning.files.files import (
    huge_page_unit,
    machine_files,
    pool_path,
)
from support.lacking import lacking

POOLS = (
    PoolDesign(page_bytes=2 * MIB, pages=3328, node=1),
    PoolDesign(page_bytes=GIB, pages=4),
)


def a_tree(folder: Path, present: int) -> Path:
    """Return a folder with the files of the pools as the kernel has them, each with some pages."""
    for pool in POOLS:
        path = folder / pool_path(pool).lstrip("/")
        path.parent.mkdir(parents=True)
        path.write_text(f"{present}\n", encoding="utf-8")
    compact = folder / "proc/sys/vm/compact_memory"
    compact.parent.mkdir(parents=True)
    compact.touch()
    return folder


def run(unit: str, key: str, tree: Path) -> list[subprocess.CompletedProcess[str]]:
    """Run the commands of a unit as systemd would, with a tree in place of /sys and /proc."""
    done = []
    for command in re.findall(rf"^{key}=/bin/sh -ec '(.*)'$", unit, re.MULTILINE):
        script = command.replace("$$", "$")
        script = re.sub(r"/(sys/[a-z]+/|proc/)", rf"{tree}/\1", script)
        done.append(
            subprocess.run(["/bin/sh", "-ec", script], capture_output=True, text=True, check=False)
        )
    assert len(done) == len(POOLS)
    return done


def pages(tree: Path) -> list[int]:
    """Return how many pages each pool of a tree has."""
    return [int((tree / pool_path(pool).lstrip("/")).read_text()) for pool in POOLS]


def test_the_unit_allocates_and_is_content(tmp_path: Path) -> None:
    """Each pool gets its pages after memory was compacted, and reading back finds them."""
    unit, tree = huge_page_unit(POOLS), a_tree(tmp_path, 0)

    assert [each.returncode for each in run(unit, "ExecStart", tree)] == [0, 0]
    assert pages(tree) == [3328, 4]
    assert (tree / "proc/sys/vm/compact_memory").read_text() == "1\n"
    assert [each.returncode for each in run(unit, "ExecStartPost", tree)] == [0, 0]


def test_the_unit_fails_when_the_kernel_gave_fewer(tmp_path: Path) -> None:
    """With 82 pages where 3328 were asked for, the unit fails and names both numbers."""
    unit, tree = huge_page_unit(POOLS), a_tree(tmp_path, 0)
    run(unit, "ExecStart", tree)
    (tree / pool_path(POOLS[0]).lstrip("/")).write_text("82\n", encoding="utf-8")

    first, second = run(unit, "ExecStartPost", tree)
    assert (first.returncode, second.returncode) == (1, 0)
    assert "node 1: 3328 huge pages of 2048 kB asked for, 82 given" in first.stderr


def test_the_unit_never_takes_pages_away(tmp_path: Path) -> None:
    """Pages that were there already, more than the plan needs, stay."""
    unit, tree = huge_page_unit(POOLS), a_tree(tmp_path, 5000)
    run(unit, "ExecStart", tree)
    assert pages(tree) == [5000, 5000]
    assert [each.returncode for each in run(unit, "ExecStartPost", tree)] == [0, 0]


def test_the_unit_fails_where_there_is_no_such_node(tmp_path: Path) -> None:
    """A node or page size that the machine lacks is a failure of both commands."""
    unit = huge_page_unit(POOLS)
    assert 0 not in [each.returncode for each in run(unit, "ExecStart", tmp_path)]
    assert 0 not in [each.returncode for each in run(unit, "ExecStartPost", tmp_path)]


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """What systemd says of the unit is nothing: no unknown key, no bad quoting."""
    program = shutil.which("systemd-analyze")
    if program is None:
        lacking("systemd-analyze is not installed (Debian: systemd)")
    path = tmp_path / Path(UNIT_PATH).name
    path.write_text(huge_page_unit(POOLS), encoding="utf-8")
    done = subprocess.run(
        [program, "verify", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )
    told = [line for line in done.stderr.splitlines() if path.name in line]
    assert (done.returncode, told) == (0, [])


def test_a_machine_with_nothing_to_set_has_no_files() -> None:
    """No empty unit, sysctl file or profile is written."""
    empty = stack_designs.machine(pools=(), sysctls=(), sysfs=(), governor=None)
    assert tuple(machine_files(empty, "linux")) == ()
