"""``steelyard run`` as a Job: checked here first, then made there, then followed."""

import base64
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import Shell
from ruamel.yaml import YAML

import steelyard
from fakes.campaigns import CAMPAIGN_ID, a_record, an_experiment
from fakes.clock import FakeClock
from fakes.job_cluster import EventfulClock, JobCluster
from fakes.kubernetes_api import FakeKubernetes
from steelyard.answers.campaign import analyse
from steelyard.campaign import in_cluster
from steelyard.campaign.in_cluster import JobAsked, pack, unpack
from steelyard.campaign.run import session
from steelyard.campaign.run.session import Request
from steelyard.cli import launching
from steelyard.cli.attaching import JobOptions, ready_job
from steelyard.core.experiment import Experiment
from steelyard.core.kubernetes import CLAIM, CONFIG_MAP, JOB, POD, ref_of
from steelyard.core.places import KubernetesPlace
from steelyard.core.target import CloudNativePgTarget
from steelyard.core.wording import InputError, PreflightError
from steelyard.gateways.doors import Doors, system_doors
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes import own_install
from steelyard.places.kubernetes.own_install import JobImage
from steelyard.record.directory import read_campaign

_INSIDE = ("run", "tiny.yaml", "--in-cluster", "--image", "registry.example/steelyard:0")


@dataclass
class There:
    """A shell before an empty cluster, with an experiment for it."""

    shell: Shell
    cluster: JobCluster
    clock: FakeClock = field(default_factory=FakeClock)
    refusal: PreflightError | None = None

    def left(self) -> list[str]:
        """Return what is in the cluster."""
        kinds = (JOB, POD, CLAIM, CONFIG_MAP)
        return [ref_of(each).label for kind in kinds for each in self.cluster.api.list(kind)]


def _experiment() -> Experiment:
    plain = an_experiment()
    target = CloudNativePgTarget(place=KubernetesPlace(context="lab"))
    configurations = tuple(
        replace(configuration, target=target) for configuration in plain.configurations
    )
    return replace(plain, configurations=configurations)


@pytest.fixture
def there(shell: Shell, tmp_path: Path) -> There:
    """Return the cluster; loading and checking are those of other tests."""
    made = There(shell, JobCluster(record=tmp_path / "volume"))

    def check(loaded: SimpleNamespace, command: str, *_: object) -> SimpleNamespace:
        if made.refusal is not None:
            raise made.refusal
        request = Request(experiment=loaded.experiment, text="version: 1\n", command=command)
        expected = SimpleNamespace(sustained_most_s=0.0, first_look_s=0.0)
        site = SimpleNamespace(
            api=made.cluster.api,
            experiment=loaded.experiment,
            place=KubernetesPlace(context="lab"),
            plan=None,
        )
        assembly = SimpleNamespace(site=site)
        return SimpleNamespace(request=request, expected=expected, warning="", assembly=assembly)

    def look(asked: JobAsked, *_: object) -> JobImage:
        image = asked.image or own_install.PYTHON_IMAGE
        found = steelyard.__version__ if asked.image else ""
        return JobImage(name=image, python=(3, 11), steelyard=found, has_pip=True)

    kubernetes = FakeKubernetes(clusters={"lab": made.cluster.api})

    def doors() -> Doors:
        return replace(system_doors(), kubernetes=kubernetes, clock=made.clock)

    loaded = SimpleNamespace(experiment=_experiment(), source="tiny.yaml", text="version: 1\n")
    shell.monkeypatch.setattr(launching, "real_doors", doors)
    shell.monkeypatch.setattr(launching, "load", lambda *_: loaded)
    shell.monkeypatch.setattr(launching, "check", check)
    shell.monkeypatch.setattr(launching, "foretell", lambda *_: None)
    shell.monkeypatch.setattr(in_cluster, "look", look)
    return made


def test_what_is_refused_here_makes_nothing_there(there: There) -> None:
    """The checks of any campaign come first."""
    there.refusal = PreflightError("the budget ends before the first interim result")
    code, _, err = there.shell.run(*_INSIDE)
    assert code == 3
    assert "first interim result" in err
    assert there.left() == []


def test_detached_says_how_to_come_back(there: There) -> None:
    """For people a sentence, for programs JSON; the Job is there."""
    code, out, err = there.shell.run(*_INSIDE, "--detach", "--json", "--dir", "c")
    assert code == 0, err
    found = json.loads(out)
    (plan,) = jobs.find(there.cluster.api)
    assert found["campaign"] == plan.campaign_id
    assert found["attach"] == (
        f"steelyard attach {plan.campaign_id} -n {plan.namespace} --context lab"
    )
    assert plan.campaign_id.startswith("c-")
    code, out, _ = there.shell.run(*_INSIDE, "--detach", "--dir", "d")
    assert "steelyard attach d-" in out


def test_what_goes_in_is_what_was_checked(there: There, tmp_path: Path) -> None:
    """The packed campaign has the id of the Job, no context, and the command as typed."""
    there.shell.run(*_INSIDE, "--detach", "--dir", "c", "--seed", "7")
    (plan,) = jobs.find(there.cluster.api)
    kept = there.cluster.api.get(CONFIG_MAP, plan.request, plan.namespace)
    file = tmp_path / "request.json.gz"
    file.write_bytes(base64.b64decode(kept["binaryData"]["request.json.gz"]))
    request = unpack(file)
    assert request.campaign_id == plan.campaign_id
    assert "--in-cluster --image registry.example/steelyard:0" in request.command
    target = request.experiment.configurations[0].target
    assert isinstance(target, CloudNativePgTarget)
    assert target.place == KubernetesPlace(namespace=plan.namespace)


