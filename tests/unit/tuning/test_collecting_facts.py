"""Collecting: which layers are seen from where, and what is said of those that are not."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fakes.facts import BACKEND, POSTMASTER, SMAPS, FakeStack
from fakes.host import FakeHost
from fakes.processes import Answer
from steelyard.core.findings import State
from steelyard.core.linux import PoolUser
from steelyard.core.outside import Command, Completed
from steelyard.core.stack import DomainFacts, Kubelet, Origin, StackFacts, Visibility
from steelyard.core.wording import GIB, MIB, InputError, TargetError
from steelyard.gateways.placed_files import Wanted, parse_fetched, script
from steelyard.tuning.facts import collecting
from steelyard.tuning.facts import servers as postgres
from steelyard.tuning.facts.collecting import Asked, above, collect
from steelyard.tuning.facts.kubernetes import (
    CONFIGURATION,
    CPU_STATE,
    parse_kubelet,
    wanted_at_first,
    wanted_later,
)
from steelyard.tuning.facts.linux import collect_linux
from steelyard.tuning.facts.servers import huge_mapping_bytes
from steelyard.tuning.rules.rule import cpus_of_database, memory_of_database
from support.judged_rules import judged
from support.machines import SMALL_VM, small_vm
from support.recorded_host import RECORDINGS

_HOLDER = "Name:\tpostgres\nHugetlbPages:\t    4096 kB\n"
SHELL = ("/bin/sh", "-s")
DSN = "postgresql:///postgres?host=/run/postgresql"
KUBELET = """\
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
reservedSystemCPUs: "0,1"
memoryManagerPolicy: Static
kubeReserved: {memory: 1Gi, cpu: 2}
reservedMemory:
  - {numaNode: 0, limits: {memory: 2036Mi}}
cpuCFSQuota: false
"""


def test_a_machine_with_domains_is_their_hypervisor() -> None:
    """On metal and in a virtual machine alike; one without domains has its hypervisor elsewhere."""
    domain = DomainFacts(name="db", vcpus=2, memory_bytes=GIB)
    told = {"domains": Origin(source="virsh")}
    asked, doors = Asked(ping_pong=False), FakeStack().doors()
    facts = collect(asked, doors, lambda: ((domain,), told))
    assert facts.domains == (domain,)
    assert facts.origin("domains.memory_bytes").source == "virsh"
    vm = replace(doors, host=small_vm())
    nested = collect(asked, vm, lambda: ((domain,), told))
    assert nested.domains == (domain,)
    assert nested.hypervisor == nested.linux
    guest = collect(asked, vm, lambda: ((), told))
    assert (guest.hypervisor, guest.domains) == (None, None)
    assert guest.origin("domains").visibility is Visibility.NO


def test_layers_that_nobody_asked_say_how_to_ask() -> None:
    """Without --dsn the server's facts are unknown, with the option that would tell them."""
    facts = collect(Asked(ping_pong=False), FakeStack().doors())
    assert facts.postgres is None
    assert "--dsn" in facts.origin("postgres.settings").source
    assert facts.origin("redis").visibility is Visibility.UNKNOWN


def test_two_looks_are_a_second_apart() -> None:
    """Steal needs time to pass; the ping-pong passes in it."""
    stack = FakeStack()
    begun = stack.clock.monotonic()
    collect(Asked(), stack.doors())
    assert stack.clock.monotonic() - begun >= 1.0


def test_a_wakeup_is_measured_on_cores_and_nodes() -> None:
    """One CPU, two cores of a node, two nodes: each pair from the real topology."""
    stack = FakeStack()
    facts = collect(Asked(), stack.doors())
    assert facts.linux is not None
    ping_pong = facts.linux.ping_pong
    assert ping_pong is not None
    assert ping_pong.across_s == pytest.approx(11e-6)
    assert ping_pong.across_p99_s == pytest.approx(50e-6, rel=0.1)
    assert ping_pong.other_node_s == pytest.approx(11e-6)
    pairs = [command.argv[-2:] for command in stack.processes.ran]
    # CPU 4 is the other thread of CPU 0's core, 2 is on the other node.
    assert pairs == [("0", "0"), ("0", "1"), ("0", "2")]


def test_a_pingpong_that_fails_is_unknown() -> None:
    """It costs its own fact and no other."""
    stack = FakeStack()
    stack.processes.on("python", answer=Answer(stdout='{"unknown": "no second CPU"}'))
    facts = collect(Asked(), stack.doors())
    assert facts.linux is not None
    assert facts.linux.ping_pong is None
    assert "no second CPU" in facts.origin("linux.ping_pong").source
    assert facts.linux.steal_fraction is None  # the fake's time stands still in /proc/stat


