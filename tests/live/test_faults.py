"""What goes wrong outside: each a sentence of fact, an exit code, nothing lost, nothing left."""

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from steelyard.gateways.cgroups import Cgroups
from support import live
from support.striking import kill_postmaster, strike_local

if TYPE_CHECKING:
    import subprocess

pytestmark = pytest.mark.live


TWO = live.TINY.replace(
    "workloads:", "workloads:\n  - {name: reads, builtin: select-only, scale: 1}"
)


def _started(steelyard: live.Steelyard, text: str) -> "subprocess.Popen[str]":
    return steelyard.start("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")


@pytest.mark.slow
def test_a_server_killed_during_a_run_costs_one_block_and_nothing_else(
    steelyard: live.Steelyard,
) -> None:
    """SIGKILL of the postmaster voids the block in all arms; it is redone and counts."""
    process = _started(steelyard, live.lasting(TWO))
    live.wait_for(lambda: steelyard.complete_blocks >= 1, process)
    strike_local(steelyard, process, kill_postmaster)
    live.wait_for(lambda: live.redone_in_all_arms(steelyard), process)
    assert "is redone" in live.interrupted(process).stderr
    summary = json.loads((steelyard.directory / "c" / "summary.json").read_text())
    assert len(summary["blocks_redone"]) >= 1
    assert "thrown away" in live.whole_report(steelyard.directory / "c")


@pytest.mark.parametrize("kind", [live.napping, live.in_turns], ids=["in a run", "at starts"])
def test_ctrl_c_reports_what_there_is_and_exits_130(
    steelyard: live.Steelyard, kind: Callable[[str], str]
) -> None:
    """SIGINT ends in order: reports exist, the exit code is 130, and the way on is printed.

    Also where all servers of the next block start side by side; nothing runs or stands still then.
    """
    process = _started(steelyard, kind(live.lasting()))
    live.wait_for(lambda: steelyard.complete_blocks >= 1, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=live.LIMIT_S)
    assert process.returncode == 130, err
    assert "--resume" in err
    assert (steelyard.directory / "c" / "report.html").exists()
    assert "interrupted" in out
    assert json.loads((steelyard.directory / "c" / "summary.json").read_text())["status"] == (
        "interrupted"
    )
    assert live.living_servers(steelyard.cache) == []
    groups = (root.glob(f"steelyard-{steelyard.campaign_id}*") for root in Cgroups().roots())
    assert [path for each in groups for path in each] == []
    assert steelyard.run("clean", "--dry-run").stdout.startswith("No campaign has left anything")


def test_clean_removes_what_kill_9_left_behind(steelyard: live.Steelyard) -> None:
    """Data directory, socket directory and processes of a killed campaign go; its record stays."""
    process = _started(steelyard, live.napping(live.lasting()))
    live.wait_for(lambda: steelyard.complete_blocks >= 1, process)
    sockets = [Path(e["name"]) for e in steelyard.journal if e["kind"] == "created"]
    process.kill()
    process.communicate()
    assert any(path.exists() for path in sockets)
    looked = steelyard.run("clean", "--dry-run")
    assert str(sockets[0]) in looked.stdout + str(sockets)
    assert any(path.exists() for path in sockets)
    cleaned = steelyard.run("clean", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert not any(path.exists() for path in sockets)
    assert live.living_servers(steelyard.cache) == []
    assert (steelyard.directory / "c" / "journal.jsonl").exists()
    assert "nothing behind" in steelyard.run("clean", "--yes").stdout.replace("anything", "nothing")


@pytest.mark.slow
def test_a_living_campaign_is_left_alone(steelyard: live.Steelyard) -> None:
    """`clean --yes` removes nothing of it, a second one in its directory is refused.

    Lock and journal keep the others out; no block is lost.
    """
    process = _started(steelyard, live.napping(live.lasting()))
    live.wait_for(lambda: steelyard.complete_blocks >= 1, process)
    assert "No campaign has left anything" in steelyard.run("clean", "--yes").stdout
    third = steelyard.run("run", "--resume", "c")
    second = steelyard.run("run", "tiny.yaml", "--dir", "c", "--no-verdict")
    taken = steelyard.complete_blocks
    live.wait_for(lambda: steelyard.complete_blocks > taken, process)
    live.interrupted(process)
    assert all(block["complete"] for block in steelyard.blocks[: taken + 1])
    assert second.returncode == 6
    assert "holds a campaign already" in second.stderr
    assert third.returncode == 6
    assert "another Steelyard is running" in third.stderr


def test_a_taken_port_is_refused_before_the_start(steelyard: live.Steelyard) -> None:
    """A listener on the asked port gives exit 3 and names the port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        text = live.TINY.replace("server: embedded}", f"server: embedded, port: {port}}}")
        done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 3
    assert f"port {port}" in done.stderr
    assert not (steelyard.directory / "c").exists()


@pytest.mark.parametrize(
    ("bin_", "word"),
    [("./nowhere", "no PostgreSQL programs"), ("'9'", "was not found"), ("./bin", "lacks")],
)
def test_an_absent_or_incomplete_binary_is_refused(
    steelyard: live.Steelyard, bin_: str, word: str
) -> None:
    """A wrong `bin:` gives exit 3, the fact and the way out."""
    (steelyard.directory / "bin").mkdir()
    text = live.TINY.replace("server: embedded}", f"server: {bin_}}}")
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 3, done.stderr
    assert word in done.stderr
    assert "hint:" in done.stderr


def test_a_binary_that_is_no_postgres_is_refused(steelyard: live.Steelyard) -> None:
    """Programs that do not run give a sentence, not a traceback."""
    fake = steelyard.directory / "bin"
    fake.mkdir()
    for name in ("postgres", "initdb", "pgbench", "psql"):
        (fake / name).write_text("#!/bin/sh\nexit 3\n")
        (fake / name).chmod(0o755)
    text = live.TINY.replace("server: embedded}", "server: ./bin}")
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_settings_and_refused_values_are_said_at_once_with_lines(
    steelyard: live.Steelyard,
) -> None:
    """The server's own program judges settings; each problem has its line and way out."""
    text = live.TINY.replace(
        "postgres: {shared_buffers: 64MB}",
        "postgres:\n      shared_bufers: 64MB\n      work_mem: 9XB\n      random_page_cost: -4",
    )
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 2, done.stderr
    assert "tiny.yaml:16:7" in done.stderr
    assert "did you mean `shared_buffers`" in done.stderr
    assert 'Valid units for this parameter are "B", "kB"' in done.stderr
    assert "outside the valid range" in done.stderr
    assert not (steelyard.directory / "c").exists()


def test_a_value_only_a_started_server_refuses_fails_with_its_log(
    steelyard: live.Steelyard,
) -> None:
    """What no check loads (a library that is not the server's own) shows at the first start."""
    library = "shared_preload_libraries: /nowhere/no_such_library"
    text = live.TINY.replace("shared_buffers: 64MB", library)
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c")
    assert done.returncode == 4, done.stderr
    assert "no_such_library" in done.stderr


def test_a_setting_that_does_not_take_effect_is_named(steelyard: live.Steelyard) -> None:
    """A role's own setting that overrides the configuration puts it out of force."""
    (steelyard.directory / "override.sql").write_text(
        "ALTER ROLE steelyard SET work_mem = '5MB';\n"
    )
    text = live.TINY.replace("shared_buffers: 64MB", "work_mem: 9MB").replace(
        "scale: 1}", "scale: 1, prepare: [override.sql]}"
    )
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    assert done.returncode == 5, done.stderr
    assert "work_mem was asked to be '9MB' and is '5120'" in done.stderr
