"""The load from Dask workers: real ones on this machine, and what ends them."""

import gzip
import json
import os
import re
import shlex
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from steelyard.core.measurement import Quantity
from steelyard.core.outside import Command
from steelyard.core.places import WorkersAsked
from steelyard.core.wording import MeasurementError
from steelyard.gateways import workers as gateway
from steelyard.gateways.host import Clock, free_port
from steelyard.gateways.process import Processes
from steelyard.gateways.workers import Workers
from steelyard.places.workers import WorkerGenerators
from steelyard.record.directory import read_campaign
from support.endpoint import Server
from support.lacking import lacking
from support.live import TINY, Steelyard, ending, in_turns, lasting, one_by_one, wait_for
from support.machine_lock import WORKERS, machine_lock
from support.ssh_server import ssh_server
from support.striking import strike
from support.waiting import eventually

pytestmark = pytest.mark.live

SLEEP = Command(argv=("sleep", "300"), parent_death_signal=signal.SIGKILL)
PAGE = (Path(__file__).parents[2] / "docs" / "workers.md").read_text("utf-8")
LOAD = "load: {clients: 4, threads: 2, protocol: simple}\ngenerator: {workers: 2}"
WITH_WORKERS = TINY.replace("load: {clients: 2, threads: 1, protocol: simple}", LOAD)


@pytest.fixture(autouse=True)
def _counted_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hold the lock where workers of the whole machine are counted; other tests start some, too."""
    if request.node.get_closest_marker("slow") is None:
        yield
        return
    with machine_lock(WORKERS):
        yield


@pytest.fixture
def ours() -> Iterator[tuple[Workers, list[Path]]]:
    """Two workers, and the directories that were made for them; afterwards nothing is left."""
    made: list[Path] = []
    workers = Workers(
        WorkersAsked(number=2), Processes(), Clock(), created=made.append, removed=made.remove
    )
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield workers, made
    workers.close()
    assert not made
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


def _programs() -> list[psutil.Process]:
    """Return the scheduler and the workers that this process has started."""
    found = psutil.Process().children()
    return [each for each in found if "steelyard.gateways.workers" in each.cmdline()]


def _listening(programs: list[psutil.Process]) -> list[tuple[str, int]]:
    return [
        tuple(connection.laddr)
        for each in programs
        for connection in each.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    ]


def test_nobody_without_the_certificate_gets_in(ours: tuple[Workers, list[Path]]) -> None:
    """Not in clear, not without a certificate, not with another; its files are ours alone.

    Only this machine reaches what listens, and after the end nothing does.
    """
    from distributed import Client, Security  # noqa: PLC0415 - where it is installed

    workers, made = ours
    WorkerGenerators(workers, Clock()).begin_together([SLEEP], timeout_s=60).close()
    (home,) = made
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.glob("*.pem")} == {0o600}
    listening = _listening(_programs())
    assert len(listening) == 3  # no pages
    assert {host for host, _ in listening} == {"127.0.0.1"}
    for place in listening:
        _refuses(place, None)
        stranger = ssl.create_default_context()
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        _refuses(place, stranger)
    address = workers._client.scheduler.address
    assert address.startswith("tls://")
    with pytest.raises(OSError):  # noqa: PT011 - of TLS, as it likes
        Client(address, security=Security.temporary(), timeout=3, set_as_default=False)
    workers.close()
    for place in listening:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place, timeout=3)


def _refuses(place: tuple[str, int], context: ssl.SSLContext | None) -> None:
    """Check that a place answers nothing to who comes in clear, or without a certificate."""
    try:
        with ExitStack() as stack:
            sock = stack.enter_context(socket.create_connection(place, timeout=10))
            if context is not None:
                sock = stack.enter_context(context.wrap_socket(sock))
            sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = sock.recv(100)
    except OSError:  # as ssl.SSLError is
        return
    assert answer == b""


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1], ids=["scheduler", "worker"])
def test_a_program_that_is_killed_is_told_and_replaced(
    ours: tuple[Workers, list[Path]], victim: int
) -> None:
    """What waits for its generators hears of it within seconds; none of them goes on."""
    generators = WorkerGenerators(ours[0], Clock())
    running = generators.begin_together([SLEEP, SLEEP], timeout_s=60)
    pids = running.pids
    began = time.monotonic()
    _programs()[victim].kill()
    with pytest.raises(MeasurementError, match=r"is gone|does not answer"):
        running.completed()
    assert time.monotonic() - began < 30
    running.close()
    assert eventually(lambda: not any(map(psutil.pid_exists, pids)))
    again = generators.begin_together([Command(argv=("true",))] * 2, timeout_s=60)
    assert [each.exit_status for each in again.completed()] == [0, 0]
    again.close()


@pytest.mark.slow
def test_a_worker_that_hangs_is_ended(
    ours: tuple[Workers, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not answer, so it counts as lost: a turn of which nobody knows is none."""
    monkeypatch.setattr(gateway, "_ANSWER_S", 2.0)
    generators = WorkerGenerators(ours[0], Clock())
    running = generators.begin_together([SLEEP, SLEEP], timeout_s=60)
    pids = running.pids
    _programs()[2].suspend()
    assert not generators.standstill.pause()
    with pytest.raises(MeasurementError, match="does not answer"):
        running.completed()
    running.close()
    assert eventually(lambda: not any(map(psutil.pid_exists, pids)))


