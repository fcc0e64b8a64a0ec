"""A stack to be looked at without any machine."""

from dataclasses import dataclass, field

from fakes.clock import FakeClock
from fakes.host import FakeHost
from fakes.processes import Answer, FakeProcesses
from fakes.sql import FakeSql
from steelyard.gateways.doors import Doors
from steelyard.tuning.facts import servers as postgres
from support.machines import metal

BACKEND, POSTMASTER = 700, 600
TRIPS = '{"cpus": [0, 1], "trips_ns": [' + ",".join(["11000"] * 99 + ["50000"] * 2) + "]}"
SETTINGS = {
    "huge_pages": "try",
    "huge_pages_status": "on",
    "shared_memory_size_in_huge_pages": "3177",
    "data_directory": "/srv/data",
    "primary_conninfo": "host=a password=secret",
}
SMAPS = """\
7f0000000000-7f0180000000 rw-s 00000000 00:0f 1 /anon_hugepage (deleted)
Size:            6291456 kB
KernelPageSize:     2048 kB
7f0200000000-7f0200001000 r--p 00000000 fd:00 1 /usr/lib/libc.so
Size:                  4 kB
KernelPageSize:        4 kB
"""


@dataclass(kw_only=True)
class FakeStack:
    """A server of metal with PostgreSQL on it; a test may change every part."""

    host: FakeHost = field(default_factory=metal)
    sql: FakeSql = field(default_factory=FakeSql)
    clock: FakeClock = field(default_factory=FakeClock)

    def __post_init__(self) -> None:
        self.processes = FakeProcesses(self.clock)
        self.processes.on("python", answer=Answer(stdout=TRIPS))
        self.host.files = {
            **self.host.files,
            f"/proc/{BACKEND}/stat": f"{BACKEND} (postgres) S {POSTMASTER} 1 1 0 -1\n",
            f"/proc/{POSTMASTER}/stat": f"{POSTMASTER} (postgres) S 1 1 1 0 -1\n",
            f"/proc/{POSTMASTER}/smaps": SMAPS,
            f"/proc/{POSTMASTER}/root/dev/shm/PostgreSQL.1": "",
        }
        self.serve(180004)

    def serve(self, version_num: int, *, listens_on: str = "", **settings: str) -> None:
        """Let a server of this version answer, with other settings."""
        shown = {**SETTINGS, **settings}
        new = version_num >= 170000
        checkpoints = postgres.CHECKPOINTS if new else postgres.OLD_CHECKPOINTS
        self.sql.answers = {
            postgres.IDENTITY: [(version_num, BACKEND, listens_on)],
            postgres.SETTINGS: [(name, text, name == "huge_pages") for name, text in shown.items()],
            postgres.IO_METHODS: [(True,)] if version_num >= 180000 else [],
            checkpoints: [(3, 40)],
        }

    def doors(self) -> Doors:
        """Return the gateways to it."""
        return Doors(host=self.host, processes=self.processes, sql=self.sql, clock=self.clock)
