"""Files of a plan: for machines, for PostgreSQL and RDS, and all of a design, word for word."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import stack_designs
from steelyard.core.stack import UNIT_PATH, Place, PoolDesign, Scope, StackDesign, StackRequest
from steelyard.core.wording import GIB, MIB, InputError
from steelyard.tuning.files.files import (
    configuration,
    huge_page_unit,
    machine_files,
    parameter_group_files,
    pool_path,
    rds_value,
    render,
)
from support.lacking import lacking
from support.snapshots import check_text

POOLS = (PoolDesign(page_bytes=2 * MIB, pages=3328, node=1), PoolDesign(page_bytes=GIB, pages=4))


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


def test_odd_values_are_quoted() -> None:
    """A value that is no bare word stands in quotes, with quotes inside it doubled."""
    odd = stack_designs.setting("search_path", 'it\'s, "mine"')
    text = configuration(stack_designs.postgres(odd))
    assert text.endswith("search_path = 'it''s, \"mine\"'\n")


@pytest.mark.parametrize(
    ("name", "value", "rds"),
    [
        ("shared_buffers", "6GB", "786432"),
        ("wal_buffers", "16MB", "2048"),
        ("wal_buffers", "-1", "-1"),
        ("effective_cache_size", "12GB", "1572864"),
        ("work_mem", "4MB", "4096"),
        ("max_wal_size", "8GB", "8192"),
        ("checkpoint_timeout", "15min", "900"),
        ("statement_timeout", "2s", "2000"),
        ("track_io_timing", "on", "1"),
        ("jit", "off", "0"),
        ("huge_pages", "on", "on"),
        ("random_page_cost", "1.1", "1.1"),
        ("io_method", "worker", "worker"),
    ],
)
def test_values_of_rds(name: str, value: str, rds: str) -> None:
    """Sizes and times become whole numbers of the parameter's own unit, switches 0 and 1."""
    assert rds_value(name, value) == rds


@pytest.mark.parametrize(("name", "value"), [("my.size", "4MB"), ("work_mem", "15min")])
def test_an_unknown_unit_is_refused(name: str, value: str) -> None:
    """A size of a parameter whose unit is not known is refused, not guessed."""
    with pytest.raises(InputError, match=name):
        rds_value(name, value)


def test_a_call_has_at_most_twenty_parameters() -> None:
    """More parameters take more files, each used by a command, and none is lost."""
    settings = [stack_designs.setting(f"number_{at}", str(at)) for at in range(45)]
    design = stack_designs.design(Place.RDS, postgres=stack_designs.postgres(*settings))
    *calls, commands = parameter_group_files(design)

    names = [
        each["ParameterName"] for call in calls for each in json.loads(call.content)["Parameters"]
    ]
    assert names == [each.name for each in settings]
    assert max(len(json.loads(call.content)["Parameters"]) for call in calls) <= 20
    assert all(f"file://files/{call.name}" in commands.content for call in calls)


def test_decoding_has_a_switch_of_its_own_on_rds() -> None:
    """wal_level is not RDS's to set; rds.logical_replication is, and needs a restart."""
    asked = StackRequest(
        cpus=2, memory_bytes=16 * GIB, place=Place.RDS, name="pg", logical_decoding=True
    )
    read = json.loads(parameter_group_files(stack_designs.design(Place.RDS, asked))[0].content)
    assert read["Parameters"][-1] == {
        "ParameterName": "rds.logical_replication",
        "ParameterValue": "1",
        "ApplyMethod": "pending-reboot",
    }


def test_no_scope_but_a_restart_waits_for_one() -> None:
    """Settings of sessions and of reloads are applied at once."""
    setting = stack_designs.setting("work_mem", "4MB", Scope.SESSION)
    design = stack_designs.design(Place.RDS, postgres=stack_designs.postgres(setting))
    read = json.loads(parameter_group_files(design)[0].content)
    assert read["Parameters"][0]["ApplyMethod"] == "immediate"


GOLDEN = Path(__file__).parents[2] / "golden" / "stack"
SCENES: tuple[Callable[[], StackDesign], ...] = (
    stack_designs.local,
    stack_designs.kvm,
    stack_designs.cnpg,
    stack_designs.rds,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_files_of_a_place(scene: Callable[[], StackDesign]) -> None:
    """Every file says what it said before, to the letter, and there is no other."""
    folder = GOLDEN / scene.__name__
    files = render(scene())
    for file in files:
        check_text(folder / file.name, file.content)
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {file.name for file in files} == there