@pytest.mark.slow
@pytest.mark.parametrize("design", [one_by_one, in_turns])
def test_the_sum_of_two_workers_is_what_the_server_counts(
    steelyard: Steelyard, design: Callable[[str], str]
) -> None:
    """pg_stat_database and the generators agree within 0.1 %; the percentiles are of all."""
    text = design(ending(WITH_WORKERS)).replace("simple-update", "select-only")
    text = text.replace("run_time: 1s", "run_time: 2s")
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    assert done.returncode == 0, done.stderr
    record = read_campaign(steelyard.directory / "c")
    assert record.plan is not None
    assert record.experiment.workers == WorkersAsked(number=2)
    for run in record.counted_runs:
        assert run.measurement is not None
        assert run.evidence is not None
        assert run.latency is not None
        output = gzip.decompress((steelyard.directory / "c" / "raw" / run.raw).read_bytes())
        done_by = re.findall(rb"actually processed: (\d+)", output)
        assert len(done_by) == 2
        assert run.evidence.total(Quantity.COMMITS) == _about(sum(map(int, done_by)))
        assert run.evidence.level(Quantity.WORKERS) == 2.0
        skew_s = run.evidence.level(Quantity.START_SKEW_S)
        assert skew_s is not None
        assert 0.0 < skew_s < 0.05
        assert (run.evidence.total(Quantity.GENERATOR_CPU_S) or 0.0) > 0.1
    assert _left() == []


def _about(transactions: int) -> object:
    """Return what equals that many; autovacuum and who reads the counters commit some, too."""
    return pytest.approx(transactions, rel=1e-3, abs=40)


def _left() -> list[psutil.Process]:
    """Return what is left of any campaign's workers."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            if "steelyard.gateways.workers" in each.cmdline():
                found.append(each)
    return found


@pytest.mark.slow
def test_a_campaign_redoes_the_block_of_a_lost_worker(steelyard: Steelyard) -> None:
    """The block is void and comes again with new workers."""
    process = steelyard.start(
        *("run", steelyard.experiment(lasting(in_turns(WITH_WORKERS))), "--dir", "c"),
        "--no-verdict",
    )
    strike(steelyard, process, lambda: bool(_at_work(process.pid)), lambda: _kill(process.pid))
    wait_for(lambda: any(not block["complete"] for block in steelyard.blocks), process)
    lost = next(block for block in steelyard.blocks if not block["complete"])
    assert "worker" in lost["reason"]
    wait_for(
        lambda: any(
            block["complete"] and block["index"] == lost["index"] for block in steelyard.blocks
        ),
        process,
    )
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert _left() == []


def _at_work(pid: int) -> list[psutil.Process]:
    """Return the workers of a campaign that have a generator now."""
    with suppress(psutil.Error):
        ours = [each for each in _left() if each.ppid() == pid]
        return [each for each in ours if each.children()]
    return []


def _kill(pid: int) -> None:
    for worker in _at_work(pid)[:1]:
        with suppress(psutil.Error):
            worker.kill()


@pytest.mark.slow
def test_nothing_goes_on_after_a_campaign_that_was_killed(steelyard: Steelyard) -> None:
    """The kernel ends scheduler and workers with it, and generators with these."""
    process = steelyard.start(
        *("run", steelyard.experiment(lasting(in_turns(WITH_WORKERS))), "--dir", "c"),
        "--no-verdict",
    )
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    assert len(_left()) == 3
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert eventually(lambda: _left() == [])
    done = steelyard.run("clean", "--yes")
    assert done.returncode == 0, done.stderr
    assert not list(Path("/tmp").glob(f"steelyard-*/{gateway._KEY}"))  # noqa: S108 - of the campaign


@dataclass
class Somebodys:
    """A scheduler with two workers that somebody has started, on a machine with files of its own.

    Attributes:
        home: Has the certificate.
        hidden: Directories of this machine that the workers do not see.
    """

    home: Path
    port: int
    hidden: tuple[Path, ...]
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """Return Dask's configuration of who may come."""
        (exports,) = re.findall(r"^export .*?^done$", PAGE, re.MULTILINE | re.DOTALL)
        asked = ["bash", "-c", f"{exports}\nenv"]
        shown = subprocess.run(asked, cwd=self.home, check=True, capture_output=True, text=True)
        pairs = (line.partition("=") for line in shown.stdout.splitlines())
        return {name: value for name, _, value in pairs if name.startswith("DASK_")}

    @property
    def url(self) -> str:
        """Return where the scheduler is."""
        return f"tls://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the scheduler and its workers."""
        (scheduler,) = re.findall(r"^dask (scheduler .*)$", PAGE, re.MULTILINE)
        (worker,) = re.findall(r"^dask (worker .*)$", PAGE, re.MULTILINE)
        hiding = "; ".join(f"mount -t tmpfs none {path}" for path in self.hidden)
        self._begin(self._dask(scheduler))
        for _ in range(2):
            script = f"{hiding}; exec {shlex.join(self._dask(worker))}"
            self._begin(("unshare", "--mount", "sh", "-c", script))

    def _dask(self, line: str) -> list[str]:
        """Return a command of the page, on this machine and a port of ours."""
        here = line.replace("10.0.0.5", "127.0.0.1").replace("8786", str(self.port))
        return [sys.executable, "-m", "dask", *shlex.split(here)]

    def _begin(self, argv: Sequence[str]) -> None:
        env = {**os.environ, **self.environment}
        with (self.home / "log").open("ab") as log:
            self.running.append(
                subprocess.Popen(argv, stdout=log, stderr=log, env=env, cwd=self.home)
            )

    def stop(self) -> None:
        """Kill all of it."""
        for process in reversed(self.running):
            process.kill()
            process.wait()
        self.running.clear()


