"""Campaigns on instances of an emulated RDS: real PostgreSQL servers behind moto, real boto3."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from support.aws import ACCOUNT, REGION, Account, Look, an_account
from support.endpoint import Server, run, started
from support.live import Steelyard, whole_report

_ACTIVE = """SELECT coalesce(wait_event_type, 'CPU'), coalesce(wait_event, 'CPU')
    FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"""


class Instance:
    """A real server behind an emulated instance: its user owns no superuser's rights there."""

    def __init__(self, server: Server, kept: ExitStack) -> None:
        self._server = server
        self._kept = kept
        self.port = server.port
        self._ends = threading.Event()
        self.looks: list[Look] = []
        self._looking = threading.Thread(target=self._look, daemon=True)
        self._looking.start()

    def _look(self) -> None:
        """Look at what sessions wait for as Performance Insights does, but five times a second.

        A campaign of seconds would have few looks of one a second at sessions that run.
        """
        while not self._ends.wait(0.2):
            with suppress(psycopg.Error):
                told = self._server.rows(_ACTIVE)
                self.looks.append(
                    (time.time(), Counter((str(kind), str(event)) for kind, event in told))
                )

    def apply(self, settings: dict[str, str], *, restarts: bool) -> None:
        """Take a parameter group's settings as RDS does: the server's file, and a reload."""
        self._server.do("ALTER SYSTEM RESET ALL")
        self._server.do(
            *(f"ALTER SYSTEM SET {name} = '{value}'" for name, value in settings.items()),
            "SELECT pg_reload_conf()",
        )
        if restarts:
            run(self._server.restart_command)

    def stop(self) -> None:
        """End it and remove its data."""
        self._ends.set()
        self._looking.join()
        self._kept.close()


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, programs: Path) -> Iterator[Account]:
    """Serve an account whose instances are servers of this machine."""
    with an_account(monkeypatch) as served:

        def begun(settings: dict[str, str], user: str, password: str) -> Instance:
            kept = ExitStack()
            server = kept.enter_context(started(programs))
            server.do(
                f"CREATE ROLE {user} LOGIN CREATEDB CREATEROLE PASSWORD '{password}'",
                f"GRANT pg_monitor TO {user}",
            )
            instance = Instance(server, kept)
            instance.apply(settings, restarts=False)
            return instance

        served.begun, served.create_s, served.delete_s = begun, 1.0, 1.0
        yield served


def left(account: Account) -> list[str]:
    """Return what the account still has."""
    from steelyard.gateways.aws import Aws  # noqa: PLC0415 - where boto3 is there
    from steelyard.places.aws import tagged  # noqa: PLC0415 - likewise

    assert account.url
    return [each.label for each in tagged(Aws().connect(REGION))]


__all__ = ["account"]

pytestmark = pytest.mark.live

FILE = f"""\
version: 1
name: work_mem on RDS
baseline: small
workloads: [{{name: reads, builtin: select-only, scale: 1}}]
load: {{clients: 2, threads: 1, protocol: simple}}
measure: {{run_time: 1s, discard_start: 0s, warm_up: 0s}}
stop: {{budget: 60m, blocks: 3}}
seed: 7
configurations:
  small:
    target:
      {{kind: rds, region: {REGION}, accounts: ['{ACCOUNT}'], version: 16,
       instance_class: db.t3.large, storage: 300Gi, storage_type: gp2}}
    postgres: {{work_mem: 4MB}}
  large:
    extends: small
    postgres: {{work_mem: 9MB}}
"""


AURORA = FILE.replace("kind: rds", "kind: aurora").replace(
    ", storage: 300Gi, storage_type: gp2", ", performance_insights: true"
)


def typed(answer: str) -> "subprocess.CompletedProcess[str]":
    """Look into the account, and answer what is asked."""
    words = ["-m", "steelyard", "clean", "--aws", REGION, "--account", ACCOUNT]
    return subprocess.run(
        [sys.executable, *words], input=f"{answer}\n", text=True, capture_output=True, check=False
    )


def publish_io() -> None:
    """Publish what was billed for the first cluster that there is, once it is there.

    600 million reads and 249.4 million writes in the five minutes of its making.
    """
    import boto3  # noqa: PLC0415 - where the emulator is there

    clusters: list[dict[str, str]] = []
    while not clusters:
        time.sleep(0.1)
        clusters = boto3.client("rds", region_name=REGION).describe_db_clusters()["DBClusters"]
    dimension = {"Name": "DBClusterIdentifier", "Value": clusters[0]["DBClusterIdentifier"]}
    now_s = time.time()
    points = [
        {
            "MetricName": name,
            "Dimensions": [dimension],
            "Timestamp": datetime.fromtimestamp(now_s - now_s % 300.0, UTC),
            "Value": value,
        }
        for name, value in (("VolumeReadIOPs", 600e6), ("VolumeWriteIOPs", 249.4e6))
    ]
    metrics = boto3.client("cloudwatch", region_name=REGION)
    metrics.put_metric_data(Namespace="AWS/RDS", MetricData=points)


