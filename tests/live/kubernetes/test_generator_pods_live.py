"""Load generators in pods of a real cluster, against a PostgreSQL there.

Two of them begin together, their counts add up to the server's own, and neither a lost connection
nor a killed pod makes a wrong number.
"""

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes
import pytest
from ruamel.yaml import YAML

from fakes.generator_pods import ToldLedger
from steelyard.core.kubernetes import NAMESPACE, NODE, POD, QUOTA, ContainerRef, ObjectRef
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.target import GeneratorPods as Asked
from steelyard.core.target import KubernetesPlace, PodResources
from steelyard.core.wording import MeasurementError, PreflightError
from steelyard.gateways.host import SystemClock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.kubernetes.connecting import KubectlConfiguration
from steelyard.gateways.sql import PsycopgSql
from steelyard.places.agent.programs import AgentProcesses
from steelyard.places.kubernetes import pods as waiting
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.generators import GeneratorPlan, GeneratorPods
from steelyard.places.kubernetes.reaching import Reach, make_secret, pods_behind, sql_knock
from steelyard.systems.postgres import pgbench
from steelyard.systems.postgres import pgbench as merging
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import TransactionLogReader
from support.kubernetes import IMAGE, left_of, namespace_in, until
from support.postgres_pod import LABELS, SERVICE, PostgresPod, postgres_pod
from support.proxy import Proxy, proxy_to

# No name of Kubernetes as it is. Each worker has another one: tests of this module run on several
# at a time, each with a site, and what is left of a campaign is looked for in the whole cluster.
CAMPAIGN_ID = f"Live_generators-{uuid.uuid4().hex[:6]}"
_SMALL = PodResources(requests=(("cpu", "200m"), ("memory", "128Mi")))
_CLOCK = SystemClock()


@dataclass(kw_only=True)
class Site:
    """A namespace with a server, and what a campaign has there."""

    api: KubernetesApi
    belongings: Belongings
    ledger: ToldLedger
    server: PostgresPod
    told: list[str] = field(default_factory=list)

    def plan(self, number: int = 1, **changed: Any) -> GeneratorPlan:
        """Return a plan of small generators."""
        values: dict[str, Any] = {
            "place": KubernetesPlace(generators=Asked(resources=_SMALL)),
            "image": IMAGE,
            "number": number,
            "secret": self.server.secret,
            "deadline_s": 900,
        }
        return GeneratorPlan(**{**values, **changed})

    def generators(self, plan: GeneratorPlan, api: KubernetesApi | None = None) -> GeneratorPods:
        """Return generators that are ready."""
        pods = GeneratorPods(plan, self.belongings, api or self.api, _CLOCK)
        pods.make(self.told.append)
        return pods

    def processes(self, pods: GeneratorPods, root: Path) -> AgentProcesses:
        """Return what runs programs in generators."""
        return AgentProcesses(pods, _CLOCK, roots=[root], told=self.told.append)


