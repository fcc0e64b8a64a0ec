"""``steelyard attach``: found by name, followed, fetched, reported, and removed when asked."""

import errno
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from command_line import Shell

from fakes.campaigns import CAMPAIGN_ID, a_record
from fakes.clock import FakeClock
from fakes.job_cluster import EventfulClock, JobCluster, a_job_plan
from fakes.kubernetes_api import FakeKubernetes
from steelyard.cli import attaching
from steelyard.cli.campaigns import Gate
from steelyard.core.kubernetes import CLAIM, CLUSTER, JOB, POD, ObjectRef, ref_of
from steelyard.core.outside import InCluster
from steelyard.core.wording import Interrupted
from steelyard.gateways.doors import system_doors
from steelyard.places.kubernetes import job as jobs
from steelyard.record.directory import COPY_NOTE, CampaignDirectory
from steelyard.record.journal import Created


@dataclass
class There:
    """A cluster with a campaign whose Job runs, and a shell before it."""

    shell: Shell
    cluster: JobCluster
    clock: FakeClock

    def left(self) -> list[str]:
        """Return what is left of the campaign."""
        found = (each for kind in (JOB, POD, CLAIM) for each in self.cluster.api.list(kind))
        return [ref_of(each).label for each in found]

    def attach(self, *words: str) -> tuple[int, str, str]:
        """Return exit code, output and errors of attach."""
        return self.shell.run("attach", *words)


@pytest.fixture
def there(shell: Shell, tmp_path: Path) -> There:
    """Return a campaign that has written its whole record, in a Job that still runs."""
    cluster = JobCluster(record=tmp_path / "volume")
    a_record(cluster.record)
    jobs.make(a_job_plan(), "cGFja2Vk", cluster.api)
    made = There(shell, cluster, FakeClock())

    def doors() -> object:
        kubernetes = FakeKubernetes(clusters={"lab": cluster.api})
        return replace(system_doors(), kubernetes=kubernetes, clock=made.clock)

    shell.monkeypatch.setattr(attaching, "system_doors", doors)
    return made


def test_at_its_end_it_is_here_and_reported(there: There) -> None:
    """The record is fetched, its report is shown and written, and nothing is removed unasked."""
    there.cluster.end(a_job_plan())
    code, out, err = there.attach("--dir", "here")
    assert code == 0, err
    assert "fast vs slow (baseline)" in out
    assert Path("here/report.html").is_file()
    assert "brought and verified" in err
    assert f"steelyard attach {CAMPAIGN_ID} -n default --remove" in err
    assert there.left() != []


def test_a_gate_judges_a_fetched_campaign_that_cannot_be_printed(there: There) -> None:
    """As that of one that was measured here; and --yes removes it, for its record is here."""

    def gone(*_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    there.cluster.end(a_job_plan())
    there.shell.monkeypatch.setattr(attaching, "show", gone)
    gate = Gate(conditions=("faster > 900%",), junit=Path("gate.xml"))
    options = attaching.AttachOptions(
        name=None, context=None, namespace=None, out=Path("here"), yes=True, gate=gate
    )
    assert attaching.attach(options) == 0
    assert Path("gate.xml").is_file()
    assert there.left() == []


def test_yes_removes_what_is_not_needed_any_more(there: There) -> None:
    """After a fetch that verified nothing is left there, and the copy is the record now."""
    there.cluster.end(a_job_plan())
    code, _, err = there.attach("--dir", "here", "--yes")
    assert code == 0, err
    assert there.left() == []
    assert not (Path("here") / COPY_NOTE).exists()


def test_nothing_is_removed_when_the_fetch_fails(there: There) -> None:
    """A record that is damaged stays where it is, --yes or not."""
    there.cluster.end(a_job_plan())
    journal = there.cluster.record / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"sequence":2', b'"sequence":3', 1))
    code, _, err = there.attach("--yes")
    assert code == 6
    assert "damaged at line 3" in err
    assert there.left() != []


def test_an_early_end_says_how_to_go_on_and_keeps_all(there: There) -> None:
    """A campaign that failed is not over: its last words, its exit code, and the way to resume."""
    journal = there.cluster.record / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-3]))
    pod = there.cluster.pod_of(a_job_plan())["metadata"]["name"]
    there.cluster.api.container_logs[pod] = "error: the server is gone\n"
    there.cluster.end(a_job_plan(), exit_code=4)
    code, _, err = there.attach("--yes", "--dir", "here")
    assert code == 4
    assert "error: the server is gone" in err
    assert f"steelyard attach {CAMPAIGN_ID} -n default --resume" in err
    assert there.left() != []