def test_a_server_tells_of_itself_and_its_processes() -> None:
    """Settings as people write them, pages, checkpoints, and its mapping from smaps."""
    stack = FakeStack()
    facts = collect(Asked(dsn=DSN, ping_pong=False), stack.doors())
    server = facts.postgres
    assert server is not None
    assert server.version == 18
    assert server.settings is not None
    assert server.settings["huge_pages"] == "try"
    assert server.pending_restart == ("huge_pages",)
    assert (server.huge_pages_needed, server.huge_pages_status) == (3177, "on")
    assert (server.checkpoints_requested, server.checkpoints_timed) == (3, 40)
    assert server.running is True
    assert server.io_uring_available is True
    assert server.huge_page_mapping_bytes == 6 * GIB
    assert server.shared_memory_directory_bytes == 1000
    assert facts.origin("postgres.huge_page_mapping_bytes").source == f"/proc/{POSTMASTER}/smaps"
    assert stack.sql.open_sessions == 0


def test_a_server_s_own_processes_are_known() -> None:
    """The first one and what it started, also after it was asked; so OS015 names only others."""
    stack = FakeStack()
    stack.host.files |= {
        "/proc/701/stat": f"701 (postgres) S {POSTMASTER} 1 1 0 -1\n",
        "/proc/800/stat": "800 (postgres) S 799 1 1 0 -1\n",
        **{f"/proc/{pid}/status": _HOLDER for pid in (POSTMASTER, 701, 800)},
    }
    facts = collect(Asked(dsn=DSN, ping_pong=False), stack.doors())
    assert facts.postgres is not None
    assert facts.postgres.processes == (POSTMASTER, 700, 701)
    assert judged("OS015", facts).messages == (
        "1 other process(es) hold 4.0 MiB of huge pages: postgres, such as pid 800",
    )


@pytest.mark.parametrize(("named", "size"), [("0", None), ("1GB", GIB), ("2048kB", 2 * MIB)])
def test_a_server_says_which_pages_it_counts(named: str, size: int | None) -> None:
    """The number of pages means nothing without their size, which huge_page_size may name."""
    stack = FakeStack()
    stack.serve(180004, huge_page_size=named)
    facts = collect(Asked(dsn=DSN, ping_pong=False), stack.doors())
    assert facts.postgres is not None
    assert facts.postgres.huge_page_bytes == size


def test_no_password_of_a_server_is_kept() -> None:
    """Settings that may hold one are left out."""
    facts = collect(Asked(dsn=DSN, ping_pong=False), FakeStack().doors())
    assert "secret" not in repr(facts)


def test_a_server_elsewhere_is_not_judged_by_this_machine() -> None:
    """It answers from another address: the kernel here is not its own, so it is not told."""
    stack = FakeStack()
    stack.serve(180004, listens_on="10.0.0.7")
    facts = collect(Asked(dsn="postgresql://db1/postgres"), stack.doors())
    assert facts.linux is None
    assert facts.postgres is not None
    assert facts.postgres.huge_page_mapping_bytes is None
    assert "--on ssh://HOST" in facts.origin("linux.governor").source


def test_what_is_said_of_a_machine_that_nobody_sees_is_judged() -> None:
    """Memory and CPUs, marked as told; the rest stays out of sight."""
    stack = FakeStack()
    stack.serve(180004, listens_on="10.0.0.7")
    asked = Asked(dsn="postgresql://db1/postgres", memory_bytes=64 * GIB, cpus=16)
    facts = collect(asked, stack.doors())
    assert facts.linux is not None
    assert (memory_of_database(facts), cpus_of_database(facts)) == (64 * GIB, 16.0)
    assert facts.origin("linux.memory_bytes").assumed
    assert facts.origin("postgres.usable_cpus").assumed
    assert facts.origin("linux.cpus").source == "as told by --server-cpus"
    assert "--on ssh://HOST" in facts.origin("linux.governor").source


@pytest.mark.parametrize("dsn", [None, DSN])
def test_nothing_is_said_of_a_machine_that_is_looked_at(dsn: str | None) -> None:
    """What it has counts, so the option is refused."""
    stack = FakeStack()
    stack.serve(180004)
    with pytest.raises(InputError, match="--server-memory says what nobody sees"):
        collect(Asked(dsn=dsn, memory_bytes=GIB, ping_pong=False), stack.doors())


