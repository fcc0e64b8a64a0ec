"""Load from another host by the user's own ssh: a real sshd, and nothing left over there."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_inspections import over_ssh
from test_turns_of_endpoints import MAKE, NAP, NAPS
from test_turns_of_redis import ratios

from steelyard.places.local.server import MEMORY
from support.endpoint import ADMIN_PASSWORD, Server, started
from support.live import Steelyard, wait_for
from support.ssh_server import ssh_server

pytestmark = pytest.mark.live

FAR = (
    NAPS.replace("design: alternating", "design: DESIGN")
    .replace("\nmeasure:", '\ngenerator: {host: "ssh://lab"}\nmeasure:')
    .replace(", turn: 250ms", "")
)


@pytest.fixture
def far(
    steelyard: Steelyard, server: Server, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Steelyard]:
    """Steelyard beside two servers and a host that ssh reaches."""
    (steelyard.directory / "make.sql").write_text(MAKE)
    (steelyard.directory / "nap.sql").write_text(NAP)
    text, home = FAR.replace("FIRST", _uri(server)), tmp_path_factory.mktemp("ssh")
    with started(programs) as other, ssh_server(home) as host:
        text = text.replace("SECOND", _uri(other))
        for name, design in (("turns.yaml", "alternating"), ("visits.yaml", "one-by-one")):
            steelyard.experiment(text.replace("DESIGN", design), name)
        yield over_ssh(steelyard, host.programs)
        assert _left(host.temporary) == []
    known = [entry["campaign_id"] for entry in steelyard.journal if entry["kind"] == "started"]
    assert [path for each in known for path in MEMORY.glob(f"steelyard-{each}-*")] == []


def _uri(server: Server) -> str:
    """Return how a server is reached from elsewhere, by a password."""
    return f"postgresql://postgres@127.0.0.1:{server.port}/postgres"


def _left(temporary: Path) -> list[str]:
    """Return what agents of a host have left: directories, and processes that work in them."""
    found = [str(each) for each in temporary.iterdir()]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        found += [words] if str(temporary) in words else []
    return found


def _with_password(steelyard: Steelyard) -> Steelyard:
    return replace(steelyard, extra={**steelyard.extra, "PGPASSWORD": ADMIN_PASSWORD})


def test_turns_from_another_host(far: Steelyard) -> None:
    """What makes one slower shows in a block; the record says where the load came from."""
    done = _with_password(far).until_blocks(1, "run", "turns.yaml", "--out", "c", "--yes")
    found = ratios(far.counted_runs, "two", "one")
    assert len(found) == far.complete_blocks
    assert all(ratio < -0.1 for ratio in found)
    (plan,) = (entry["plan"] for entry in far.journal if entry["kind"] == "planned")
    assert plan["pausing"] == "generator"
    assert ADMIN_PASSWORD not in (far.directory / "c" / "journal.jsonl").read_text() + done.stderr
    report = (far.directory / "c" / "report.md").read_text()
    assert "ssh://lab" in report


@pytest.mark.slow
def test_visits_from_another_host(far: Steelyard) -> None:
    """A whole run over there: its rate, its log, its CPU, and its round trip to the server."""
    file = far.directory / "visits.yaml"
    file.write_text(file.read_text().replace("ceilings: off", "ceilings: on"))
    _with_password(far).until_blocks(1, "run", "visits.yaml", "--out", "c", "--yes")
    told = json.loads((far.directory / "c" / "environment.json").read_text())
    taken = [each for each in told["ceilings"] if each["kind"] == "round trip"]
    assert [len(trip["configurations"]) for trip in taken] == [1, 1]
    assert all(trip["samples"] == 500 and "on its host" in trip["how"] for trip in taken)
    assert far.runs
    for run in far.runs:
        assert run["measurement"]["latency_mean_s"] > 0
        evidence = run["evidence"]
        assert evidence["levels"]["generator_cpus"] == os.cpu_count()
        assert 0 < evidence["totals"]["generator_cpu_s"] < run["measurement"]["seconds"] + 2


@pytest.mark.slow
def test_a_death_leaves_nothing_that_works(far: Steelyard) -> None:
    """After kill -9 programs over there end with the connection, and the agent with its lease."""
    process = _with_password(far.with_short_leases).start(
        "run", "turns.yaml", "--out", "c", "--yes"
    )
    wait_for(lambda: far.runs, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    programs = Path(far.extra["PATH"].partition(":")[0])
    wait_for(lambda: not _left(programs.with_name("tmp")))
    assert _with_password(far).run("clean", "--yes").returncode == 0
