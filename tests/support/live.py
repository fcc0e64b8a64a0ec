"""Real servers for the live tests: a cache of their own, and Steelyard as a user starts it.

How long a machine takes is nothing that a live test may rest on. A campaign ends because its blocks
say so (``TINY``) or because the test ends it (``lasting``, ``until_blocks``), never because a small
budget is over.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from steelyard.answers.campaign import analyse
from steelyard.answers.report import build_document
from steelyard.gateways.files import free_bytes, is_in_memory
from steelyard.record.directory import read_campaign
from steelyard.report.html import render_markdown
from support.forked import Forked
from support.lacking import lacking

# No step of a test takes as long as this, however busy the machine is.
LIMIT_S = 600.0

# Each kind of campaign draws its charts somewhere; the reports of all other tests need none.
_DRAWN = (
    *("test_campaign_reading", "test_campaigns.py"),
    *("test_redis_local", "test_run_latency", "test_stalled_server"),
)
# Where no device is measured or limited, copies of data directories need none either.
_IN_MEMORY = (
    *("test_broken_networks", "test_campaign_reading", "test_campaigns.py"),
    *("test_faults", "test_hanging_servers", "test_made_servers", "test_profile_presets"),
    "test_statement_uses",
)
# What it says is read while it runs, from pipes that only a start of an interpreter has.
_HEARD = ("test_burst_cliffs",)
# The directories made in them have names of their own.
_MEMORY, _DISK = Path("/dev/shm"), Path("/var/tmp")  # noqa: S108
_MEMORY_BYTES = 8 << 30  # a guess: of seven workers, each with some data directories of 60 MB

# Nearly every effect is known to 99 % after the twelve blocks of the first such look.
TINY = """\
version: 1
name: tiny
baseline: default
workloads:
  - {name: writes, builtin: simple-update, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 1s, discard_start: 0s, warm_up: 0s}
stop: {budget: 5m, width: 99%}
seed: 7
configurations:
  default:
    target: {kind: local, server: embedded}
  buffers:
    extends: default
    postgres: {shared_buffers: 64MB}
