"""The probe of the server on real servers of 15 and 18: exact counts, and no harm."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from steelyard.campaign.evidence import watch as watching
from steelyard.campaign.evidence.server import ServerProbe
from steelyard.core.measurement import BEGIN, COMMIT, STATEMENTS, Evidence, Quantity, WaitClass
from steelyard.core.outside import ServerAddress
from steelyard.core.wording import SteelyardError
from steelyard.gateways.host import LocalHost
from steelyard.gateways.process import Processes
from steelyard.gateways.sql import Sql
from steelyard.places.local.server import staged
from steelyard.systems.postgres import pgbench
from steelyard.systems.postgres.reader import READER_NAME, open_reader
from steelyard.systems.postgres.server import find_clients, find_installation, wheel_parts
from support.endpoint import Server, run, started
from support.lacking import lacking
from support.live import TINY, Steelyard, lasting, one_by_one, wait_for
from support.watching import seen_by

pytestmark = pytest.mark.live

_DATABASE = "watched"
_CLIENTS = 4


def _of(*versions: str) -> pytest.MarkDecorator:
    """Take these versions alone: what is asked of them is the same in the others."""
    return pytest.mark.parametrize("watched", versions, indirect=True)


@pytest.fixture(scope="module", params=["15", "embedded"])
def watched(request: pytest.FixtureRequest, cache: Path) -> Iterator[Server]:
    """A server of each version with pgbench's tables, where nobody but the test works."""
    account = "nobody" if os.geteuid() == 0 else None
    processes = Processes()
    try:
        found = find_installation(request.param, processes)
    except SteelyardError as error:
        lacking(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEELYARD_CACHE", str(cache))
        label = f"watched-{request.param}"
        parts = wheel_parts(found)
        place = staged(found.programs, parts, label, account=account, processes=processes)
    with started(place) as server:
        server.do(
            *("ALTER SYSTEM SET autovacuum = off", "ALTER SYSTEM SET fsync = on"),
            *("ALTER SYSTEM SET shared_buffers = '64MB'", f"CREATE DATABASE {_DATABASE}"),
        )
        if _has_library(server):
            server.do("ALTER SYSTEM SET shared_preload_libraries = pg_stat_statements")
        run(server.restart_command)
        _generate(server, "--initialize", "--quiet")
        yield server


def _has_library(server: Server) -> bool:
    """Return whether pg_stat_statements came with the server."""
    name = "SELECT name FROM pg_available_extensions WHERE name = 'pg_stat_statements'"
    return bool(server.rows(name))


def _need_library(server: Server) -> None:
    if _has_library(server):
        return
    lacking(f"{server.programs} has no pg_stat_statements")


def _address(server: Server, user: str = "postgres") -> ServerAddress:
    return ServerAddress(host=str(server.home), port=server.port, user=user, database=_DATABASE)


def _generate(server: Server, *arguments: str, user: str = "postgres") -> int:
    """Run pgbench as the product does; return its transactions."""
    program = find_clients(Processes()).program("pgbench")
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, **pgbench.environment(_address(server, user))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    processed = re.search(r"actually processed: (\d+)", done.stdout)
    return int(processed[1]) if processed else 0


def _watched_run(server: Server, *arguments: str, seconds: int = 3) -> tuple[int, Evidence]:
    """Return the transactions of a run, and what the probe saw of it."""
    probe = ServerProbe(
        open_reader=lambda: open_reader(Sql(), _address(server), is_own=True),
        ramp_s=1.0,
        nearby=LocalHost(),
    )
    work = ("--no-vacuum", f"--client={_CLIENTS}", f"--time={seconds}", *arguments)
    return seen_by(lambda: _generate(server, *work), probe)


def _sessions(server: Server) -> int:
    """Return how many sessions of the probe are on the server."""
    rows = server.rows("SELECT application_name FROM pg_stat_activity")
    return rows.count((READER_NAME,))


@pytest.mark.slow
def test_commits_are_the_generators_to_the_last_one(watched: Server) -> None:
    """Nothing is unreported, and nothing that the probe did is among them.

    Beside its transactions pgbench commits twice per client (connecting, preparing) and three
    times for itself (connecting, and asking for the scale and the partitions).
    """
    transactions, evidence = _watched_run(watched, "--builtin=simple-update", "--protocol=prepared")
    assert transactions > 0
    assert evidence.total(Quantity.COMMITS) == transactions + 2 * _CLIENTS + 3
    assert evidence.total(Quantity.ROWS_UPDATED) == transactions
    assert evidence.total(Quantity.ROWS_INSERTED) == transactions
    counted = evidence.series_of("counters")
    assert counted is not None
    assert len(counted.rows) >= 2
    in_series = sum(row[counted.names.index(Quantity.COMMITS)] or 0 for row in counted.rows)
    assert 0 < in_series <= transactions + 2 * _CLIENTS + 3


@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_statements_are_the_generators_to_the_last_call(watched: Server, protocol: str) -> None:
    """One call of each per transaction, with its WAL; nothing that the probe asks is among them.

    Of BEGIN and END that a session has prepared, the server counts the first execution only.
    """
    _need_library(watched)
    work = ("--builtin=simple-update", f"--protocol={protocol}")
    transactions, evidence = _watched_run(watched, *work)
    assert evidence.statements is not None
    calls = {each.text: each.calls for each in evidence.statements}
    counted = _CLIENTS if protocol == "prepared" else transactions
    assert (calls[BEGIN], calls[COMMIT]) == (counted, counted)
    each_one = ("UPDATE pgbench_accounts", "SELECT abalance", "INSERT INTO pgbench_history")
    for start in each_one:
        assert [calls[text] for text in calls if text.startswith(start)] == [transactions]
    update = next(each for each in evidence.statements if each.text.startswith("UPDATE"))
    assert update.rows == transactions
    assert update.wal_bytes > 50 * transactions
    assert 0 < update.seconds < evidence.seconds * _CLIENTS
    assert update.pages_hit > transactions
    assert not any("pg_stat" in each.text for each in evidence.statements)


@_of("15")
def test_a_database_of_others_is_not_given_the_extension(watched: Server) -> None:
    """It is said how to make it; and that statements were forgotten while a run went on."""
    _need_library(watched)
    watched.do("CREATE DATABASE others")
    address = replace(_address(watched), database="others")
    reader = open_reader(Sql(), address)
    assert reader.statements() is None
    reader.close()
    (absence,) = [each for each in reader.absent if each.subject == STATEMENTS]
    assert "CREATE EXTENSION pg_stat_statements" in absence.reason
    assert watched.rows("SELECT count(*) FROM pg_extension", "others") == [(1,)]
    watched.do("DROP DATABASE others")
    probe = ServerProbe(
        open_reader=lambda: open_reader(Sql(), _address(watched), is_own=True),
        ramp_s=0.0,
        nearby=None,
    )
    _generate(watched, "--no-vacuum", "--transactions=1")
    reset = "SELECT pg_stat_statements_reset()"
    _, evidence = seen_by(lambda: watched.do(reset, database=_DATABASE), probe)
    assert evidence.statements is None
    (absence,) = [each for each in evidence.absent if each.subject == STATEMENTS]
    assert "was reset during the run" in absence.reason


def test_an_idle_server_has_counted_nothing(watched: Server) -> None:
    """The probe's own reading is not among the workload's: not a row, a page or a commit."""
    reader = open_reader(Sql(), _address(watched))
    before = reader.counters()
    for _ in range(5):
        reader.waits()
        reader.counters()
    after = reader.settled_counters()
    reader.close()
    of_the_database = [
        *(Quantity.COMMITS, Quantity.ROLLBACKS, Quantity.ROWS_RETURNED, Quantity.ROWS_FETCHED),
        *(Quantity.PAGES_HIT, Quantity.PAGES_READ, Quantity.ROWS_INSERTED),
    ]
    assert {name: after[name] - before[name] for name in of_the_database} == dict.fromkeys(
        of_the_database, 0
    )


@_of("15", "embedded")
def test_only_a_commit_that_waits_for_the_disk_waits_for_the_wal(watched: Server) -> None:
    """synchronous_commit decides whether sessions are seen at the WAL's sync, and how often it is.

    With it off, the WAL writer syncs a few times a second for all of them.
    """
    found = {}
    for value in ("on", "off"):
        watched.do(f"ALTER DATABASE {_DATABASE} SET synchronous_commit = {value}", "CHECKPOINT")
        transactions, evidence = _watched_run(watched, "--builtin=simple-update")
        assert evidence.waits is not None
        syncs = evidence.total(Quantity.WAL_SYNCS)
        assert syncs is not None
        names = {event.name.lower() for event in evidence.waits.events}
        found[value] = (evidence.waits.sessions_in(WaitClass.WAL), names, syncs / transactions)
    watched.do(f"ALTER DATABASE {_DATABASE} RESET synchronous_commit")
    assert found["on"][0] > 0
    assert "walsync" in found["on"][1]
    assert "walsync" not in found["off"][1]
    assert found["off"][0] < found["on"][0] / 10
    assert found["off"][2] < found["on"][2] / 3


def test_sessions_are_as_many_as_clients(watched: Server) -> None:
    """Each client is seen in each sample, in one class or another, and the cost is told."""
    _, evidence = _watched_run(watched, "--builtin=select-only", seconds=4)
    absent = {each.subject for each in evidence.absent}
    assert (STATEMENTS in absent) is not _has_library(watched)
    assert absent - {STATEMENTS} in (
        set(),
        {Quantity.PAGES_WRITTEN, Quantity.RELATION_READ_BYTES, Quantity.RELATION_SYNCS},
    )
    assert evidence.waits is not None
    assert sum(event.sessions for event in evidence.waits.events) == pytest.approx(_CLIENTS, 0.1)
    assert evidence.waits.samples > 5
    assert evidence.cost is not None
    assert evidence.cost.server_cpu_s
    assert evidence.level(Quantity.SHARED_BUFFERS_BYTES) == 64 * 2**20
    assert _sessions(watched) == 0


@_of("embedded")
def test_a_role_without_rights_sees_its_own_sessions_only(watched: Server) -> None:
    """Another's sessions are absent until pg_monitor is granted; the counters are there anyway."""
    work = ("--no-vacuum", "--select-only", "--client=2", "--time=2")
    seen = {}
    for generator, granted in (("postgres", False), ("postgres", True), ("poor", False)):
        watched.do(
            f"{'GRANT' if granted else 'REVOKE'} pg_monitor {'TO' if granted else 'FROM'} poor"
        )
        watched.do("GRANT SELECT ON ALL TABLES IN SCHEMA public TO poor", database=_DATABASE)
        probe = ServerProbe(
            open_reader=lambda: open_reader(Sql(), _address(watched, "poor")),
            ramp_s=0.0,
            nearby=None,
        )
        _, evidence = seen_by(partial(_generate, watched, *work, user=generator), probe)
        assert (evidence.total(Quantity.COMMITS) or 0) > 0
        reasons = [a.reason for a in evidence.absent if a.subject == "wait events"]
        assert (evidence.waits is None) == bool(reasons)
        seen[generator, granted] = reasons
    assert "GRANT pg_monitor" in seen["postgres", False][0]
    assert seen["postgres", True] == []
    assert seen["poor", False] == []


@contextmanager
def _hanging(server: Server) -> Iterator[None]:
    """Stop every process of a server, and let them go on afterwards."""
    pids = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == server.data:
                pids.append(int(entry.name))
        except OSError:
            continue
    for pid in pids:
        with suppress(ProcessLookupError):  # a worker that has ended meanwhile
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@_of("embedded")
@pytest.mark.parametrize("moment", ["before", "in"])
def test_a_server_that_hangs_is_not_waited_for(
    watched: Server, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it still hangs the run is over and the probe absent; later no session is left."""
    begin_within_s = 0.5 if moment == "before" else 30.0
    monkeypatch.setattr(watching, "BEGIN_WITHIN_S", begin_within_s)
    monkeypatch.setattr(watching, "END_WITHIN_S", 0.5)
    probe = ServerProbe(
        open_reader=lambda: open_reader(Sql(), _address(watched)), ramp_s=0.0, nearby=None
    )
    with ExitStack() as hanging:
        if moment == "before":
            hanging.enter_context(_hanging(watched))
            _, evidence = seen_by(lambda: None, probe)
        else:
            _, evidence = seen_by(lambda: hanging.enter_context(_hanging(watched)), probe)
    (absence,) = evidence.absent
    assert re.search("within|timeout expired", absence.reason)
    assert evidence.totals == {}
    wait_for(lambda: _sessions(watched) == 0)


@pytest.mark.slow
def test_every_run_of_a_campaign_has_its_evidence(steelyard: Steelyard) -> None:
    """Wait events, counters and what they cost stand in the journal, and in tables."""
    text = TINY.replace("shared_buffers: 64MB", "work_mem: 9MB")  # no restart in between
    source = steelyard.experiment(one_by_one(lasting(text)))
    steelyard.until_blocks(1, "run", source, "--dir", "c", "--no-verdict")
    assert steelyard.counted_runs
    for taken in steelyard.counted_runs:
        evidence = taken["evidence"]
        assert "server" not in {absence["subject"] for absence in evidence["absent"]}
        assert evidence["waits"]["source"] == "pg_stat_activity at 10 Hz"
        assert evidence["totals"]["commits"] >= taken["measurement"]["transactions"]
        assert evidence["cost"]["server_cpu_s"] > 0
    for name in ("waits", "counters"):
        assert (steelyard.directory / "c" / f"{name}.parquet").stat().st_size > 0
