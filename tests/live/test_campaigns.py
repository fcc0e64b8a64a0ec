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

from support.live import TINY, Steelyard, ending, interrupted, lasting, one_by_one, wait_for

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_a_restart_campaign_ends_with_verdicts_and_every_file_of_the_record(
    steelyard: Steelyard,
) -> None:
    """One command gives verdicts with intervals and the whole campaign directory.

    The report is rebuilt from the record alone, by a process of its own, to the same bytes.
    """
    two = TINY.replace(
        "workloads:", "workloads:\n  - {name: reads, builtin: select-only, scale_factor: 1}"
    )
    done = steelyard.run("run", steelyard.experiment(one_by_one(ending(two))), "--out", "c")
    assert done.returncode == 0, done.stderr
    record = steelyard.directory / "c"
    summary = json.loads((record / "summary.json").read_text())
    results = [c for c in summary["comparisons"] if c["clients"] == "pooled"]
    assert {c["workload"] for c in results} == {"reads", "writes"}
    for name in ("experiment.yaml", "schedule.json", "environment.json", "journal.jsonl"):
        assert (record / name).stat().st_size > 0
    for name in ("runs.parquet", "host.parquet", "intervals.parquet", "report.md", "report.html"):
        assert (record / name).stat().st_size > 0
    assert all(c["blocks"] == 3 and c["low_percent"] < c["high_percent"] for c in results)
    assert "default" in done.stdout
    assert "tps" in done.stdout
    raw = sorted((record / "raw").glob("0000-0-*.txt.gz"))
    assert len(raw) == 4
    assert "tps = " in gzip.decompress(raw[0].read_bytes()).decode()
    _rebuilt_to_the_same_bytes(steelyard)


def _rebuilt_to_the_same_bytes(steelyard: Steelyard) -> None:
    """Assert that what is derived from the record comes back equal when it was deleted."""
    names = ("report.md", "report.html", "summary.json", "runs.parquet", "intervals.parquet")
    first = {name: (steelyard.directory / "c" / name).read_bytes() for name in names}
    for name in names:
        (steelyard.directory / "c" / name).unlink()
    assert steelyard.run("report", "c").returncode == 0
    assert {n: (steelyard.directory / "c" / n).read_bytes() for n in names} == first


def test_configurations_that_need_no_restart_are_weighed_back_to_back(steelyard: Steelyard) -> None:
    """A reloadable setting switches on the running server and is read back in force."""
    text = TINY.replace("shared_buffers: 64MB", "work_mem: 9MB, checkpoint_timeout: 11min")
    text = one_by_one(text.replace("warm_up: 0s", "warm_up: 0s, rounds: 1"))
    options = ("--out", "c", "--yes", "--json")
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
        .replace("bin: embedded}", "bin: embedded, connection: tcp}")
        .replace("OLDER", '{kind: local, bin: "15", connection: tcp}')
    )
    steelyard.until_blocks(1, "run", steelyard.experiment(text), "--out", "c", "--yes")
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
        "    scripts: [{file: read.sql, weight: 9}, {file: write.sql, weight: 1}]\nloads:"
    )
    text = TINY[: TINY.index("workloads:")] + workloads + TINY.split("loads:", 2)[2]
    steelyard.until_blocks(1, "run", steelyard.experiment(text), "--out", "c", "--yes")
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
        "workloads:\n  - {name: count, prepare: [make.sql], scripts: [{file: count.sql}]}\nloads:"
    )
    text = TINY[: TINY.index("workloads:")] + workloads + TINY.split("loads:", 2)[2]
    text = text.replace("bin: embedded}", "bin: embedded, restore: template}")
    done = steelyard.until_blocks(2, "run", steelyard.experiment(text), "--out", "c", "--yes")
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
    named = f"bin: embedded, run_as: {account}}}" if account else "bin: embedded}"
    text = one_by_one(lasting(TINY.replace("bin: embedded}", named)))
    process = steelyard.start("run", steelyard.experiment(text), "--out", "c", "--yes")
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
