"""A campaign packed for a Job: everything in it, nothing to look up, and a limit that is said."""

import base64
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import steelyard
from fakes.campaigns import an_experiment
from fakes.kubernetes_api import FakeKubernetesApi
from steelyard.campaign import in_cluster
from steelyard.campaign.in_cluster import JobAsked, at_home, pack, unpack
from steelyard.campaign.run.session import Request
from steelyard.core.experiment import Experiment, Script, Workload
from steelyard.core.kubernetes import ACCOUNT, JOB, POD, VOLUME
from steelyard.core.places import ClusterService, KubernetesPlace
from steelyard.core.target import CloudNativePgTarget, EndpointTarget, Target
from steelyard.core.wording import InputError, PreflightError, PrivilegeError
from steelyard.places.kubernetes.job import JobPlan
from steelyard.places.kubernetes.own_install import JobImage
from steelyard.targets.kubernetes_site import KubernetesSite, place_in


def _experiment(*targets: Target, script: str = "SELECT 1;") -> Experiment:
    """Return an experiment with these targets, and a script."""
    plain = an_experiment()
    workload = Workload(name="orders", scripts=(Script(name="o.sql", text=script),))
    configurations = tuple(
        replace(configuration, target=target)
        for configuration, target in zip(plain.configurations, targets, strict=True)
    )
    return replace(plain, workloads=(workload,), configurations=configurations)


def _cluster(context: str | None = "lab", namespace: str | None = None) -> CloudNativePgTarget:
    return CloudNativePgTarget(place=KubernetesPlace(context=context, namespace=namespace))


def _request(experiment: Experiment) -> Request:
    return Request(
        experiment=experiment, text="version: 1\n", command="steelyard run x", campaign_id="x-1"
    )


def _packed(path: Path, request: Request) -> Path:
    """Return a file with a request, as the ConfigMap's volume shows it."""
    target = path / "request.json.gz"
    target.write_bytes(base64.b64decode(pack(request)))
    return target


def test_what_is_unpacked_is_what_was_packed(tmp_path: Path) -> None:
    """Experiment, scripts, seed, text and id come out as they went in."""
    request = _request(_experiment(_cluster(), _cluster(namespace="bench")))
    assert unpack(_packed(tmp_path, request)) == request


def test_an_experiment_that_fits_no_configmap_is_refused() -> None:
    """The limit and the size are said, and the way out; what compresses well fits."""
    pack(_request(_experiment(_cluster(), _cluster(), script="SELECT 1;\n" * 1_000_000)))
    noise = "".join(sha256(str(number).encode()).hexdigest() for number in range(40_000))
    with pytest.raises(InputError, match="a ConfigMap has room for 960") as raised:
        pack(_request(_experiment(_cluster(), _cluster(), script=noise)))
    assert "generate_series" in raised.value.hint


