"""The main job end to end on real PostgreSQL servers."""

import gzip
import json
import os
import pwd
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from steelyard.core.wording import MIB
from steelyard.record.directory import read_campaign
from support.live import (
    TINY,
    Steelyard,
    ending,
    in_turns,
    interrupted,
    lasting,
    one_by_one,
    wait_for,
    whole_report,
)

pytestmark = pytest.mark.live


@pytest.mark.slow
@pytest.mark.parametrize("design", ["one-by-one", "alternating"])
def test_a_campaign_ends_with_verdicts_and_every_file_of_the_record(
    steelyard: Steelyard, design: str
) -> None:
    """One command gives verdicts with intervals and the whole campaign directory.

    Derived files are rebuilt from the record alone, by a process of its own, to the same bytes.
    """
    two = TINY.replace(
        "workloads:", "workloads:\n  - {name: reads, builtin: select-only, scale: 1}"
    )
    text = one_by_one(ending(two)).replace("one-by-one", design)
    if design == "alternating":
        text = text.replace("warm_up: 0s", "warm_up: 500ms, reconnects: 1")
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 0, done.stderr
    assert "default" in done.stdout
    assert "tps" in done.stdout
    path = steelyard.directory / "c"
    summary = json.loads((path / "summary.json").read_text())
    results = [c for c in summary["comparisons"] if c["clients"] == "pooled"]
    assert {c["workload"] for c in results} == {"reads", "writes"}
    assert all(c["blocks"] == 3 and c["low_percent"] < c["high_percent"] for c in results)
    for name in ("experiment.yaml", "schedule.json", "environment.json", "host.parquet"):
        assert (path / name).stat().st_size > 0
    raw = sorted((path / "raw").glob("0000-0-*.txt.gz"))
    assert len(raw) == 4
    assert "tps = " in gzip.decompress(raw[0].read_bytes()).decode()
    record = read_campaign(path)
    for run in record.counted_runs:
        measured = run.measurement
        assert measured is not None
        assert measured.latency_mean_s is not None
        assert run.latency is not None
        assert bool(run.turns) is (design == "alternating")
        if run.turns:
            assert measured.transactions == sum(turn.transactions for turn in run.turns) > 0
            assert measured.seconds == pytest.approx(sum(turn.seconds for turn in run.turns))
    told = "the load takes turns" in whole_report(path)
    assert told is (design == "alternating")
    derived = ("report.md", "report.html", "summary.json", "runs.parquet", "intervals.parquet")
    first = {name: (path / name).read_bytes() for name in derived}
    for name in derived:
        (path / name).unlink()
    assert steelyard.run("report", "c", "--write").returncode == 0
    assert {name: (path / name).read_bytes() for name in derived} == first


def _with_buffers(text: str, size_bytes: int) -> str:
    """Return an experiment whose two servers ask for so much each."""
    buffers = f"{size_bytes // MIB}MB"
    return text.replace(
        "embedded}", f"embedded}}\n    postgres: {{shared_buffers: {buffers}}}"
    ).replace("shared_buffers: 64MB", f"shared_buffers: {buffers}, max_connections: 90")


@pytest.mark.slow
def test_servers_that_do_not_fit_together_are_measured_one_by_one(steelyard: Steelyard) -> None:
    """The plan says so before anything is started; whoever asks for turns is refused."""
    amounts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    large = (int(amounts["MemAvailable"].split()[0]) << 10) * 45 // 100
    foretold = {}
    for name, size in (("small", 64 * MIB), ("large", large)):
        source = steelyard.experiment(_with_buffers(TINY, size), f"{name}.yaml")
        done = steelyard.run("run", source, "--dry-run", "--json")
        assert done.returncode == 0, done.stderr
        foretold[name] = json.loads(done.stdout)
    assert (foretold["small"]["mode"], foretold["large"]["mode"]) == ("alternating", "starts")
    told = steelyard.run("run", "large.yaml", "--dry-run").stdout
    assert "of memory are available" in " ".join(told.split())
    source = steelyard.experiment(_with_buffers(in_turns(), large), "asks.yaml")
    refused = steelyard.run("run", source, "--dry-run")
    assert refused.returncode == 2
    assert "the configurations cannot alternate: together they may take" in refused.stderr
    assert "Leave `design` out" in refused.stderr


def test_configurations_that_need_no_restart_are_weighed_back_to_back(steelyard: Steelyard) -> None:
    """A reloadable setting switches on the running server and is read back in force."""
    text = TINY.replace("shared_buffers: 64MB", "work_mem: 9MB, checkpoint_timeout: 11min")
    text = one_by_one(text.replace("warm_up: 0s", "warm_up: 0s, runs_per_start: 1"))
    options = ("--dir", "c", "--no-verdict", "--json")
    steelyard.until_blocks(1, "run", steelyard.experiment(text), *options)
    schedule = json.loads((steelyard.directory / "c" / "schedule.json").read_text())
    assert schedule["mode"] == "back-to-back"
    environment = json.loads((steelyard.directory / "c" / "environment.json").read_text())
    in_force = {
        server["configuration"]: next(
            s["value"] for s in server["settings"] if s["name"] == "work_mem"
        )
        for server in environment["servers"]
    }
    assert in_force == {"default": "4096", "buffers": "9216"}


