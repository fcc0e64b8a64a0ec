"""Files of other people and the settings in them, through what ``run --dry-run`` checks.

The server's own program is asked, the embedded one; the machine is one of text.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.host import FakeHost
from steelyard.campaign.run import session
from steelyard.cli import launching
from steelyard.core.wording import Complaint, ExperimentFileError, SteelyardError
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.process import Processes
from steelyard.systems.postgres import engine, server
from steelyard.targets.assembly import assemble
from support.snapshots import check_text

EXPERIMENTS = Path(__file__).parents[2] / "recordings" / "foreign" / "experiments"
GOLDEN = Path(__file__).parent / "golden" / "foreign_experiments.txt"
_POOL = "/sys/kernel/mm/hugepages/hugepages-{}kB/free_hugepages"
_FILES = {
    "/proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable: 8000000 kB\nHugepagesize: 2048 kB\n",
    _POOL.format(2048): "0\n",
    _POOL.format(1048576): "0\n",
}
_new_cluster = server.trial


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Yield the real doors of a machine of text; one new cluster serves all trials."""
    clusters: list[server.Trial] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEELYARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        made = []

        @contextmanager
        def shared(
            program: server.PostgresProgram, account: str | None, processes: Processes
        ) -> Iterator[server.Trial]:
            if not clusters:
                made.append(_new_cluster(program, account, processes))
                clusters.append(made[0].__enter__())
            yield clusters[0]

        patch.setattr(engine, "trial", shared)
        yield replace(system_doors(), host=FakeHost(files=_FILES))
        for cluster in made:
            cluster.__exit__(None, None, None)


def _options(path: Path) -> launching.RunOptions:
    return launching.RunOptions(
        source=str(path), flags=(), seed=1, out=None, dry_run=True, form="text", quiet=True,
        yes=False,
    )  # fmt: skip


def outcome(path: Path, doors: Doors) -> list[str]:
    """Return the exit code of a dry run of a file, and its problems."""
    try:
        loaded = launching.load(_options(path), doors)
        session.check(loaded, assemble(loaded.experiment, doors))
        launching._require_machine(loaded.experiment, doors)
    except ExperimentFileError as error:
        problems = [problem.located("").lstrip(":") for problem in error.problems]
        return [str(int(error.exit_code)), *map(_of_any_release, problems)]
    except SteelyardError as error:
        return [str(int(error.exit_code)), f"{error.message} ({error.hint})"]
    return ["0"]


def _of_any_release(text: str) -> str:
    return re.sub(r"PostgreSQL 18\.\d+", "PostgreSQL 18", text)


def test_files_of_other_people(doors: Doors) -> None:
    """Each has its exit code and its problems, as somebody has read and judged them."""
    paths = sorted(EXPERIMENTS.glob("*.yaml"))
    assert len(paths) > 95
    now = "\n".join("\n  ".join([f"{one.name}:", *outcome(one, doors)]) for one in paths) + "\n"
    check_text(GOLDEN, now)