_GROUP = "/sys/fs/cgroup/db.slice"
_LIMITED = {
    f"/proc/{POSTMASTER}/cgroup": "0::/db.slice/pg.service\n",
    f"{_GROUP}/memory.max": f"{512 * MIB}\n",
    f"{_GROUP}/pg.service/cpu.max": "150000 100000\n",
    f"/proc/{POSTMASTER}/smaps": "7f00-7f01 rw-s 0 00:0f 1 /a\nSize: 4 kB\nKernelPageSize: 4 kB\n",
}


@pytest.mark.parametrize(
    ("files", "buffers", "message"),
    [
        ({}, "400MB", "shared_buffers is 400.0 MiB, 78.1 % of 512.0 MiB"),
        ({}, "200MB", None),
        ({f"{_GROUP}/memory.max": "max\n"}, "400MB", None),
        ({f"{_GROUP}/pg.service/memory.high": f"{GIB}\n"}, "400MB", "78.1 % of 512.0 MiB"),
        # No limit on memory counts huge pages: 6 GiB of them and 512 MiB beside.
        ({f"/proc/{POSTMASTER}/smaps": SMAPS}, "2GB", None),
    ],
)
def test_a_server_is_judged_by_the_limits_of_its_own_process(
    files: dict[str, str], buffers: str, message: str | None
) -> None:
    """As ``docker run -m`` and ``MemoryMax=`` set them; the machine has more."""
    stack = FakeStack()
    stack.serve(160004, shared_buffers=buffers, max_connections="100", huge_pages_status="")
    stack.host.files = {**stack.host.files, **_LIMITED, **files}
    facts = collect(Asked(dsn=DSN, ping_pong=False), stack.doors())
    memory = judged("PG003", facts)
    assert memory.state is (State.HOLDS if message is None else State.VIOLATED)
    assert message is None or message in memory.messages[0]
    assert judged("PG004", facts).messages == ("100 connections on 1.5 CPUs",)
    assert facts.origin("postgres.usable_cpus").source == f"{_GROUP}/pg.service"


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ((), "0 servers of PostgreSQL run over there"),
        ((600,), None),
        ((600, 800), "2 servers of PostgreSQL run over there"),
    ],
)
def test_a_server_over_ssh_is_judged_by_the_limits_of_its_process(
    tmp_path: Path, servers: tuple[int, ...], message: str | None
) -> None:
    """The same reader, from files that ssh brings; which of several it is nobody sees."""
    tree = tmp_path / "tree"
    shutil.copytree(SMALL_VM, tree, symlinks=True)
    files = {name: text for name, text in _LIMITED.items() if "smaps" not in name}
    for pid in servers:
        files[f"/proc/{pid}/stat"] = f"{pid} (postgres) S 1 1 1 0 -1\n"
        files[f"/proc/{pid}/status"] = "Name:\tpostgres\nCpus_allowed_list:\t0\n"
    files["/proc/self/mountinfo"] = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    for name, text in files.items():
        place = tree / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    stack, shell = FakeStack(), ShellOfATree(tree)
    stack.serve(160004, shared_buffers="400MB", max_connections="100", huge_pages_status="")
    asked = Asked(on="ssh://db1", dsn=DSN, data_directory="/")
    facts = collect(asked, replace(stack.doors(), processes=shell))
    assert shell.calls == 2
    for code, seen in (("PG003", "78.1 % of 512.0 MiB"), ("PG004", "100 connections on 1 CPUs")):
        rule = judged(code, facts)
        if message is None:
            assert seen in rule.messages[0]
        else:
            assert rule.state is State.NOT_APPLICABLE
            assert message in rule.missing[0]


def test_a_forwarded_server_is_not_here_either() -> None:
    """Its address is ours, but the session's process is not among ours: a tunnel or container."""
    stack = FakeStack()
    stack.serve(180004, listens_on="127.0.0.1")
    stack.host.files = {p: t for p, t in stack.host.files.items() if not p.startswith("/proc/700")}
    assert collect(Asked(dsn=DSN), stack.doors()).linux is None


def test_facts_hold_no_secret_of_a_server() -> None:
    """They are saved, and sent to others: what no rule asks for is left out, the rest redacted."""
    stack = FakeStack()
    stack.serve(180004)
    secret = [
        ("primary_conninfo", "host=x password=Zq9secret", False),
        ("restore_command", "curl -u a:Zq9secret http://x", False),
        ("my.secret", "Zq9secret", False),
        ("application_name", "curl -u a:Zq9secret http://x", False),
    ]
    stack.sql.answers[postgres.SETTINGS] = [*stack.sql.answers[postgres.SETTINGS], *secret]
    facts = collect(Asked(dsn=DSN, ping_pong=False), stack.doors())
    assert facts.postgres is not None
    assert facts.postgres.settings is not None
    assert facts.postgres.settings["application_name"] == "curl -u a:*** http://x"
    assert "Zq9secret" not in str(facts)