"""


def one_by_one(text: str = TINY) -> str:
    """Return an experiment whose configurations are up one after another, whatever could be."""
    return text.replace("version: 1\n", "version: 1\ndesign: one-by-one\n", 1)


def in_turns(text: str = TINY) -> str:
    """Return an experiment that only reads, in turns, whatever else could be.

    A turn holds a hundred latencies, and others may write to the device.
    """
    return one_by_one(text.replace("simple-update", "select-only")).replace(
        "one-by-one", "alternating"
    )


def lasting(text: str = TINY) -> str:
    """Return an experiment that goes on until the test ends it: nothing is that precise."""
    ending, going_on = "budget: 5m, width: 99%", "budget: 20m, width: 0.1%"
    assert ending in text
    return text.replace(ending, going_on)


def ending(text: str = TINY) -> str:
    """Return an experiment that ends by itself after the fewest blocks that may be asked for."""
    assert "width: 99%" in text
    return text.replace("width: 99%", "blocks: 3")


def napping(text: str = TINY) -> str:
    """Return an experiment that naps at every commit, under one configuration six times as long.

    So the CPUs are left to others, and the first look, after four blocks, decides. A nap goes by
    the clock, which goes on while a server stands still: it is no work for turns.
    """
    for old, new in (
        ("embedded}\n", "embedded}\n    postgres: {commit_delay: 60000, commit_siblings: 0}\n"),
        ("shared_buffers: 64MB", "shared_buffers: 64MB, commit_delay: 10000"),
    ):
        assert old in text
        text = text.replace(old, new)
    return one_by_one(text).replace(", width: 99%", "")


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True)
class Steelyard:
    """The command line as a user starts it, with a cache of the test session.

    Attributes:
        program: What the interpreter runs; nothing for a fork of one that has it ready.
    """

    cache: Path
    directory: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "steelyard")
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def impatient(self) -> "Steelyard":
        """Return one that waits seconds where it usually waits a minute."""
        return replace(self, program=(str(Path(__file__).with_name("impatient.py")),))

    @property
    def without_charts(self) -> "Steelyard":
        """Return one that draws none, as without the extra: they are half of a report's time.

        It is forked from a process that has imported Steelyard: that is the half of the rest.
        """
        return replace(self, program=())

    @property
    def journal(self) -> list[dict[str, Any]]:
        """Return the entries of the campaign in ``c`` that are written in full."""
        path = self.directory / "c" / "journal.jsonl"
        return list(_entries(path, path.stat().st_size)) if path.exists() else []

    @property
    def campaign_id(self) -> str:
        """Return the id of the campaign, which all that its journal says of a start must name."""
        (campaign_id,) = {e["campaign_id"] for e in self.journal if e["kind"] == "started"}
        return str(campaign_id)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Return its runs so far."""
        return [entry["run"] for entry in self.journal if entry["kind"] == "run"]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """Return the ends of its blocks so far, complete or not.

        The last line may not be on disk yet: an interruption could still take it back.
        """
        return [e["outcome"] for e in self.journal[:-1] if e["kind"] == "block-ended"]

    @property
    def counted_runs(self) -> list[dict[str, Any]]:
        """Return the runs of tries that count; one that was thrown away may have no turns."""
        whole = {(each["index"], each["attempt"]) for each in self.blocks if each["complete"]}
        return [run for run in self.runs if (run["block"], run["attempt"]) in whole]

    @property
    def complete_blocks(self) -> int:
        """Return how many of its blocks count so far."""
        return sum(block["complete"] for block in self.blocks)

    @property
    def blocks_left_complete(self) -> int:
        """Return how many blocks a campaign that is dead left complete.

        Nobody takes its last line back any more; without that line the first one of the resumed
        campaign would look like a block of its own.
        """
        ended = [e["outcome"] for e in self.journal if e["kind"] == "block-ended"]
        return sum(block["complete"] for block in ended)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start it and return at once."""
        env = {**os.environ, "STEELYARD_CACHE": str(self.cache), **self.extra}
        process = (
            self._fresh(arguments, env) if self.program else Forked(arguments, self.directory, env)
        )
        self.started.append(process)
        return process

    def _fresh(self, arguments: tuple[str, ...], env: Mapping[str, str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, *self.program, *arguments],
            cwd=self.directory,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A background job ignores Ctrl-C, and so would what it starts.
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 - the tests have one thread
        )

    def until_blocks(self, blocks: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run it until so many blocks are complete, then interrupt it."""
        process = self.start(*arguments)
        wait_for(lambda: self.complete_blocks >= blocks, process)
        return interrupted(process)

    def resumed_for_a_block(self) -> "subprocess.CompletedProcess[str]":
        """Resume the campaign in ``c`` for one more block, then interrupt it."""
        return self.until_blocks(self.blocks_left_complete + 1, "run", "--resume", "c")

    def run(
        self, *arguments: str, timeout_s: float = LIMIT_S
    ) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            try:
                out, err = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            pytest.fail(f"steelyard {' '.join(arguments)} did not end:\n{out}\n{err}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def experiment(self, text: str = TINY, name: str = "tiny.yaml") -> str:
        """Write an experiment file and return its name."""
        write_experiment(self.directory / name, text)
        return name

    def end_all(self) -> None:
        """End what a failed test left running, so that it disturbs no other."""
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.communicate(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()


@lru_cache(maxsize=2)  # whoever waits for something in it looks twenty times a second
def _entries(path: Path, _size: int) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines()
    return [json.loads(line)["entry"] for line in lines if line.endswith('"}')]


def interrupted(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    """End a campaign as Ctrl-C does; it must end in order."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, err
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def write_experiment(path: Path, text: str) -> None:
    """Write an experiment file; those of all live tests come through here.

    Whose test speaks of neighbours or ceilings says so in its text; all others take the machine as
    it is, and spare its device the nine seconds that the ceilings of a long budget take.
    """
    text = text if "max_other_load:" in text else beside_anybody(text)
    path.write_text(text if "machine_limits:" in text else _measuring(text, "machine_limits: off"))


def beside_anybody(text: str) -> str:
    """Return an experiment that only notes its neighbours: test machines are never quiet."""
    return _measuring(text, "max_other_load: ignore")


def _measuring(text: str, key: str) -> str:
    """Return an experiment with one more key of ``measure``."""
    if "\nmeasure: {" in text:
        return text.replace("\nmeasure: {", f"\nmeasure: {{{key}, ", 1)
    if "\nmeasure:\n" in text:
        return text.replace("\nmeasure:\n", f"\nmeasure:\n  {key}\n", 1)
    return f"{text.rstrip()}\nmeasure: {{{key}}}\n"


@pytest.fixture(scope="session")
def cache() -> Iterator[Path]:
    """A cache that the unprivileged account of a root session can reach; prepared data are shared.

    Below /var/tmp, because pytest's own directories are closed to other accounts.
    """
    with new_cache(_DISK) as path:
        yield path


@pytest.fixture(scope="session")
def memory_cache() -> Iterator[Path]:
    """A cache like the other, in memory where that has room."""
    with new_cache(in_memory()) as path:
        yield path


def in_memory() -> Path:
    """Return where data directories cost no writing, or a disk where memory has no room."""
    roomy = is_in_memory(_MEMORY) and min(free_bytes(_MEMORY), _available()) >= _MEMORY_BYTES
    return _MEMORY if roomy else _DISK


def _available() -> int:
    amounts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(amounts["MemAvailable"].split()[0]) << 10


@contextmanager
def new_cache(parent: Path) -> Iterator[Path]:
    """Yield a cache that other accounts can reach, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="steelyard-test-", dir=parent))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def steelyard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Steelyard]:
    """Steelyard in an empty directory; after the test nothing may be left but records."""
    name = request.path.name
    cache = request.getfixturevalue("memory_cache" if name.startswith(_IN_MEMORY) else "cache")
    made = Steelyard(cache=cache, directory=tmp_path)
    yield made if name.startswith((*_DRAWN, *_HEARD)) else made.without_charts
    made.end_all()
    assert living_servers(cache) == []
    live = cache / "live"
    left = list(live.iterdir()) if live.exists() else []
    if left:
        made.run("clean", "--yes")  # for the tests that come after
    # What a test left on a server that went with it is nothing for `clean` in the next one.
    shutil.rmtree(cache / "campaigns", ignore_errors=True)
    assert left == []


