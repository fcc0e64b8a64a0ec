"""A network that breaks between Steelyard and an endpoint: cut, reset, stalled, and for ever."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.endpoint import Server, at_work
from support.live import Steelyard, redone_in_all_arms, wait_for
from support.proxy import Proxy, proxy_to

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.live

WEIGHED = """\
version: 1
name: broken network
baseline: default
workloads:
  - {name: writes, builtin: simple-update, scale_factor: 1}
loads: {clients: 2, threads: 1}
measure: {slice: 2s, ramp: 0s, discard: 0s}
stop: {budget: 30s}
seed: 7
treatments:
  default:
    target: {kind: endpoint}
  other:
    extends: default
    postgres: {work_mem: 9MB}
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
    steelyard: Steelyard, server: Server, breaks: Callable[[], object], *more: str
) -> "subprocess.Popen[str]":
    """Start a campaign and break the network during a run after the first."""
    name = steelyard.experiment(WEIGHED)
    process = steelyard.start("run", name, "--out", "c", "--yes", *more)
    wait_for(lambda: len(steelyard.runs) >= 1 or process.poll() is not None, 180)
    wait_for(lambda: at_work(server) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    breaks()
    return process


@pytest.mark.parametrize("how", ["cut", "reset"])
def test_lost_connections_cost_one_block(
    steelyard: Steelyard, server: Server, proxy: Proxy, how: str
) -> None:
    """Closed or reset in a run, the block is void and redone in all arms; nothing else is lost."""
    through = _through(steelyard, server, proxy)
    lost: list[int] = []
    process = _broken_in_a_run(through, server, lambda: lost.append(getattr(proxy, how)()))
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert lost[0] > 0
    assert "is redone" in err
    assert "Traceback" not in err
    assert redone_in_all_arms(through)


def test_a_stall_costs_one_block(steelyard: Steelyard, server: Server, proxy: Proxy) -> None:
    """A run that never ends is given up; when packets flow again the campaign goes on."""
    through = _through(steelyard.impatient, server, proxy)
    process = _broken_in_a_run(through, server, proxy.stall)
    wait_for(lambda: any(not block["complete"] for block in through.blocks), 120)
    proxy.flow()
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "is redone" in err
    assert "Traceback" not in err
    assert any("did not end within" in block["reason"] for block in through.blocks)
    assert redone_in_all_arms(through)


def _refuse(proxy: Proxy) -> None:
    proxy.refuse = True
    proxy.cut()


# The budgets leave something for the time after the outage: each look at a stalled server takes
# libpq's ten seconds.
@pytest.mark.parametrize(("breaks", "budget"), [(_refuse, "60s"), (Proxy.stall, "130s")])
def test_a_network_that_stays_broken_ends_the_campaign_and_clean_undoes_it(
    steelyard: Steelyard,
    server: Server,
    proxy: Proxy,
    breaks: Callable[[Proxy], None],
    budget: str,
) -> None:
    """Exit 5 with the way out; what is left is listed, and gone when the server is back.

    The campaign then resumes, with all runs that were recorded.
    """
    through = _through(steelyard.impatient, server, proxy)
    more = ("--set", f"stop.budget={budget}")
    process = _broken_in_a_run(through, server, lambda: breaks(proxy), *more)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 5, err
    assert "Traceback" not in err
    assert "failed 3 times" in err
    assert "run --resume" in err
    assert "left behind: " in err
    assert "settings work_mem on" in err
    assert "steelyard clean" in err
    before = through.runs
    failed = through.run("clean", "--yes")
    assert failed.returncode == 7, failed.stderr
    assert "again" in failed.stderr
    proxy.flow()
    cleaned = through.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert server.databases == set()
    resumed = through.run("run", "--resume", "c")
    assert resumed.returncode == 0, resumed.stderr
    assert through.runs[: len(before)] == before
    assert len(through.runs) > len(before)