@pytest.fixture(scope="module")
def site(cluster_api: KubernetesApi) -> Iterator[Site]:
    """Yield a namespace of the strictest standard but for the server, which gets its data."""
    ledger = ToldLedger()
    with namespace_in(cluster_api) as namespace:
        belongings = Belongings(cluster_api, ledger, CAMPAIGN_ID, namespace)
        server = postgres_pod(cluster_api, make_secret(belongings))
        cluster_api.patch(
            ObjectRef(kind=NAMESPACE, name=namespace),
            {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
        )
        yield Site(api=cluster_api, belongings=belongings, ledger=ledger, server=server)
        belongings.remove_all()
        assert left_of(cluster_api, CAMPAIGN_ID) == []
        assert not ledger.now


@pytest.fixture(scope="module")
def two(site: Site) -> Iterator[GeneratorPods]:
    """Yield two generators with tables of pgbench to work on."""
    pods = site.generators(site.plan(2, away_from=LABELS))
    run = site.processes(pods, Path("/none")).run
    ask = Command(argv=("psql", "-c", "SELECT 1"), environment=_inside(site))
    # What is behind a Service is known to every node some time after the pod is ready.
    until(lambda: run(ask, timeout_s=60).succeeded, "the Service leads to the server")
    fill = Command(argv=("pgbench", "-i", "-s", "2", "-q"), environment=_inside(site))
    made = run(fill, timeout_s=120)
    assert made.succeeded, made.stderr
    yield pods
    pods.close()


@pytest.fixture
def sql(site: Site) -> Iterator[Callable[[str], list[tuple[object, ...]]]]:
    """Yield what runs a statement on the server, from here."""
    reach = Reach(site.api, sql_knock(PsycopgSql()), _CLOCK)

    def rows(statement: str) -> list[tuple[object, ...]]:
        return PsycopgSql().rows(_address(reach, site), statement)

    yield rows
    reach.close()


def _address(reach: Reach, site: Site) -> ServerAddress:
    server = site.server
    namespace = server.secret.namespace
    return reach.address(server.where, SERVICE, namespace, server.secret, "postgres", port=6543)


def _inside(site: Site) -> dict[str, str]:
    """Return what a generator is told of the server, as the engine tells it."""
    address = ServerAddress(
        host="127.0.0.1",
        port=1,
        user="postgres",
        database="postgres",
        password="never sent",
        inside=(f"{SERVICE}.{site.server.secret.namespace}.svc", 6543),
    )
    return dict(pgbench.environment(address))


def _pgbench(site: Site, seconds: int, *further: str) -> Command:
    asked = ("--no-vacuum", f"--time={seconds}", "--client=2", "--progress=1")
    words = (*asked, "--progress-timestamp", "--builtin=tpcb-like", *further)
    return Command(argv=("pgbench", *words), environment=_inside(site))


def _history(sql: Callable[[str], list[tuple[object, ...]]]) -> int:
    return int(str(sql("SELECT count(*) FROM pgbench_history")[0][0]))


def _processed(completed: tuple[Completed, ...]) -> int:
    assert all(each.succeeded for each in completed), [each.stderr for each in completed]
    return sum(pgbench.processed_of(each) for each in completed)


def test_two_generators_begin_together_and_add_up(
    site: Site, two: GeneratorPods, sql: Any, tmp_path: Path
) -> None:
    """Summaries, histograms and the server count the same transactions, and nothing is lost.

    They are on another node than the server, under the standard `restricted`.
    """
    before = _history(sql)
    processes = site.processes(two, tmp_path)
    commands = [
        _pgbench(site, 4, "--log", f"--log-prefix={tmp_path / 'log'}-{number}")
        for number in range(2)
    ]
    completed = processes.run_together(commands, timeout_s=60)
    processed = _processed(completed)
    assert processed == _history(sql) - before > 0
    began_at = min(each.began_at or 0.0 for each in completed)
    reader = TransactionLogReader(
        LogForm(scripts=("tpcb-like",), open_loop=False, retries=False),
        started_at=began_at,
        ramp_s=0.0,
    )
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    for path in files:
        reader.feed(path.name, path.read_bytes())
    log = reader.finish(ramp_s=0.0)
    assert (log.transactions, log.damaged) == (processed, 0)
    measured = merging.parse_generators(completed, ramp_s=0.0, started_at=began_at)
    assert round(measured.transactions) == processed
    assert site.server.node not in two.nodes
    skew = processes.last_skew
    assert skew is not None
    assert 0 <= skew.seconds < 1
    for run in processes.last_runs:
        assert run.program_s > 0


def test_a_cut_connection_costs_no_transaction(
    site: Site, two: GeneratorPods, sql: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API is away while two generators work and when they have ended; the counts are exact."""
    with _proxied(tmp_path, monkeypatch) as (api, proxy):
        processes = AgentProcesses(two, _CLOCK, roots=[tmp_path], told=site.told.append)
        monkeypatch.setattr(two, "_api", api)
        ready = {n: replace(pod, api=api) for n, pod in enumerate(two.ready)}
        monkeypatch.setattr(two, "_ready", ready)
        before = _history(sql)

        def away() -> None:
            proxy.refuse = True
            proxy.reset()
            time.sleep(6.0)
            proxy.refuse = False

        commands = [
            _pgbench(site, 5, "--log", f"--log-prefix={tmp_path / 'cut'}-{n}") for n in range(2)
        ]
        ended: list[tuple[Completed, ...]] = []
        begun = _history(sql)
        thread = threading.Thread(
            target=lambda: ended.append(processes.run_together(commands, timeout_s=60))
        )
        thread.start()
        until(lambda: _history(sql) > begun, "the generators work")
        away()
        thread.join()
        (completed,) = ended
    processed = _processed(completed)
    assert processed == _history(sql) - before > 0
    logged = sum(len(path.read_text().splitlines()) for path in tmp_path.glob("cut-*"))
    assert logged == processed


@contextmanager
def _proxied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[KubernetesApi, Proxy]]:
    """Yield the API through a proxy, and the proxy."""
    yaml = YAML(typ="safe")
    config = yaml.load(Path(os.environ["KUBECONFIG"].split(":")[0]))
    places = [urlsplit(each["cluster"]["server"]) for each in config["clusters"]]
    if any(place.hostname not in {"127.0.0.1", "localhost"} for place in places):
        pytest.skip("the API is not on this machine, so no proxy is put before it")
    with proxy_to(places[0].port or 443) as proxy, monkeypatch.context() as patch:
        for each in config["clusters"]:
            each["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        path = tmp_path / "kubeconfig"
        with path.open("w") as file:
            yaml.dump(config, file)
        patch.setenv("KUBECONFIG", str(path))
        api = KubectlConfiguration().connect()
        api.version()
        yield api, proxy


def _delete(site: Site, pod: ContainerRef) -> None:
    ref = ObjectRef(kind=POD, name=pod.pod, namespace=pod.namespace)
    site.api.delete(ref, grace_s=0)


def _evict(_: Site, pod: ContainerRef) -> None:
    """Do what `kubectl drain` does with each pod of a node."""
    api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config())
    metadata = {"name": pod.pod, "namespace": pod.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    api.create_namespaced_pod_eviction(pod.pod, pod.namespace, body)
    api.api_client.close()


@pytest.mark.parametrize(("strike", "cause"), [(_delete, "was deleted"), (_evict, "was evicted")])
def test_a_lost_pod_makes_the_run_invalid_and_is_replaced(
    site: Site,
    two: GeneratorPods,
    sql: Any,
    tmp_path: Path,
    *,
    strike: Callable[[Site, ContainerRef], None],
    cause: str,
) -> None:
    """The run fails with the cause, nothing of it goes on, and the next run has two pods again."""
    processes = site.processes(two, tmp_path)
    lost, kept = two.pods
    begun = _history(sql)

    def kill() -> None:
        until(lambda: _history(sql) > begun, "the generators work")
        strike(site, lost)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(MeasurementError, match=f"{lost.pod} {cause}"):
        processes.run_together([_pgbench(site, 120)] * 2, timeout_s=150)
    killer.join()
    until(
        lambda: not sql("SELECT 1 FROM pg_stat_activity WHERE application_name LIKE '%pgbench'"),
        "no generator works",
    )
    before = _history(sql)
    completed = processes.run_together([_pgbench(site, 2)] * 2, timeout_s=60)
    assert _processed(completed) == _history(sql) - before > 0
    assert two.pods[1] == kept
    assert two.pods[0] != lost
    assert any("is made anew" in text for text in site.told)


def test_a_generator_that_needs_too_much_memory_is_told_so(
    site: Site, two: GeneratorPods, tmp_path: Path
) -> None:
    """A program that the kernel kills is a failed one, whatever becomes of its pod."""
    eat = 'text=$(head -c 300000000 /dev/zero | tr "\\0" x); echo "${#text}"'
    processes = site.processes(two, tmp_path)
    try:
        done = processes.run(Command(argv=("bash", "-c", eat)), timeout_s=60)
        assert done.exit_status == -9
    except MeasurementError as error:  # where a group is killed as a whole
        assert "memory" in error.message  # noqa: PT017 - one of two right ways
    assert processes.run(Command(argv=("echo", "again")), timeout_s=60).stdout == "again\n"


def test_psql_reads_a_script_of_this_machine(
    site: Site, two: GeneratorPods, sql: Any, tmp_path: Path
) -> None:
    """A file by its path and a text as input reach the server; the password is the Secret's."""
    script = tmp_path / "own.sql"
    script.write_text("CREATE TABLE own_table AS SELECT 7 AS n;\n")
    run = site.processes(two, tmp_path).run
    asked = ("psql", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--file={script}")
    assert run(Command(argv=asked, environment=_inside(site)), timeout_s=60).succeeded
    text = "INSERT INTO own_table SELECT generate_series(1, 1000);\n"
    assert run(
        Command(argv=("psql", "-q"), environment=_inside(site)), timeout_s=60, stdin=text
    ).succeeded
    assert sql("SELECT count(*) FROM own_table") == [(1001,)]


def test_an_image_that_is_not_there_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet's words are in the error, and the pod is gone."""
    plan = replace(site.plan(), image="localhost/no-such-image:0")
    with pytest.raises(PreflightError, match="its image cannot be pulled"):
        site.generators(plan)
    until(lambda: len(_pods(site)) <= 2, "its pod is gone")


def test_no_node_but_the_databases_is_told_with_the_way_out(site: Site) -> None:
    """Where every node is the server's, nothing is even made."""
    nodes = [pod.node for pod in pods_behind(site.api, SERVICE, site.belongings.namespace, 6543)]
    assert nodes == [site.server.node]
    every = tuple(each["metadata"]["name"] for each in site.api.list(NODE))
    with pytest.raises(PreflightError, match="all usable nodes are") as caught:
        site.generators(site.plan(away_from_nodes=every))
    assert "same_node: true" in caught.value.hint


def test_the_scheduler_keeps_a_generator_away_from_the_server(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bound to the server's node by the file, it is scheduled nowhere, and the hint is the same."""
    monkeypatch.setattr(waiting, "_PASSES_S", 2.0)
    bound = Asked(resources=_SMALL, node_selector=(("kubernetes.io/hostname", site.server.node),))
    plan = site.plan(place=KubernetesPlace(generators=bound), away_from=LABELS)
    with pytest.raises(PreflightError, match="anti-affinity") as caught:
        site.generators(plan)
    assert "same_node: true" in caught.value.hint
    allowed = replace(plan, place=KubernetesPlace(generators=replace(bound, same_node=True)))
    pods = site.generators(allowed)
    assert pods.nodes == (site.server.node,)
    pods.close()


def test_a_quota_that_is_full_is_told(site: Site) -> None:
    """What is missing is named, and nothing is left."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "full", "namespace": site.belongings.namespace},
        "spec": {"hard": {"requests.memory": "1Mi"}},
    }
    site.api.apply(quota)
    ref = ObjectRef(kind=QUOTA, name="full", namespace=site.belongings.namespace)
    until(lambda: "used" in (site.api.read(ref) or {}).get("status", {}), "the quota is counted")
    try:
        with pytest.raises(PreflightError, match="exceeds the quota full"):
            site.generators(site.plan())
    finally:
        site.api.delete(ref)


def test_a_server_that_was_made_anew_is_reached_again(
    cluster_api: KubernetesApi, own_namespace: str
) -> None:
    """The forward to a pod that is gone does not keep anybody from the one that came after it."""
    belongings = Belongings(cluster_api, ToldLedger(), "anew-0a1b2c", own_namespace)
    secret = make_secret(belongings)
    reach = Reach(cluster_api, sql_knock(PsycopgSql()), _CLOCK)

    def version_of(server: PostgresPod) -> object:
        address = reach.address(server.where, SERVICE, own_namespace, secret, "postgres")
        return PsycopgSql().rows(address, "SELECT system_identifier FROM pg_control_system()")

    try:
        first = postgres_pod(cluster_api, secret)
        before = version_of(first)
        assert version_of(first) == before
        ref = ObjectRef(kind=POD, name=first.where.pod, namespace=own_namespace)
        cluster_api.delete(ref, grace_s=0)
        until(lambda: cluster_api.read(ref) is None, "the server is gone")
        assert version_of(postgres_pod(cluster_api, secret)) != before
    finally:
        reach.close()
        belongings.remove_all()


def _pods(site: Site) -> list[str]:
    found = site.api.list(POD, site.belongings.namespace)
    return [each["metadata"]["name"] for each in found if "generator" in each["metadata"]["name"]]
