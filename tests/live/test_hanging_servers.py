"""Servers that hang, are restarted by somebody else, or take nobody any more."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from support import live
from support.endpoint import Server, at_work
from support.endpoint import run as command
from support.striking import signal_server, strike, strike_local

pytestmark = [pytest.mark.live, pytest.mark.slow]

SLOWER = live.one_by_one(live.lasting(live.TINY.replace("run_time: 1s", "run_time: 2s")))


def _at(server: Server) -> str:
    text = SLOWER.replace(
        "{kind: local, server: embedded}", f'{{kind: existing, uri: "{server.uri}"}}'
    )
    return text.replace("shared_buffers: 64MB", "work_mem: 9MB")


@pytest.fixture
def untouched(server: Server) -> Iterator[None]:
    """After the test the server is as it was."""
    before = (server.configuration, server.databases)
    yield
    assert (server.configuration, server.databases) == before


def _in_a_run(steelyard: live.Steelyard, text: str) -> "subprocess.Popen[str]":
    """Start a campaign and return after its first run."""
    process = steelyard.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    live.wait_for(lambda: len(steelyard.runs) >= 1, process)
    return process


def _ended_with_a_block_redone(process: "subprocess.Popen[str]", steelyard: live.Steelyard) -> None:
    live.wait_for(lambda: live.redone_in_all_arms(steelyard), process)
    err = live.interrupted(process).stderr
    assert "is redone" in err
    assert "Traceback" not in err


def test_a_local_server_that_hangs_for_ever_costs_one_block(steelyard: live.Steelyard) -> None:
    """All its processes are stopped in a run: the run is given up, they are ended, it is redone."""
    process = _in_a_run(steelyard.impatient, SLOWER)
    strike_local(steelyard, process, lambda data: signal_server(data, signal.SIGSTOP))
    _ended_with_a_block_redone(process, steelyard)
    assert any("did not end within" in block["reason"] for block in steelyard.blocks)


def test_a_local_server_restarted_by_somebody_else_costs_one_block(
    steelyard: live.Steelyard, programs: Path
) -> None:
    """A `pg_ctl restart` in a run makes a server that is not ours: it is ended, ours is back."""
    process = _in_a_run(steelyard, SLOWER)
    strike_local(steelyard, process, partial(_restart, programs))
    _ended_with_a_block_redone(process, steelyard)


def _restart(programs: Path, data: Path) -> None:
    """Restart a server as its account would."""
    owner = data.stat()
    argv = [str(programs / "pg_ctl"), "restart", "-D", str(data), "-m", "fast", "-w"]
    argv += ["-l", "/dev/null"]
    if os.geteuid() == 0:
        ids = [f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}"]
        argv = ["setpriv", *ids, "--clear-groups", *argv]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    # Whether it comes up before Steelyard ends it is a race that both may win.
    subprocess.run(argv, check=False, cwd="/", timeout=live.LIMIT_S, **quiet)  # type: ignore[call-overload]


@contextmanager
def _full(server: Server) -> Iterator[None]:
    """Take every connection that the server has, also those that others give back."""
    where = f"host={server.home} port={server.port} user=postgres dbname=postgres"
    taken: list[psycopg.Connection[tuple[object, ...]]] = []
    refused, stop = threading.Event(), threading.Event()

    def take() -> None:
        while not stop.is_set():
            try:
                taken.append(psycopg.connect(where))
            except psycopg.OperationalError:
                refused.set()
                stop.wait(0.02)

    taking = threading.Thread(target=take)
    taking.start()
    try:
        assert refused.wait(live.LIMIT_S), "the server never ran out of connections"
        yield
    finally:
        stop.set()
        taking.join()
        for connection in taken:
            connection.close()


@pytest.mark.usefixtures("untouched")
def test_an_endpoint_that_stays_full_ends_the_campaign(
    steelyard: live.Steelyard, server: Server
) -> None:
    """Exit 5 with the server's own words; what could not be put back is listed and cleaned."""
    process = _in_a_run(steelyard, _at(server))
    with _full(server):
        _, err = process.communicate(timeout=live.LIMIT_S)
    assert process.returncode == 5, err
    assert "Traceback" not in err
    assert "has no connection left" in err
    assert "run --resume" in err
    assert "left behind: " in err
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    steelyard.resumed_for_a_block()


@pytest.mark.usefixtures("untouched")
def test_an_endpoint_restarted_by_somebody_else_costs_one_block(
    steelyard: live.Steelyard, server: Server
) -> None:
    """Its sessions are lost in a run: the block is redone on the restarted server."""
    process = _in_a_run(steelyard, _at(server))
    strike(steelyard, process, lambda: at_work(server), lambda: command(server.restart_command))
    _ended_with_a_block_redone(process, steelyard)
