"""Recorded files of a machine's /proc and /sys: a server with three sessions under pgbench."""

from functools import cache
from pathlib import Path

from fakes.host import FakeHost

RECORDINGS = Path(__file__).parents[1] / "recordings" / "host"
SERVER = 5459
SESSIONS = (6551, 6552, 6553)
GENERATOR = 6548
STEELYARD = 6539
DATA = "/srv/data"
_DEVICE = (254, 0)


def process_line(
    pid: int, name: str, parent: int, *, ticks: int = 0, reaped: int = 0, flags: int = 0
) -> str:
    """Return a line of ``stat`` with user ticks of a process and of its ended children."""
    return (
        f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 {flags} 0 0 0 0"
        f" {ticks} 0 {reaped} 0 20 0 1 0 77 0 0\n"
    )


def maps_of(smaps: str) -> tuple[str, str]:
    """Return the ``maps`` and the ``smaps_rollup`` of a process with these ``smaps``."""
    lines = smaps.splitlines(keepends=True)
    mapped = sum(int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped"))
    maps = "".join(line for line in lines if not line[:1].isupper())
    return maps, f"0-1 ---p 00000000 00:00 0 [rollup]\nShmemPmdMapped: {mapped} kB\n"


def recorded_files() -> dict[str, str]:
    """Return the files by path, with a Steelyard that runs the recorded generator."""
    own = process_line(STEELYARD, "steelyard", 1)
    maps, rollup = maps_of(_recorded()[f"/proc/{SERVER}/smaps"])
    return {
        **_recorded(),
        f"/proc/{SERVER}/maps": maps,
        f"/proc/{SERVER}/smaps_rollup": rollup,
        "/proc/self/stat": own,
        f"/proc/{STEELYARD}/stat": own,
        f"/proc/{STEELYARD}/task/{STEELYARD}/children": f"{GENERATOR} ",
        "/proc/self/schedstat": "0 0 0\n",
        **{f"/proc/{pid}/task/{pid}/children": "" for pid in SESSIONS},
        f"{DATA}/PG_VERSION": "18\n",
        f"{DATA}/pg_wal/1": "",
    }


@cache
def _recorded() -> dict[str, str]:
    root = RECORDINGS / "server"
    return {
        f"/{path.relative_to(root)}": path.read_text() for path in root.rglob("*") if path.is_file()
    }


def recorded_host() -> FakeHost:
    """Return a machine with these files."""
    return FakeHost(files=recorded_files(), devices={"/": _DEVICE})
