"""A network that breaks between Steelyard and an endpoint: cut, reset, stalled, and for ever."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.endpoint import Server, at_work
from support.live import LIMIT_S, Steelyard, interrupted, lasting, redone_in_all_arms, wait_for
from support.proxy import Proxy, proxy_to
from support.striking import strike

if TYPE_CHECKING:
    import subprocess

pytestmark = [pytest.mark.live, pytest.mark.slow]

WEIGHED = """\
version: 1
name: broken network
baseline: default
design: one-by-one
workloads:
  - {name: writes, builtin: simple-update, scale: 1}
load: {clients: 2, threads: 1, protocol: simple}
measure: {run_time: 2s, discard_start: 0s, warm_up: 0s}
stop: {budget: 5m, width: 99%}
seed: 7
configurations:
  default:
    target: {kind: existing}
  other:
    extends: default
    postgres: {maintenance_work_mem: 65MB}
"""


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Return a proxy before the server, which is as it was after the test."""
    before = (server.configuration, server.databases)
    with proxy_to(server.port) as made:
        yield made
    assert (server.configuration, server.databases) == before


def _through(steelyard: Steelyard, server: Server, proxy: Proxy) -> Steelyard:
    variables = {**steelyard.extra, **server.tcp, "PGPORT": str(proxy.port)}
    return replace(steelyard, extra=variables)


def _broken_in_a_run(
    steelyard: Steelyard, server: Server, breaks: Callable[[], object], text: str = WEIGHED
) -> "subprocess.Popen[str]":
    """Start a campaign and break the network so that a run after the first is lost."""
    process = steelyard.start(
        "run", steelyard.experiment(lasting(text)), "--dir", "c", "--no-verdict"
    )
    strike(steelyard, process, lambda: at_work(server), breaks)
    return process


def test_lost_connections_cost_one_block(
    steelyard: Steelyard, server: Server, proxy: Proxy
) -> None:
    """Reset in a run, the block is void and redone in all arms; nothing else is lost."""
    through = _through(steelyard, server, proxy)
    lost: list[int] = []
    process = _broken_in_a_run(through, server, lambda: lost.append(proxy.reset()))
    wait_for(lambda: redone_in_all_arms(through), process)
    err = interrupted(process).stderr
    assert any(lost)
    assert "is redone" in err
    assert "Traceback" not in err


def test_a_stall_costs_one_block(steelyard: Steelyard, server: Server, proxy: Proxy) -> None:
    """A run that never ends is given up; when packets flow again the campaign goes on."""
    through = _through(steelyard.impatient, server, proxy)
    process = _broken_in_a_run(through, server, proxy.stall)
    wait_for(lambda: any(not block["complete"] for block in through.blocks), process)
    proxy.flow()
    wait_for(lambda: redone_in_all_arms(through), process)
    err = interrupted(process).stderr
    assert "is redone" in err
    assert "Traceback" not in err
    assert any("did not end within" in block["reason"] for block in through.blocks)


def _refuse(proxy: Proxy) -> None:
    proxy.refuse = True
    proxy.cut()


@pytest.mark.parametrize(
    ("design", "breaks", "left"),
    [
        ("one-by-one", _refuse, "settings maintenance_work_mem on"),
        ("alternating", Proxy.stall, "database steelyard_"),
    ],
)
def test_a_network_that_stays_broken_ends_the_campaign_and_clean_undoes_it(
    steelyard: Steelyard,
    server: Server,
    proxy: Proxy,
    design: str,
    breaks: Callable[[Proxy], None],
    left: str,
) -> None:
    """Exit 5 with the way out; what is left is listed, and gone when the server is back.

    The campaign then resumes, with all runs that were recorded.
    """
    through = _through(steelyard.impatient, server, proxy)
    text = WEIGHED.replace("one-by-one", design)
    if design == "alternating":  # turns hold a hundred latencies, and others write to the device
        text = text.replace("simple-update", "select-only")
    process = _broken_in_a_run(through, server, lambda: breaks(proxy), text)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 5, err
    assert "Traceback" not in err
    assert "failed 3 times" in err
    assert "run --resume" in err
    assert "left behind: " in err
    assert left in err
    assert "steelyard clean" in err
    before = through.runs
    failed = through.run("clean", "--yes")
    assert failed.returncode == 7, failed.stderr
    assert "again" in failed.stderr
    proxy.flow()
    cleaned = through.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert server.databases == set()
    through.resumed_for_a_block()
    assert through.runs[: len(before)] == before
    assert len(through.runs) > len(before)