@pytest.fixture
def somebodys(steelyard: Steelyard, tmp_path: Path) -> Iterator[Somebodys]:
    """Workers that are there, with a network of this machine and files of their own."""
    if os.geteuid() != 0:
        lacking("only root hides directories from a process")
    home = tmp_path / "somebody"
    home.mkdir()
    (making,) = re.findall(r"^openssl .*$", PAGE, re.MULTILINE)
    subprocess.run(shlex.split(making), cwd=home, check=True, capture_output=True)
    there = Somebodys(home, free_port(), (Path("/dev/shm"), steelyard.cache))  # noqa: S108
    yield there
    there.stop()


def _there(somebodys: Somebodys | None, server: Server, text: str = WITH_WORKERS) -> str:
    """Return an experiment on a server that is there, from workers that are there or any."""
    local = "{kind: local, server: embedded}"
    assert local in text
    target = json.dumps({"kind": "existing", "uri": server.uri})
    if somebodys is not None:
        text = text.replace("workers: 2", f"workers: 2, scheduler: '{somebodys.url}', wait: 5s")
    return text.replace(local, target).replace("shared_buffers: 64MB", "work_mem: 9MB")


@pytest.mark.slow
@pytest.mark.parametrize("design", [one_by_one, in_turns])
def test_workers_that_are_there_get_their_files_and_give_back_their_logs(
    steelyard: Steelyard, somebodys: Somebodys, server: Server, design: Callable[[str], str]
) -> None:
    """They see neither scripts nor logs of this machine; the sums are the server's all the same."""
    somebodys.start()
    (steelyard.directory / "reads.sql").write_text(
        "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
    )
    text = design(ending(_there(somebodys, server))).replace("simple-update", "select-only")
    text = text.replace("builtin: select-only", "scripts: [{file: reads.sql}]")
    there = replace(steelyard, extra=somebodys.environment)
    done = there.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    assert done.returncode == 0, done.stderr
    for run in read_campaign(steelyard.directory / "c").counted_runs:
        assert run.evidence is not None
        assert run.latency is not None
        assert bool(run.turns) is (design is in_turns)
        output = gzip.decompress((steelyard.directory / "c" / "raw" / run.raw).read_bytes())
        done_by = re.findall(rb"actually processed: (\d+)", output)
        assert len(done_by) == 2
        if not run.turns:  # in turns sessions of the other configuration count, too
            assert run.evidence.total(Quantity.COMMITS) == _about(sum(map(int, done_by)))
        assert run.evidence.level(Quantity.GENERATOR_CPUS) == 2.0 * len(os.sched_getaffinity(0))
    assert _generators_of(somebodys) == []
    assert all(process.poll() is None for process in somebodys.running)


def _generators_of(somebodys: Somebodys) -> list[psutil.Process]:
    with suppress(psutil.Error):
        workers = [psutil.Process(process.pid) for process in somebodys.running[1:]]
        return [child for worker in workers for child in worker.children(recursive=True)]
    return []