def test_what_would_be_made_is_shown(there: There, tmp_path: Path) -> None:
    """All objects, in the order to make them, and none is made."""
    request = Request(experiment=_experiment(), text="version: 1\n", command="")
    job = ready_job(
        request,
        JobOptions(),
        launching.real_doors(),
        path=tmp_path / "c",
        site=None,
        place=KubernetesPlace(context="lab", namespace="default"),
        long_runs_s=0.0,
    )
    kinds = [each["kind"] for each in YAML(typ="safe").load_all(job.manifests) if each]
    assert kinds[:2] == ["PersistentVolumeClaim", "ConfigMap"]
    assert kinds[-1] == "Job"
    assert job.told[0] == "It runs as a Job in namespace default of lab"
    assert there.left() == []


def test_the_place_and_the_image_are_told_before_the_start(there: There) -> None:
    """No image is needed: an ordinary one gets Steelyard."""
    there.shell.monkeypatch.delenv("STEELYARD_IMAGE", raising=False)
    words = ("run", "tiny.yaml", "--detach", "--image", "registry.example/steelyard:0")
    code, _, err = there.shell.run(*words)
    assert code == 0, err
    assert "It runs as a Job in namespace steelyard-" in err
    assert "is in the image registry.example/steelyard:0." in err
    assert "To come back to it: steelyard attach " in err


def test_what_only_this_machine_reaches_is_refused_by_name(there: There) -> None:
    """A Job cannot run a server of this machine; what is only for a Job is not passed over."""
    loaded = SimpleNamespace(experiment=an_experiment(), source="x", text="")
    there.shell.monkeypatch.setattr(launching, "load", lambda *_: loaded)
    code, _, err = there.shell.run(*_INSIDE)
    assert code == 2
    assert "--in-cluster: the server of `slow` (local) is started on this machine" in err
    code, _, err = there.shell.run("run", "tiny.yaml", "--secret", "s", "--detach")
    assert code == 2
    assert "--detach, --secret: for a Job" in err


@pytest.mark.parametrize(("condition", "exit_code"), [("faster > 90%", 0), ("faster > 0.001%", 10)])
def test_it_is_followed_to_its_end_and_judged_here(
    there: There, condition: str, exit_code: int
) -> None:
    """The record is fetched, reported and judged; the pipeline finds its file."""
    a_record(there.cluster.record)
    there.shell.monkeypatch.setattr(session, "new_id", lambda *_: CAMPAIGN_ID)

    def end() -> None:
        (plan,) = jobs.find(there.cluster.api)
        there.cluster.end(plan)

    there.clock = EventfulClock(end)
    words = ("run", "tiny.yaml", "--dir", "c", "--gate", condition, "--junit", "gate.xml")
    code, out, err = there.shell.run(*words, "--yes")
    assert code == exit_code, err
    assert "fast vs slow (baseline)" in out
    assert Path("c/report.html").is_file()
    assert "testsuite" in Path("gate.xml").read_text()
    assert there.left() == []


def test_the_job_begins_or_goes_on(
    there: There, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Job's own command runs what was packed; where a record is there, it goes on with it."""
    request = Request(
        experiment=an_experiment(), text="version: 1\n", command="steelyard run", campaign_id="a-1"
    )
    packed = tmp_path / "request.json.gz"
    packed.write_bytes(base64.b64decode(pack(request)))
    did: list[str] = []

    def new(asked: Request, path: Path, *_: object) -> object:
        did.append(f"new {asked.campaign_id}")
        return analyse(read_campaign(a_record(path)))

    def resume(path: Path, *_: object) -> object:
        did.append("resumed")
        return analyse(read_campaign(path))

    monkeypatch.setattr(session, "new_campaign", new)
    monkeypatch.setattr(session, "resume_campaign", resume)
    words = ("kubernetes", "campaign", "--request", str(packed), "--record", "record")
    code, out, err = there.shell.run(*words)
    assert code == 0, err
    assert "fast vs slow (baseline)" in out
    assert Path("record/report.html").is_file()
    assert there.shell.run(*words)[0] == 0
    assert did == ["new a-1", "resumed"]


def test_an_index_with_a_login_is_refused(there: There) -> None:
    """Manifest, plan and record would hold it; a Secret is the way."""
    url = "https://me:hush@index.example/simple"
    code, _, err = there.shell.run(*_INSIDE, "--index-url", url)
    assert code == 2
    assert "PIP_INDEX_URL" in err
    assert "hush" not in err
    assert there.left() == []


@pytest.mark.parametrize("as_job", [True, None])
def test_a_job_for_servers_elsewhere_has_the_place_of_the_command_line(
    *, as_job: bool | None
) -> None:
    """Context and namespace are the Job's then; without one they are for nothing, and refused."""
    text = (
        "version: 1\nname: far\nload: {clients: 1}\n"
        "workloads: [{name: reads, builtin: select-only, scale: 1}]\n"
        "configurations:\n  default: {target: {kind: existing, host: db.example}}\n"
        "  other: {extends: default}\n"
    )
    options = launching.RunOptions(
        source="far.yaml",
        flags=(),
        seed=1,
        out=None,
        dry_run=True,
        form="text",
        quiet=True,
        yes=True,
        context="lab",
        namespace="bench",
        job=JobOptions(as_job=as_job),
    )
    if as_job:
        loaded = launching.load_written(text, options, system_doors())
        assert not loaded.experiment.is_in_kubernetes
    else:
        with pytest.raises(InputError, match="are for targets in Kubernetes"):
            launching.load_written(text, options, system_doors())