def hidden_directory(first: int) -> FakeStack:
    """Return a server whose data directory this user may not ask for, and its first process."""
    stack = FakeStack()
    stack.serve(180004, listens_on="127.0.0.1")
    rows = stack.sql.answers[postgres.SETTINGS]
    stack.sql.answers[postgres.SETTINGS] = [row for row in rows if row[0] != "data_directory"]
    for pid, parent in ((BACKEND, first), (first, 1)):
        stack.host.files[f"/proc/{pid}/stat"] = f"{pid} (postgres) S {parent} 1 1 0 -1\n"
    return stack


def test_the_disk_is_that_of_the_servers_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first process works there; the directory that packages choose says nothing of it."""
    monkeypatch.chdir(tmp_path)
    doors = hidden_directory(os.getpid()).doors()
    facts = collect(Asked(dsn=DSN, ping_pong=False), doors)
    assert facts.origin("linux.device").source.startswith(f"{tmp_path} on ")


def test_a_disk_that_nobody_saw_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may not be looked at: no disk, no storage, and the option that names it."""
    monkeypatch.setattr(collecting, "_USUAL_PLACES", (str(tmp_path),))
    facts = collect(Asked(dsn=DSN, ping_pong=False), hidden_directory(2**22 + 1).doors())
    assert facts.linux is not None
    assert facts.linux.device is None
    assert facts.storage is None
    for path in ("linux.device", "storage"):
        assert facts.origin(path).visibility is Visibility.UNKNOWN
        assert "--data-directory" in facts.origin(path).source


def test_old_servers_tell_less() -> None:
    """PostgreSQL 14 knows neither its pages nor their status: not visible, and not 0."""
    stack = FakeStack()
    stack.serve(140009)
    unknown = ("shared_memory_size_in_huge_pages", "huge_pages_status")
    rows = [row for row in stack.sql.answers[postgres.SETTINGS] if row[0] not in unknown]
    stack.sql.answers[postgres.SETTINGS] = rows
    facts = collect(Asked(dsn=DSN, ping_pong=False), stack.doors())
    assert facts.postgres is not None
    assert facts.postgres.huge_pages_needed is None
    assert facts.postgres.huge_pages_status is None
    assert facts.origin("postgres.huge_pages_needed").visibility is Visibility.NO
    assert facts.postgres.io_uring_available is False
    assert facts.postgres.checkpoints_timed == 40


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    """Nobody asked for an inspection without it; a password in the URI is refused."""
    stack = FakeStack()
    stack.sql.reachable = False
    with pytest.raises(TargetError):
        collect(Asked(dsn=DSN), stack.doors())
    with pytest.raises(InputError, match="password"):
        collect(Asked(dsn="postgresql://a:secret@db1/x"), stack.doors())


def test_the_mapping_of_a_recorded_server_is_its_shared_memory() -> None:
    """Of a real server on huge pages; without huge pages it is 0."""
    smaps = (RECORDINGS / "smaps-huge-pages.txt").read_text()
    size = huge_mapping_bytes(smaps)
    assert size > 0
    assert size % (2 * MIB) == 0
    assert huge_mapping_bytes(smaps.replace("2048 kB", "4 kB")) == 0
    assert huge_mapping_bytes("") == 0


def test_a_kubelet_is_read_from_its_files() -> None:
    """Policies, reservations and the shared CPUs; what only the API tells is said to be so."""
    stack = FakeStack()
    held = "Name:\tpostgres\nHugetlbPages:\t    8192 kB\n"
    stack.host.files = {
        **stack.host.files,
        CONFIGURATION: KUBELET,
        CPU_STATE: '{"policyName":"static","defaultCpuSet":"0-1,4","checksum":1}',
        "/proc/77/status": held,
        "/proc/77/cgroup": "0::/kubepods.slice/pod1\n",
        "/proc/78/status": held,
        "/proc/78/cgroup": "0::/system.slice\n",
    }
    facts = collect(Asked(ping_pong=False), stack.doors())
    kubernetes = facts.kubernetes
    assert kubernetes is not None
    assert kubernetes.kubelet == Kubelet(
        cpu_manager_policy="static",
        cpu_manager_options={"full-pcpus-only": "true"},
        memory_manager_policy="Static",
        reserved_system_cpus="0,1",
        kube_reserved={"memory": "1Gi", "cpu": "2"},
        reserved_memory=({"numaNode": "0", "memory": "2036Mi"},),
        cpu_cfs_quota=False,
    )
    assert kubernetes.shared_cpus == (0, 1, 4)
    assert kubernetes.non_pod_huge_pages == 4
    assert kubernetes.pods is None
    assert "API" in facts.origin("kubernetes.pods").source