def test_resume_makes_a_new_job(there: There) -> None:
    """A Job that failed is replaced; one that runs or came to its end is refused."""
    code, _, err = there.attach("--resume")
    assert code == 3
    assert "is running" in err
    there.cluster.end(a_job_plan(), exit_code=137)
    there.clock = EventfulClock(lambda: None, lambda: there.cluster.end(a_job_plan()))
    code, _, err = there.attach("--resume", "--yes", "--dir", "here")
    assert code == 0, err
    assert "A new Job goes on" in err
    assert there.left() == []


def test_interrupting_leaves_the_job_alone(there: There) -> None:
    """Ctrl-C ends attach with its own exit code, says how to come back, and removes nothing."""

    def interrupt() -> None:
        raise Interrupted("interrupted by SIGINT")

    before = there.left()
    there.clock = EventfulClock(interrupt)
    code, _, err = there.attach("--yes")
    assert code == 130
    assert "goes on in the cluster" in err
    assert f"steelyard attach {CAMPAIGN_ID} -n default" in err
    assert there.left() == before


def test_a_copy_can_be_had_at_any_time(there: There) -> None:
    """--fetch brings what there is, says that it is not the end, and does not wait for it."""
    code, out, err = there.attach("--fetch", "--dir", "here", "--yes")
    assert code == 0, err
    assert "goes on in the cluster" in err
    assert (Path("here") / COPY_NOTE).is_file()
    assert there.left() != []
    assert "fast vs slow (baseline)" in out


def test_the_list_is_for_people_and_programs(there: There) -> None:
    """Each campaign with its state; nothing is made or changed."""
    code, out, _ = there.attach("--list")
    assert (code, out) == (0, f"{CAMPAIGN_ID}  running in default\n")
    code, out, _ = there.attach("--list", "--json")
    (entry,) = json.loads(out)["campaigns"]
    assert (entry["campaign"], entry["stand"]) == (CAMPAIGN_ID, "running")


def test_an_account_that_sees_one_namespace_looks_there(there: There) -> None:
    """Without the right to look everywhere, the context's namespace is looked at."""
    there.cluster.api.refuse("list", CLAIM, namespace="")
    there.shell.monkeypatch.setattr(type(there.cluster.api), "allowed", lambda *_, **__: False)
    there.cluster.api.permit()
    code, out, err = there.attach("--list")
    assert (code, out) == (0, f"{CAMPAIGN_ID}  running in default\n"), err


def test_removing_without_anybody_to_ask_needs_yes(there: There) -> None:
    """A script that forgets --yes removes nothing."""
    code, _, err = there.attach("--remove")
    assert code == 2
    assert "Say --yes" in err
    assert there.left() != []
    assert there.attach("--remove", "--yes")[0] == 0
    assert there.left() == []


def test_a_record_that_still_has_to_undo_something_is_not_removed(there: There) -> None:
    """What says how somebody's Cluster was before the campaign is not thrown away, --yes or not."""
    thing = InCluster(
        context="",
        server="https://10.96.0.1:443",
        ref=ObjectRef(kind=CLUSTER, name="pg", namespace="prod"),
        campaign_id=CAMPAIGN_ID,
        before='{"spec": {"postgresql": {"parameters": {"work_mem": null}}}}',
    )
    directory = CampaignDirectory.reopen(there.cluster.record, there.clock)
    directory.journal.append(Created.of(thing))
    directory.close()
    there.cluster.end(a_job_plan())
    code, _, err = there.attach("--remove", "--yes")
    assert code == 7
    assert "Cluster prod/pg" in err
    assert "--resume" in err
    assert there.left() != []


def test_json_is_the_summary_alone(there: There) -> None:
    """What programs read stands alone on standard output."""
    there.cluster.end(a_job_plan())
    code, out, _ = there.attach("--json", "--dir", "here")
    assert code == 0
    assert json.loads(out)["status"]


def test_clean_keeps_the_record_of_a_campaign_inside(there: There) -> None:
    """Clean promises that records stay: one on a volume does, --yes or not, and says where from."""
    doors = attaching.system_doors
    there.shell.monkeypatch.setattr("steelyard.gateways.doors.system_doors", doors)
    there.cluster.end(a_job_plan())
    code, out, err = there.shell.run("clean", "--context", "lab", "--yes")
    assert code == 0, err
    assert f"steelyard attach {CAMPAIGN_ID}" in out
    assert there.left() != []