_FILE = """\
version: 1
name: own
baseline: default
workloads: [{{name: reads, builtin: select-only, scale: 2}}]
load: {{clients: 2}}
configurations:
  default:
    target: {{kind: local, server: embedded}}
    postgres: {{{inherited}}}
  b:
    extends: default
    postgres:
      {own}
"""
_SENDERS = 'WAL streaming ("max_wal_senders" > 0) requires "wal_level" to be'
_RESERVED = (
    '"superuser_reserved_connections" (50) plus "reserved_connections" (0) must be less than'
)
_STATEMENTS = "shared_preload_libraries: pg_stat_statements"


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (("wal_level: minimal", "max_wal_senders: 0"), ()),
        (("archive_mode: on", "archive_command: 'true'"), ()),
        ((_STATEMENTS, "pg_stat_statements.max: 50000"), ()),
        (("session_preload_libraries: auto_explain", "auto_explain.log_min_duration: 1s"), ()),
        (("shared_buffers: 64MB", "mine.own: 5"), ()),
        (("wal_level: minimal",), ((13, _SENDERS),)),
        (("archive_mode: always", "max_wal_senders: 0", "wal_level: minimal"),
         ((15, 'WAL archival cannot be enabled when "wal_level" is "minimal"'),)),
        (("summarize_wal: on", "max_wal_senders: 0", "wal_level: minimal"),
         ((15, 'WAL cannot be summarized when "wal_level" is "minimal"'),)),
        (("superuser_reserved_connections: 50", "max_connections: 50"), ((14, _RESERVED),)),
        (("max_wal_size: 16MB", "shared_buffers: 100GB"),
         ((13, '"max_wal_size" must be at least twice'),)),
        (("max_connections: 262143",), ((13, "too many server processes configured"),)),
        (("recovery_target_lsn: 0/1", "recovery_target_name: x"),
         ((13, "multiple recovery targets specified"),)),
        (("jit: off", "session_preload_libraries: nosuchlib"), ((14, 'file "nosuchlib"'),)),
        (("local_preload_libraries: nosuchlib",), ((13, '"$libdir/plugins/nosuchlib"'),)),
        ((_STATEMENTS, "pg_stat_statements.mx: 5"), ((14, "is now a reserved prefix"),)),
        ((_STATEMENTS, "pg_stat_statements.max: 5e12"), ((14, "Value exceeds integer range"),)),
        (("wal_level: minimal", "work_mem: 4QB", "max_wal_size: 1MB"),
         ((13, _SENDERS), (14, 'invalid value for parameter "work_mem"'),
          (15, "1 MB is outside the valid range"))),
        (("wal_level: minimal", "shared_preload_libraries: nosuchlib", "min_wal_size: 16MB"),
         ((13, _SENDERS), (14, 'file "nosuchlib"'), (15, '"min_wal_size" must be at least twice'))),
    ],
)  # fmt: skip
def test_settings_are_refused_together(
    doors: Doors, tmp_path: Path, own: tuple[str, ...], expected: tuple[tuple[int, str], ...]
) -> None:
    """What only a start finds is found before it, all of it, at the lines of the settings."""
    path = tmp_path / "own.yaml"
    path.write_text(_FILE.format(inherited="", own="\n      ".join(own)), "utf-8")
    code, *problems = outcome(path, doors)
    assert code == ("2" if expected else "0")
    assert len(problems) == len(expected)
    for problem, (line, words) in zip(problems, expected, strict=True):
        assert problem.startswith(f"{line}:")
        assert words in problem


@pytest.mark.parametrize(
    "own",
    [
        ("shared_preload_libraries: {library}",),
        ("session_preload_libraries: auto_explain, {library}",),
        ("dynamic_library_path: {directory}", "shared_preload_libraries: own"),
        ("wal_level: replica", "archive_mode: on", "archive_command: touch {witness}"),
    ],
)
def test_a_dry_run_loads_no_library_of_a_file(
    doors: Doors, tmp_path: Path, own: tuple[str, ...]
) -> None:
    """Whoever looks at a file of somebody else runs nothing of it: only what is installed."""
    places = {"library": tmp_path / "own", "directory": tmp_path, "witness": tmp_path / "ran"}
    path = tmp_path / "own.yaml"
    lines = "\n      ".join(own).format(**places)
    path.write_text(_FILE.format(inherited="", own=lines), "utf-8")
    assert outcome(path, doors) == ["0"]  # a library that was looked for would be missed
    assert not places["witness"].exists()


def test_an_inherited_setting_is_told_once(doors: Doors, tmp_path: Path) -> None:
    """Every configuration has it; its line has one problem, and the way out names the other."""
    path = tmp_path / "own.yaml"
    path.write_text(_FILE.format(inherited="wal_level: minimal", own="jit: off"), "utf-8")
    _, problem = outcome(path, doors)
    assert problem.startswith("9:27: configurations.default.postgres.wal_level: ")
    assert problem.endswith("(Correct `wal_level`, or set `max_wal_senders` to fit.)")


def test_what_names_no_setting_is_at_the_configuration(doors: Doors, tmp_path: Path) -> None:
    """A refusal that names none of the settings is about all of them."""
    text = _FILE.format(inherited="", own="shared_preload_libraries: nosuchlib")
    path = tmp_path / "own.yaml"
    path.write_text(text, "utf-8")
    loaded = launching.load(_options(path), doors)
    assembly = assemble(loaded.experiment, doors)
    nameless = Complaint(setting="", message="it does not", hint="Correct one of them.")
    assembly.engine.complaints = lambda _: (nameless,)  # type: ignore[method-assign]
    (of_default, of_b) = session._problems(loaded, assembly)
    assert (of_default.line, of_b.line) == (9, 13)