def small_file_system(place: Path, size: str) -> Iterator[Path]:
    """Yield a file system of its own in memory, of so many bytes as ``50m``; needs root."""
    if os.geteuid() != 0 or not Path("/bin/mount").exists():
        lacking("mounting a small file system needs root")
    place.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(place)]
    if subprocess.run(mount, check=False).returncode != 0:
        lacking("this kernel or container does not mount tmpfs")
    try:
        yield place
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(place)], check=True)
        place.rmdir()


def living_servers(cache: Path) -> list[str]:
    """Return the command lines of processes that work below the cache."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                cwd = str((entry / "cwd").readlink())
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if cwd.startswith(f"{cache}/"):
                found.append(command)
    return found


def assert_nothing_holds(directory: Path, words: list[str]) -> None:
    """Assert that there are such words, and that no file below a directory holds one of them."""
    assert words
    for path in (each for each in directory.rglob("*") if each.is_file()):
        content = path.read_bytes()
        assert not [word for word in words if word.encode() in content], path


def whole_report(directory: Path) -> str:
    """Return the report of a campaign with its details, as `report --full -o markdown` has it."""
    return render_markdown(build_document(analyse(read_campaign(directory))))


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[str] | None" = None) -> None:
    """Wait until ``condition()`` is true; fail at once when ``process`` ended before it was."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            pytest.fail(f"{condition} did not come true before the end: {process.communicate()}")
        if time.monotonic() > deadline:
            pytest.fail(f"{condition} did not come true within {LIMIT_S:.0f} s")
        time.sleep(0.05)


def redone_in_all_arms(steelyard: Steelyard) -> bool:
    """Return whether a block was thrown away, and its complete try holds a run of every arm."""
    void = [block["index"] for block in steelyard.blocks if not block["complete"]]
    again = {b["index"]: b["attempt"] for b in steelyard.blocks if b["complete"]}
    arms = {run["configuration"] for run in steelyard.runs}
    return bool(void) and all(
        {
            run["configuration"]
            for run in steelyard.runs
            if (run["block"], run["attempt"]) == (index, again.get(index))
        }
        == arms
        for index in void
    )