@pytest.mark.parametrize("text", ["[]", "kubeReserved: 3", "a: [", "\t"])
def test_a_kubelet_file_that_is_none_is_unknown(text: str) -> None:
    """It is no configuration of defaults."""
    with pytest.raises(ValueError, match=r".*"):
        parse_kubelet(text)
    stack = FakeStack()
    stack.host.files = {**stack.host.files, CONFIGURATION: text}
    facts = collect(Asked(ping_pong=False), stack.doors())
    assert facts.kubernetes is not None
    assert facts.kubernetes.kubelet is None


def test_facts_of_a_hypervisor_are_put_below_those_of_a_guest() -> None:
    """They come from a file that is named; the guest's own stay."""
    guest = StackFacts(origins={"hypervisor": Origin(source="not visible")})
    below = collect(Asked(ping_pong=False), FakeStack().doors())
    facts = above(guest, below, "host.yaml")
    assert facts.linux is None
    assert facts.hypervisor == below.linux
    assert facts.origin("hypervisor.cpus").source.startswith("host.yaml: /sys/")
    assert all(o.source != "not visible" for o in facts.origins.values())


class ShellOfATree:
    """An ssh that runs the script here, on a recorded tree instead of ``/``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = 0

    def run(self, command: Command, *, timeout_s: float, stdin: str = "") -> Completed:
        """Run the script with every absolute path below the tree."""
        assert timeout_s > 0
        self.calls += 1
        text = re.sub(r" /(?=proc|sys|dev|etc|usr|run|var|\.dockerenv)", f" {self.root}/", stdin)
        ended = subprocess.run(SHELL, input=text, capture_output=True, text=True, check=True)
        return Completed(
            argv=command.argv,
            exit_status=0,
            stdout=ended.stdout.replace(f" {self.root}/", " /"),
            stderr=ended.stderr,
        )


def test_a_machine_over_ssh_has_the_facts_that_it_has_at_home() -> None:
    """Nothing that a fact is made of is missing from what is brought: two calls bring it all."""
    shell = ShellOfATree(SMALL_VM)
    stack = FakeStack()
    asked = Asked(on="ssh://db1", data_directory="/")
    facts = collect(asked, replace(stack.doors(), processes=shell))
    at_home, origins = collect_linux(small_vm(), "/")
    assert facts.linux == at_home
    assert shell.calls == 2
    here = {"linux.steal_fraction", "linux.ping_pong"}
    assert {p: facts.origins[p] for p in origins if p not in here} == {
        path: origin for path, origin in origins.items() if path not in here
    }


def test_a_server_of_another_machine_is_not_looked_for_here() -> None:
    """Through a tunnel it seems local: with --on, this machine's processes are not its own."""
    stack = FakeStack()
    doors = replace(stack.doors(), processes=ShellOfATree(SMALL_VM))
    facts = collect(Asked(on="ssh://db1", dsn=DSN, data_directory="/"), doors)
    assert facts.postgres is not None
    assert facts.postgres.version == 18
    assert facts.postgres.huge_page_mapping_bytes is None
    assert facts.linux is not None
    assert facts.linux.virtualization == "kvm"


def test_what_is_wanted_can_be_asked_for_in_one_script() -> None:
    """Both scripts run to their end on this machine, whatever it has."""
    for wanted in (
        wanted_at_first(("/",)),
        wanted_later(("/sys/dev/block/8:0",), ("/proc/1/cgroup",)),
        Wanted(),
    ):
        ended = subprocess.run(
            SHELL, input=script(wanted, "mark"), capture_output=True, text=True, check=False
        )
        assert parse_fetched(ended.stdout, "mark") is not None


def test_pool_users_of_a_machine_elsewhere_are_brought() -> None:
    """Only processes that hold pages travel, with their control groups."""
    host = FakeHost(files={"/proc/5/status": "Name:\tpostgres\nHugetlbPages:\t  4096 kB\n"})
    host.files = {
        **host.files,
        "/proc/self/status": "HugetlbPages:\t 0 kB\n",
        "/proc/1/status": "Name:\tinit\n",
    }
    facts, _ = collect_linux(host)
    assert facts.pool_users == (PoolUser(pid=5, command="postgres", held_bytes=4 * MIB),)
    assert '"${f%/*}/cgroup"' in script(wanted_at_first(()), "mark")
