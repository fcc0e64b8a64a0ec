"""Following a campaign in a cluster: what it tells, whatever happens to the connection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fakes.campaigns import a_record
from fakes.job_cluster import EventfulClock, JobCluster, a_job_plan
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.in_cluster import Follower
from steelyard.core.campaign import BlockOutcome, CampaignPlan
from steelyard.core.kubernetes import JOB, POD
from steelyard.core.wording import RecordError, TargetError
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes import own_install
from steelyard.places.kubernetes.job import Stand
from steelyard.report.document import Table


@dataclass
class Heard:
    """A listener that keeps what it heard, in words."""

    words: list[str] = field(default_factory=list)
    looks: list[CampaignAnalysis] = field(default_factory=list)

    def stage(self, what: str) -> None:
        """Keep a step."""
        self.words.append(what)

    def agreed(self, contract: Table) -> None:
        """Keep that there is a contract."""
        self.words.append(contract.title)

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:  # noqa: ARG002 - unused
        """Keep that it was planned."""
        self.words.append("planned")

    def run_started(self, *, block: int, label: str) -> None:
        """Keep a run."""
        self.words.append(f"block {block}: {label}")

    def block_ended(self, outcome: BlockOutcome) -> None:
        """Keep the end of a block."""
        self.words.append(f"block {outcome.index} ended")

    def looked(self, analysis: CampaignAnalysis, *, elapsed_s: float) -> None:  # noqa: ARG002 - unused
        """Keep a look."""
        self.looks.append(analysis)


@dataclass
class There:
    """A campaign in a cluster, whose journal is written piece by piece."""

    cluster: JobCluster
    whole: bytes
    heard: Heard = field(default_factory=Heard)
    told: list[str] = field(default_factory=list)

    def follower(self, *events: Callable[[], None]) -> Follower:
        """Return what follows it, while these things happen."""
        clock = EventfulClock(*events)
        return Follower(a_job_plan(), self.cluster.api, clock, self.heard, self.told.append)

    def write(self, share: float) -> Callable[[], None]:
        """Return what writes the journal up to a share of its bytes."""
        part = self.whole[: round(len(self.whole) * share)]
        return lambda: (self.cluster.record / "journal.jsonl").write_bytes(part) and None

    def end(self, exit_code: int = 0) -> Callable[[], None]:
        """Return what ends the Job."""
        return lambda: self.cluster.end(a_job_plan(), exit_code=exit_code)


@pytest.fixture
def there(tmp_path: Path) -> There:
    """Return a campaign whose Job has begun and written nothing yet."""
    ran = a_record(tmp_path / "ran")
    cluster = JobCluster(record=tmp_path / "volume")
    cluster.record.mkdir()
    jobs.make(a_job_plan(), "cGFja2Vk", cluster.api)
    return There(cluster, (ran / "journal.jsonl").read_bytes())


def test_the_journal_is_told_as_it_grows(there: There) -> None:
    """Lines are told once each, in order, however the pieces are cut; looks are of all so far."""
    shares = (0.1, 0.305, 0.31, 0.5, 0.777, 1.0)
    ended = there.follower(*map(there.write, shares), there.end()).follow()
    assert ended.stand is Stand.DONE
    assert there.heard.words.count("planned") == 1
    ends = [word for word in there.heard.words if word.endswith("ended")]
    assert ends == [f"block {index} ended" for index in range(len(ends))]
    assert len(ends) > 3
    blocks = [analysis.blocks for analysis in there.heard.looks]
    assert blocks == sorted(set(blocks))
    assert blocks[-1] == len(ends)


def test_lost_connections_are_borne_and_said_once(there: There) -> None:
    """However long the API is away, it is tried again; nothing is told twice for it."""

    def lose() -> None:
        there.cluster.api.lose_connection(12)

    ended = there.follower(
        there.write(0.5), lose, *[lambda: None] * 14, there.write(1.0), there.end()
    ).follow()
    assert ended.stand is Stand.DONE
    assert sum("trying again" in text for text in there.told) == 1
    words = there.heard.words
    assert len(words) == len(set(words))


def test_commands_that_break_are_repeated(there: There) -> None:
    """A command that dies with its connection loses no line."""

    def breaks() -> None:
        there.cluster.broken = 3

    there.follower(
        there.write(0.6), breaks, *[lambda: None] * 5, there.write(1.0), there.end()
    ).follow()
    ends = [word for word in there.heard.words if word.endswith("ended")]
    assert len(ends) == len(set(ends)) > 3


def test_steps_before_the_plan_come_from_the_log(there: There) -> None:
    """The journal says nothing of preparing data; the pod's log does, if it may be read."""
    pod = there.cluster.pod_of(a_job_plan())["metadata"]["name"]
    there.cluster.api.container_logs[pod] = "  preparing data, scale 10 ...\n"
    there.follower(lambda: None, there.write(1.0), there.end()).follow()
    assert there.heard.words[0] == "preparing data, scale 10"
    assert there.heard.words.count("preparing data, scale 10") == 1


def test_without_the_right_to_logs_the_rest_is_told(there: There) -> None:
    """Logs are optional: an account that may not read them follows as well."""
    there.cluster.api.refuse("get", POD, part="log")
    there.follower(there.write(1.0), there.end()).follow()
    assert "planned" in there.heard.words


def test_what_keeps_it_from_beginning_is_said_and_ends_the_wait(there: There) -> None:
    """An image that is not there will not come: after minutes that is an error with a way out."""
    pod = there.cluster.pod_of(a_job_plan())
    waiting = {"reason": "ErrImagePull", "message": "not found"}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]}
    with pytest.raises(
        TargetError, match=r"does not begin: .*cannot be pulled: not found"
    ) as raised:
        there.follower().follow()
    assert "--remove" in raised.value.hint
    assert len(there.told) == 1
    assert "cannot be pulled: not found" in there.told[0]


def test_a_pod_that_was_taken_away_is_waited_for(there: There) -> None:
    """Between an eviction and the next pod there is none: that is no end and no error."""
    plan = a_job_plan()

    def evict() -> None:
        there.cluster.api.lose(POD, there.cluster.pod_of(plan)["metadata"]["name"], plan.namespace)

    def again() -> None:
        job = there.cluster.api.get(JOB, plan.name, plan.namespace)
        there.cluster._make_pod(job)

    ended = there.follower(
        there.write(0.5), evict, *[lambda: None] * 4, again, there.write(1.0), there.end()
    ).follow()
    assert ended.stand is Stand.DONE
    assert len(there.heard.looks) > 1


def test_a_failure_is_the_end_with_its_code(there: There) -> None:
    """What the campaign ended with is what attach ends with."""
    ended = there.follower(there.write(0.5), there.end(exit_code=5)).follow()
    assert (ended.stand, ended.exit_code) == (Stand.FAILED, 5)


def test_a_damaged_journal_is_not_told(there: There) -> None:
    """A line whose checksum does not fit ends the following with its number."""
    there.whole = there.whole.replace(b'"sequence":2', b'"sequence":9', 1)
    with pytest.raises(RecordError, match="damaged at line 3"):
        there.follower(there.write(1.0)).follow()


def test_nothing_is_sent_beside_a_campaign_that_has_begun(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who attaches later costs its pod no CPU time for what it has."""
    sent: list[str] = []
    monkeypatch.setattr(own_install, "send", lambda *_: sent.append("it"))
    there.write(0.5)()
    plan = a_job_plan(installs=True)
    clock = EventfulClock(there.write(1.0), there.end())
    Follower(plan, there.cluster.api, clock, there.heard, there.told.append).follow()
    assert sent == []