@pytest.mark.slow
def test_the_published_study_runs_scaled_down(steelyard: Steelyard, account: Account) -> None:
    """RDS twice and Aurora beside each other: pairs of loads, four blocks, a t interval."""
    small = (
        *("workloads.0.scale=1", "load.clients=1/1,2/2", "measure.run_time=2s"),
        *("measure.warm_up=1s", "measure.max_other_load=ignore", "measure.machine_limits=off"),
        f"configurations.rds-900.target.accounts=['{ACCOUNT}']",
        f"configurations.aurora.target.accounts=['{ACCOUNT}']",
    )
    sets = [word for each in small for word in ("--override", each)]
    done = steelyard.run(
        "run", "preset:rds-aurora", *sets, "--budget", "30m", "--dir", "c", "--no-verdict"
    )
    assert done.returncode == 0, done.stderr
    assert steelyard.complete_blocks == 4
    assert {run["configuration"] for run in steelyard.runs} == {"rds-900", "rds-3000", "aurora"}
    report = whole_report(steelyard.directory / "c")
    assert "t interval over 4 blocks, 3 degrees of freedom" in report
    assert "this pair of" in report
    assert left(account) == []
    assert account.servers == {}


def test_a_campaign_on_an_instance_leaves_nothing(steelyard: Steelyard, account: Account) -> None:
    """Made, measured under both settings of its parameter group, told in money, and deleted."""
    done = steelyard.run("run", steelyard.experiment(FILE), "--dir", "c", "--no-verdict")
    assert done.returncode == 0, done.stderr
    assert "0.1923 USD an hour" in done.stderr  # 0.145 + 300 GiB x 0.115 / 730
    assert "the burst of 3,000 IOPS lasts 43 min at full use; after that 900 last" in done.stderr
    assert any(block["complete"] for block in steelyard.blocks)
    entries = [e["thing"]["resource"] for e in steelyard.journal if e.get("thing")]
    assert entries == ["DB parameter group", "DB instance"]
    made = account.calls.index("rds:CreateDBInstance")
    assert account.calls.index("rds:CreateDBParameterGroup") < made
    assert "rds:ResetDBParameterGroup" not in account.calls  # both ask for it
    assert account.calls.count("rds:ModifyDBParameterGroup") >= 2
    report = whole_report(steelyard.directory / "c")
    assert "### Cost in money" in report
    assert "list prices of us-east-1, checked on 2026-11-21" in report
    (seen,) = (entry["series"] for entry in steelyard.journal if entry["kind"] == "provider")
    assert {"CPUUtilization", "BurstBalance", "ReadIOPS"} <= {each["metric"] for each in seen}
    assert {tuple(each["configurations"]) for each in seen} == {("small", "large")}
    assert "not published, which is not 0" in report  # the emulator's instances publish nothing
    assert account.calls.index("monitoring:GetMetricData") > account.calls.index(
        "rds:DeleteDBInstance"
    )
    assert left(account) == []
    assert account.servers == {}


@pytest.mark.slow
def test_a_campaign_on_a_cluster_of_aurora_leaves_nothing(
    steelyard: Steelyard, account: Account
) -> None:
    """Settings of both levels are in force; cluster and groups go with the instance.

    Active sessions are in the report by Performance Insights, where the target asks for it.
    """
    text = AURORA.replace("{work_mem: 9MB}", "{work_mem: 9MB, default_statistics_target: 200}")
    publisher = threading.Thread(target=publish_io, daemon=True)
    publisher.start()
    done = steelyard.run("run", steelyard.experiment(text), "--dir", "c", "--no-verdict")
    assert done.returncode == 0, done.stderr
    publisher.join()
    told = "small and large: this campaign made 849.4 million I/Os = 169.88 USD"
    assert told in whole_report(steelyard.directory / "c")
    assert any(block["complete"] for block in steelyard.blocks)
    entries = [e["thing"]["resource"] for e in steelyard.journal if e.get("thing")]
    assert entries == [
        "DB parameter group",
        "DB cluster parameter group",
        "DB cluster",
        "DB instance",
    ]
    assert "rds:ModifyDBClusterParameterGroup" in account.calls
    (seen,) = (entry["series"] for entry in steelyard.journal if entry["kind"] == "provider")
    assert {"VolumeReadIOPs", "VolumeWriteIOPs"} <= {each["metric"] for each in seen}
    load = {each["metric"]: each for each in seen if each["metric"].startswith("db.load.avg")}
    assert {"db.load.avg", "db.load.avg CPU"} <= load.keys()
    assert max(load["db.load.avg"]["values"]) > 0
    report = whole_report(steelyard.directory / "c")
    assert "| default_statistics_target | 100 | 200 |" in report
    assert "mean number of active sessions by Performance Insights" in report
    assert left(account) == []
    assert account.servers == {}


