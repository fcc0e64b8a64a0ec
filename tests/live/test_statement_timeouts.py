"""A statement_timeout that is too short for the work: said as what it is, and nothing is left."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.endpoint import PLAIN_PASSWORD, Server
from support.live import LIMIT_S, Steelyard, lasting, wait_for

pytestmark = [pytest.mark.live, pytest.mark.slow]

SLOW = """\
version: 1
name: slow statements
baseline: default
workloads:
  - {name: naps, scale_factor: 1, scripts: [{file: nap.sql}]}
loads: {clients: 2, threads: 1}
measure: {slice: 2s, ramp: 0s, warm_up: 0s}
stop: {budget: 5m, precision: 99%}
seed: 7
configurations:
  default:
    target: {kind: endpoint}
  other:
    extends: default
    postgres: {work_mem: 9MB}
"""


@pytest.fixture
def plain(steelyard: Steelyard, server: Server) -> Iterator[Steelyard]:
    """Steelyard as an ordinary role, whose timeout is reset after the test; no database is left."""
    (steelyard.directory / "nap.sql").write_text("SELECT pg_sleep(0.2);\n")
    variables = {**server.tcp, "PGUSER": "plain", "PGPASSWORD": PLAIN_PASSWORD}
    yield replace(steelyard, extra=variables)
    server.do("ALTER ROLE plain RESET statement_timeout")
    assert server.databases == set()


def test_data_that_cannot_be_prepared_in_time_are_said(plain: Steelyard, server: Server) -> None:
    """Exit 4 with the setting and how to change it; the finding was said before."""
    server.do("ALTER ROLE plain SET statement_timeout = '5s'")
    (plain.directory / "long.sql").write_text("SELECT pg_sleep(600);\n")
    text = SLOW.replace("scripts:", "prepare: [long.sql], scripts:")
    done = plain.run("run", plain.experiment(text), "--out", "c", "--yes")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    assert "statement timeout" in done.stderr
    assert "statement_timeout = 0" in done.stderr
    findings = [e["finding"]["code"] for e in plain.journal if e["kind"] == "finding"]
    assert "statement-timeout" in findings


def test_work_that_is_cut_off_in_the_campaign_ends_it(plain: Steelyard, server: Server) -> None:
    """Exit 5 with the server's words, everything dropped all the same; then `--resume` goes on."""
    process = plain.start("run", plain.experiment(lasting(SLOW)), "--out", "c", "--yes")
    wait_for(lambda: len(plain.runs) >= 1, process)
    server.do("ALTER ROLE plain SET statement_timeout = '100ms'")
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 5, err
    assert "Traceback" not in err
    assert "due to statement timeout" in err
    assert "run --resume" in err
    assert "left behind" not in err
    assert server.databases == set()
    server.do("ALTER ROLE plain RESET statement_timeout")
    before = plain.runs
    plain.resumed_for_a_block()
    assert plain.runs[: len(before)] == before