@pytest.mark.slow
def test_two_versions_are_weighed_like_any_two_configurations(steelyard: Steelyard) -> None:
    """PostgreSQL 15 against the embedded 18: own data directories, one pgbench.

    Over the loopback connection, whose password is in no file of the record.
    """
    text = (
        TINY.replace(
            "    extends: default\n    postgres: {shared_buffers: 64MB}", "    target: OLDER"
        )
        .replace("  buffers:", "  older:")
        .replace("server: embedded}", "server: embedded, connection: tcp}")
        .replace("OLDER", '{kind: local, server: "15", connection: tcp}')
    )
    steelyard.until_blocks(1, "run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    environment = json.loads((steelyard.directory / "c" / "environment.json").read_text())
    majors = [server["version"].split(".")[0] for server in environment["servers"]]
    assert majors == ["18", "15"]
    checksums = [
        next(s["value"] for s in server["settings"] if s["name"] == "data_checksums")
        for server in environment["servers"]
    ]
    assert checksums == ["on", "on"]
    raw = next((steelyard.directory / "c" / "raw").glob("0000-*.txt.gz"))
    assert "tps = " in gzip.decompress(raw.read_bytes()).decode()
    for path in (steelyard.directory / "c").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        assert b"PGPASSWORD" not in content


def test_own_scripts_run_on_their_own_prepared_data(steelyard: Steelyard) -> None:
    """Scripts with weights and a prepare step are a workload like the builtin ones."""
    (steelyard.directory / "orders.sql").write_text(
        "CREATE TABLE orders (id bigint PRIMARY KEY, note text);\n"
        "INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 1000) n;\n"
    )
    (steelyard.directory / "read.sql").write_text(
        "\\set n random(1, 1000)\nSELECT note FROM orders WHERE id = :n;\n"
    )
    (steelyard.directory / "write.sql").write_text(
        "\\set n random(1, 1000)\nUPDATE orders SET note = note WHERE id = :n;\n"
    )
    workloads = (
        "workloads:\n  - name: orders\n    prepare: [orders.sql]\n"
        "    scripts: [{file: read.sql, weight: 9}, {file: write.sql, weight: 1}]\nload:"
    )
    text = TINY[: TINY.index("workloads:")] + workloads + TINY.split("load:")[1]
    steelyard.until_blocks(1, "run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    raw = next((steelyard.directory / "c" / "raw").glob("0000-*.txt.gz"))
    assert "multiple scripts" in gzip.decompress(raw.read_bytes()).decode()


@pytest.mark.slow
def test_every_start_starts_from_the_same_rows(steelyard: Steelyard) -> None:
    """After writes, the next start finds the prepared rows again, copied within the server."""
    script = (
        "INSERT INTO seen SELECT count(*) FROM seen;\n"
        "SELECT 1 / (count(*) <= 2000000)::int FROM seen;\n"
    )
    (steelyard.directory / "make.sql").write_text("CREATE TABLE seen (before bigint);\n")
    (steelyard.directory / "count.sql").write_text(script)
    workloads = (
        "workloads:\n  - {name: count, prepare: [make.sql], scripts: [{file: count.sql}]}\nload:"
    )
    text = TINY[: TINY.index("workloads:")] + workloads + TINY.split("load:")[1]
    text = text.replace("server: embedded}", "server: embedded, restore: template}")
    done = steelyard.until_blocks(
        2, "run", steelyard.experiment(text), "--dir", "c", "--no-verdict"
    )
    assert "is redone" not in done.stderr
    plan = json.loads((steelyard.directory / "c" / "summary.json").read_text())["design"]
    assert plan["restore"] == "template"


def _open_to(uid: int, gid: int, paths: Sequence[Path]) -> list[str]:
    """Return which files can be read, directories listed and sockets connected to as somebody."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        for path in paths:
            with suppress(OSError):
                _use(path)
                os.write(writer, f"{path}\n".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        found = said.read().split()
    os.waitpid(child, 0)
    return found


def _use(path: Path) -> None:
    if ".s.PGSQL." in path.name and path.suffix != ".lock":
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    elif path.is_dir():
        os.listdir(path)  # noqa: PTH208 - without following what it finds
    else:
        path.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as another account")
@pytest.mark.parametrize("account", ["nobody", None])
def test_other_processes_of_a_shared_account_are_kept_out(
    steelyard: Steelyard, account: str | None
) -> None:
    """They cannot read data, prepared or live, connect, or look into the server's process."""
    named = f"server: embedded, run_as: {account}}}" if account else "server: embedded}"
    text = one_by_one(lasting(TINY.replace("server: embedded}", named)))
    process = steelyard.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    found: list[Path] = []

    def is_up() -> bool:
        process.send_signal(signal.SIGSTOP)  # so that it stops no server while we try
        found[:] = _inside(steelyard)
        if found and len(_open_to(0, 0, found)) == len(found):
            return True
        process.send_signal(signal.SIGCONT)
        return False

    wait_for(lambda: bool(steelyard.runs), process)
    wait_for(is_up, process)
    shared = pwd.getpwnam("nobody")
    try:
        assert _open_to(shared.pw_uid, shared.pw_gid, found) == []
    finally:
        process.send_signal(signal.SIGCONT)
        interrupted(process)


def _inside(steelyard: Steelyard) -> list[Path]:
    """Return what there is of a campaign's data, sockets and processes; nothing where one lacks."""
    living = steelyard.cache / "live" / steelyard.campaign_id
    made = [Path(e["name"]) for e in steelyard.journal if e["kind"] == "created"]
    kinds = (
        list((steelyard.cache / "prepared").glob("*/data/PG_VERSION")),
        list(living.glob("*/data/PG_VERSION")),
        [path for each in made for path in each.glob(".s.PGSQL.*[0-9]")],
        [cwd for cwd in Path("/proc").glob("[0-9]*/cwd") if _is_below(cwd, living)],
    )
    return [path for kind in kinds for path in kind] if all(kinds) else []


def _is_below(link: Path, directory: Path) -> bool:
    try:
        return os.readlink(link).startswith(f"{directory}/")  # noqa: PTH115
    except OSError:
        return False