@pytest.mark.slow
def test_a_scheduler_that_is_gone_is_waited_for_and_the_campaign_goes_on_later(
    steelyard: Steelyard, somebodys: Somebodys, server: Server
) -> None:
    """Exit code 5 names what was waited for; resumed with a new scheduler the campaign ends."""
    somebodys.start()
    there = replace(steelyard, extra=somebodys.environment)
    text = ending(in_turns(_there(somebodys, server)))
    process = there.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    wait_for(lambda: steelyard.complete_blocks >= 1, process)
    somebodys.stop()
    _, trouble = process.communicate(timeout=300)
    assert process.returncode == 5
    assert "was waited for 5 s" in trouble
    assert "--resume" in trouble
    somebodys.start()
    done = there.run("run", "--resume", "c", "--no-verdict")
    assert done.returncode == 0, done.stderr
    assert steelyard.complete_blocks == 3


@pytest.mark.slow
def test_generators_there_end_with_a_campaign_that_was_killed(
    steelyard: Steelyard, somebodys: Somebodys, server: Server
) -> None:
    """Dask forgets who is gone, and with it the actors; the workers stay."""
    somebodys.start()
    there = replace(steelyard, extra=somebodys.environment)
    text = lasting(in_turns(_there(somebodys, server)))
    process = there.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    wait_for(lambda: bool(_generators_of(somebodys)), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert eventually(lambda: _generators_of(somebodys) == [])
    assert all(each.poll() is None for each in somebodys.running)
    assert steelyard.run("clean", "--yes").returncode == 0


@pytest.mark.slow
def test_hosts_by_ssh_carry_the_load_and_those_left_redo_the_block_of_a_lost_one(
    steelyard: Steelyard, server: Server, tmp_path: Path
) -> None:
    """All listen on the loopback; with the campaign, killed, workers and generators end."""
    home = tmp_path / "ssh"
    home.mkdir()
    (example,) = re.findall(r"^generator: {(hosts: .*)}$", PAGE, re.MULTILINE)
    hosts = example.replace("load1", "lab").replace("admin@load2", "lab2")
    text = _there(None, server).replace("workers: 2", f"{hosts}, wait: 5s")
    with ssh_server(home) as there:
        path = f"{there.programs}:{os.environ['PATH']}"
        over_ssh = replace(steelyard, extra={**steelyard.extra, "PATH": path})
        (home / "down" / "lab2").touch()
        all_of_them = over_ssh.experiment(ending(text.replace("workers_at_least: 1, ", "")))
        failed = over_ssh.run("run", all_of_them, "--dir", "d", "--no-verdict")
        assert failed.returncode == 5, failed.stderr
        assert "worker 2 on lab2" in failed.stderr
        assert eventually(lambda: _left() == [])
        (home / "down" / "lab2").unlink()
        process = over_ssh.start(
            *("run", steelyard.experiment(lasting(in_turns(text))), "--dir", "c"), "--no-verdict"
        )
        wait_for(lambda: steelyard.complete_blocks >= 1, process)
        assert len(_left()) == 5  # scheduler, two workers, and the shell of each
        assert {host for host, _ in _listening(_left())} == {"127.0.0.1"}
        family = psutil.Process(process.pid).children(recursive=True)
        assert not any("BEGIN" in word for each in family for word in each.cmdline())
        (home / "down" / "lab2").touch()
        wait_for(lambda: bool(_remote_at_work()), process)
        _remote_at_work()[0].kill()
        wait_for(lambda: bool(_lost(steelyard)), process)
        lost = _lost(steelyard)[0]
        wait_for(lambda: lost["index"] in _complete(steelyard), process)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=60)
        assert eventually(lambda: _left() == [])
        assert eventually(lambda: not list(there.temporary.iterdir()))
        assert over_ssh.run("clean", "--yes").returncode == 0
    record = read_campaign(steelyard.directory / "c")
    counts: dict[int, set[float | None]] = {}
    for run in record.counted_runs:
        assert run.evidence is not None
        counts.setdefault(run.block, set()).add(run.evidence.level(Quantity.WORKERS))
    assert counts[0] == {2.0}
    assert counts[lost["index"]] == {1.0}


def _complete(steelyard: Steelyard) -> set[int]:
    return {block["index"] for block in steelyard.blocks if block["complete"]}


def _remote_at_work() -> list[psutil.Process]:
    """Return the workers that ssh has started and that have a generator now."""
    with suppress(psutil.Error):
        return [each for each in _left() if "remote" in each.cmdline()[:5] and each.children()]
    return []


def _lost(steelyard: Steelyard) -> list[dict[str, Any]]:
    """Return the blocks that the loss of a worker made void."""
    void = [block for block in steelyard.blocks if not block["complete"]]
    return [block for block in void if "worker" in block["reason"]]