@pytest.mark.slow
def test_a_missing_permission_ends_it_early(steelyard: Steelyard, account: Account) -> None:
    """Of Performance Insights, which the target asks for; nothing is left."""
    text = FILE.replace("storage_type: gp2", "storage_type: gp2, performance_insights: true")
    account.denied.add("pi:GetResourceMetrics")
    denied = steelyard.run("run", steelyard.experiment(text), "--dir", "d", "--no-verdict")
    assert denied.returncode == 8, denied.stderr
    assert "may not do pi:GetResourceMetrics" in denied.stderr
    assert left(account) == []


def test_a_killed_campaign_is_cleaned(steelyard: Steelyard, account: Account) -> None:
    """SIGKILL while the instance is made: exit code 7 without credentials, then nothing is left.

    AWS had been asked to delete it: that goes with it. Without an hour nothing is made.
    """
    account.create_s = None
    role = f"delete_role: 'arn:aws:iam::{ACCOUNT}:role/deleter'"
    text = steelyard.experiment(FILE.replace("storage_type: gp2", f"storage_type: gp2, {role}"))
    never = steelyard.run("run", text, "--dir", "c", "--no-verdict")
    assert never.returncode == 3
    assert "Add --ttl" in never.stderr
    running = steelyard.start("run", text, "--dir", "c", "--no-verdict", "--ttl", "8h")
    deadline = time.monotonic() + 60
    while "rds:CreateDBInstance" not in account.calls and time.monotonic() < deadline:
        time.sleep(0.1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert len(left(account)) == 3
    account.rejects_credentials = True
    refused = steelyard.run("clean", "--yes")
    assert refused.returncode == 7
    assert "may still be there, and be billed" in refused.stderr
    account.rejects_credentials = False
    done = steelyard.run("clean", "--yes")
    assert done.returncode == 0, done.stderr
    assert left(account) == []


def test_a_look_makes_nothing(steelyard: Steelyard, account: Account) -> None:
    """Neither a plan, nor a run that may cost too much."""
    plan = steelyard.run("estimate", steelyard.experiment(FILE))
    assert plan.returncode == 0, plan.stderr
    assert "0.1923 USD an hour" in plan.stdout
    dear = steelyard.run("run", steelyard.experiment(FILE), "--no-verdict", "--max-cost", "0.1")
    assert dear.returncode == 3
    # With 1.4 vCPU-hours of surplus credits at 0.075.
    assert "may cost 0.2973 USD (0.1923 USD an hour for 60 min, and 0.1050 USD" in dear.stderr
    cluster = steelyard.experiment(AURORA)
    unlimited = steelyard.run("run", cluster, "--no-verdict", "--max-cost", "1000")
    assert unlimited.returncode == 3
    assert "I/O at 0.2000 USD a million, which no `io_at_most` limits" in unlimited.stderr
    limit = ("--override", "configurations.small.target.io_at_most=30000")
    limited = steelyard.run("estimate", cluster, *limit, "--max-cost", "22.5")
    assert limited.returncode == 0, limited.stderr
    assert "21.60 USD for I/O" in limited.stdout  # 108 million in an hour
    assert "not counted: data transfer, requests to CloudWatch and taxes" in limited.stdout
    assert not [each for each in account.calls if "Create" in each]
    other = FILE.replace(ACCOUNT, "210987654321")
    wrong = steelyard.run("run", steelyard.experiment(other), "--no-verdict")
    assert wrong.returncode == 3
    assert f"the credentials are those of account {ACCOUNT}" in wrong.stderr


@pytest.mark.slow
def test_a_lost_registry_is_cleaned_by_the_tag(
    steelyard: Steelyard, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its campaign's name, typed; anything else leaves it, and exit code 7 says so."""
    account.create_s = None
    running = steelyard.start("run", steelyard.experiment(FILE), "--dir", "c", "--no-verdict")
    deadline = time.monotonic() + 60
    while "rds:CreateDBInstance" not in account.calls and time.monotonic() < deadline:
        time.sleep(0.1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    monkeypatch.setenv("STEELYARD_CACHE", str(steelyard.directory / "another-cache"))
    kept = typed("yes")
    assert kept.returncode == 7, kept.stderr
    assert len(left(account)) == 2
    (name,) = re.findall(rf"(?m)^(\S+) in {REGION}, account {ACCOUNT}:$", kept.stdout)
    gone = typed(name)
    assert gone.returncode == 0, gone.stderr
    assert left(account) == []
