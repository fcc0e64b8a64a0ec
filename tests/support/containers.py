"""Accounts of containers: recorded on a node with control groups of version 1, made for version 2.

``Containers`` is a cluster whose containers answer the probe's scripts from such files.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fakes.kubernetes_answers import FakeLines
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.campaign.evidence.pods import BOOT, Account
from steelyard.core.kubernetes import ContainerRef, Manifest, ObjectRef
from steelyard.core.outside import Completed
from steelyard.gateways.placed_files import FetchedHost, parse_fetched

RECORDINGS = Path(__file__).parents[1] / "recordings" / "kubernetes"
_MARK = re.compile(r"fetched-[0-9a-f]+")
_NS = 1_000_000_000
DATA = "/var/lib/postgresql/data/pgdata"
PID = 22


def recorded(name: str) -> Account:
    """Return what a container printed on a real cluster."""
    host = parse_fetched((RECORDINGS / name).read_text(), "MARK")
    assert host is not None
    return Account(host=host)


def server_files(second: float, **changed: str | None) -> dict[str, str]:
    """Return a database's container of version 2 after some seconds, on a node of two CPUs.

    A second of the node is 1.2 s of CPU, of which the database has 0.5 and interrupts 0.02; the
    database is throttled for 0.1 s in 3 of 10 periods, and writes 100 times to a disk.
    """
    ticks, us = round(100 * second), round(1_000_000 * second)
    files: dict[str, str | None] = {
        "/sys/fs/cgroup/cpu.stat": f"usage_usec {us // 2}\nnr_periods {round(10 * second)}\n"
        f"nr_throttled {round(3 * second)}\nthrottled_usec {us // 10}\n",
        "/sys/fs/cgroup/cpu.max": "50000 100000\n",
        "/sys/fs/cgroup/cpuset.cpus.effective": "0-1\n",
        "/sys/fs/cgroup/memory.current": "5000000\n",
        "/sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 2000000\n",
        "/sys/fs/cgroup/io.stat": f"8:0 rbytes={us} wbytes={2 * us} rios=1 wios=1\n",
        "/proc/stat": f"cpu  {ticks} 0 {ticks // 5 - 2 * ticks // 100} {80 * ticks // 100} 0 0"
        f" {2 * ticks // 100} 0 0 0\ncpu0 0\ncpu1 0\nctxt {ticks}\n",
        "/proc/uptime": f"{1000 + second:.2f} 1.00\n",
        BOOT: "node-2\n",
        "/proc/meminfo": "MemTotal: 2000 kB\nMemAvailable: 1000 kB\nHugePages_Total: 64\n"
        "HugePages_Free: 40\nHugepagesize: 2048 kB\n",
        "/proc/vmstat": "pswpin 0\npswpout 0\n",
        "/proc/diskstats": f"   8       0 sda 0 0 0 0 {round(100 * second)} 0 {ticks} 7 0 5 9"
        " 0 0 0 0 0 0\n",
        "/proc/pressure/cpu": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={us // 5}\n",
        "/proc/self/mountinfo": f"24 1 8:0 / {DATA} rw,relatime - ext4 /dev/sda rw\n",
        f"/proc/{PID}/maps": "7f0000000000-7f0004000000 rw-s 00000000 00:10 7 /anon_hugepage"
        " (deleted)\n",
        "space": "4096 1000 400\n",
        "/proc/90/schedstat": f"{_NS // 100} 0 3\n",
        "/proc/91/schedstat": f"{_NS // 100} 0 3\n",
    }
    return {path: text for path, text in {**files, **changed}.items() if text is not None}


def account(files: Mapping[str, str]) -> Account:
    """Return the account of a container with these files."""
    host = FetchedHost(
        files=files, held={"pid": PID}, resolved={"data": DATA, "wal": f"{DATA}/pg_wal"}
    )
    return Account(host=host)


def printed(files: Mapping[str, str], mark: str) -> str:
    """Return what a script prints of these files."""
    parts = [f"\n{mark} file {path}\n{text}" for path, text in files.items()]
    parts += [f"\n{mark} number pid {PID}\n", f"\n{mark} directory data\n{DATA}\n"]
    return "".join([*parts, f"\n{mark} directory wal\n{DATA}/pg_wal\n", f"\n{mark} end\n"])


@dataclass(kw_only=True)
class Containers(FakeKubernetesApi):
    """A cluster whose containers answer the probe's scripts.

    Attributes:
        files: Of a container now, by its pod.
        stream: Of the loop, where one is started.
        before_change: Called before and after each change; it may end the process.
    """

    files: dict[str, Callable[[], Mapping[str, str]]] = field(default_factory=dict)
    stream: FakeLines = field(default_factory=lambda: FakeLines(ends=False))
    scripts: list[tuple[str, str]] = field(default_factory=list)
    before_change: Callable[[str], None] = lambda _what: None

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Make or change an object, with a step before and after it."""
        if dry_run:
            return super().apply(manifest, dry_run=True)
        self.before_change("apply")
        made = super().apply(manifest)
        self.before_change("applied")
        return made

    def patch(self, ref: ObjectRef, patch: Manifest) -> Manifest:
        """Change an object, with a step before and after it."""
        self.before_change("patch")
        made = super().patch(ref, patch)
        self.before_change("patched")
        return made

    def delete(self, ref: ObjectRef, *, grace_s: int | None = None) -> bool:
        """Delete an object, with a step before and after it."""
        self.before_change("delete")
        gone = super().delete(ref, grace_s=grace_s)
        self.before_change("deleted")
        return gone

    def __post_init__(self) -> None:
        FakeKubernetesApi.__post_init__(self)

    def run(
        self, where: ContainerRef, argv: Sequence[str], *, timeout_s: float, stdin: str = ""
    ) -> Completed:
        """Answer from the files of the pod; what holds no mark is only noted."""
        script = stdin or argv[-1]
        self.scripts.append((where.pod, script))
        mark = _MARK.search(script)
        name = next((pod for pod in self.files if where.pod.startswith(pod)), "")
        if mark is None or not name:
            return super().run(where, argv, timeout_s=timeout_s, stdin=stdin)
        self._inside("run", "create", "exec", where)
        text = printed(self.files[name](), mark[0])
        return Completed(argv=tuple(argv), exit_status=0, stdout=text, stderr="")

    def lines(self, where: ContainerRef, argv: Sequence[str]) -> FakeLines:
        """Start the loop."""
        self.scripts.append((where.pod, argv[-1]))
        return self.stream

    def say(self, files: Mapping[str, str]) -> None:
        """Let the loop print a turn."""
        mark = next(
            found for _, text in self.scripts if "nap" in text and (found := _MARK.search(text))
        )
        for line in printed(files, mark[0]).splitlines():
            self.stream.say(line)