def test_another_version_in_the_image_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image with an older Steelyard would run something else than was checked."""
    file = _packed(tmp_path, _request(_experiment(_cluster(), _cluster())))
    monkeypatch.setattr(steelyard, "__version__", "0.0.1")
    with pytest.raises(InputError, match=r"and this is 0\.0\.1"):
        unpack(file)


def test_what_is_no_request_is_said(tmp_path: Path) -> None:
    """A damaged file is no crash."""
    file = tmp_path / "request.json.gz"
    file.write_bytes(b"nothing")
    with pytest.raises(InputError, match="holds no campaign"):
        unpack(file)


def test_in_the_cluster_there_is_no_context() -> None:
    """A Job finds its own cluster; what names no namespace is where its account may work."""
    inside = ClusterService(service="db", secret="s", place=KubernetesPlace(context="lab"))
    experiment = _experiment(_cluster(namespace="bench"), EndpointTarget(inside=inside))
    first, second = (t.target for t in at_home(experiment, "jobs").configurations)
    assert isinstance(first, CloudNativePgTarget)
    assert first.place == KubernetesPlace(namespace="bench")
    assert isinstance(second, EndpointTarget)
    assert second.inside is not None
    assert second.inside.place == KubernetesPlace(namespace="jobs")


def _planned(
    experiment: Experiment,
    api: FakeKubernetesApi | None = None,
    asked: JobAsked = JobAsked(),  # noqa: B008 - frozen
    version: str = steelyard.__version__,
) -> JobPlan:
    api = api or FakeKubernetesApi(namespace="mine")
    image = JobImage(name="i", python=(3, 11), steelyard=version, has_pip=True)
    place = place_in(experiment)
    site = SimpleNamespace(experiment=experiment, api=api, place=place, plan=None)
    return in_cluster.plan_job(asked, "x-1", image, cast("KubernetesSite", site), 100.0)


def test_the_job_is_where_the_targets_are() -> None:
    """In their namespace, made where it is not there; Clusters without one get one of their own."""
    api = FakeKubernetesApi(namespace="mine")
    in_bench = _experiment(_cluster(namespace="bench"), _cluster(namespace="bench"))
    absent = _planned(in_bench, api)
    assert (absent.namespace, absent.makes_namespace) == ("bench", True)
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}})
    named = _planned(in_bench, api)
    assert (named.namespace, named.makes_namespace) == ("bench", False)
    own = _planned(_experiment(_cluster(), _cluster()))
    assert (own.namespace, own.makes_namespace) == ("steelyard-x-1", True)
    there = EndpointTarget(inside=ClusterService(service="db", secret="s"))
    beside = _planned(_experiment(there, there))
    assert (beside.namespace, beside.makes_namespace) == ("mine", False)


def test_the_volume_has_room_for_what_is_installed_on_it() -> None:
    """An image without Steelyard gets it on the record's volume, which a small one refuses."""
    experiment = _experiment(_cluster(), _cluster())
    small = JobAsked(record_size="100Mi")
    assert _planned(experiment, asked=small).storage == "100Mi"
    with pytest.raises(InputError, match="takes about 300 MB"):
        _planned(experiment, asked=small, version="")


def test_the_deadline_leaves_room_for_all_that_is_asked() -> None:
    """Budget and long runs fit in, and what comes up slowly, too."""
    experiment = _experiment(_cluster(), _cluster())
    assert _planned(experiment).deadline_s > experiment.stop.budget_s + 100


def test_the_account_gets_what_its_maker_may_give() -> None:
    """Kubernetes refuses to grant what one may not oneself: facts are done without."""
    api = FakeKubernetesApi()
    api.refuse("get", VOLUME)
    api.refuse("patch", POD)
    plan = _planned(_experiment(_cluster(), _cluster()), api)
    resources = {each.resource for each in plan.permissions}
    assert "persistentvolumes" not in resources
    assert {"nodes", "pods", "clusters", "jobs"} <= resources


def test_who_may_not_start_jobs_is_told_all_at_once() -> None:
    """Everything that is missing stands in one message, before anything is made."""
    api = FakeKubernetesApi()
    api.refuse("patch", JOB)
    api.refuse("create", ACCOUNT)
    plan = _planned(_experiment(_cluster(), _cluster()), api)
    with pytest.raises(PrivilegeError, match=r"patch jobs.* create serviceaccounts") as raised:
        in_cluster.require_startable(plan, api)
    assert "steelyard kubernetes rbac" in raised.value.hint
    api.permit()
    api.refuse("create", ACCOUNT)
    there = {"apiVersion": "v1", "kind": "ServiceAccount"}
    api.put({**there, "metadata": {"name": "given", "namespace": "jobs"}})
    in_cluster.require_startable(replace(plan, account="given", **_IN_JOBS), api)


_IN_JOBS: dict[str, Any] = {"namespace": "jobs", "makes_namespace": False}


@pytest.mark.parametrize("given", [{"secrets": ("aws",)}, {"account": "runner"}])
@pytest.mark.parametrize("place", [{"makes_namespace": True}, _IN_JOBS])
def test_what_a_job_is_to_have_is_there_before(
    given: dict[str, Any], place: dict[str, Any]
) -> None:
    """A Secret cannot be in a namespace that the campaign makes, nor an account."""
    api = FakeKubernetesApi()
    plan = _planned(_experiment(_cluster(), _cluster()), api)
    with pytest.raises(PreflightError, match="is not there, and the Job is to have it") as raised:
        in_cluster.require_startable(replace(plan, **given, **place), api)
    assert "-n" in raised.value.hint
