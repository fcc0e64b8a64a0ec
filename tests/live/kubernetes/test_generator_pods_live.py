"""Two load generators in pods of a real cluster, against a PostgreSQL there.

They begin together, and their counts add up to the server's own.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes.generator_pods import ToldLedger
from steelyard.core.kubernetes import NAMESPACE, ObjectRef
from steelyard.core.outside import Command, ServerAddress
from steelyard.core.target import GeneratorPods as Asked
from steelyard.core.target import KubernetesPlace, PodResources
from steelyard.gateways.host import Clock
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.sql import Sql
from steelyard.places.agent.programs import AgentProcesses
from steelyard.places.kubernetes.belongings import Belongings
from steelyard.places.kubernetes.generators import GeneratorPlan, GeneratorPods
from steelyard.places.kubernetes.reaching import Reach, make_secret, sql_knock
from steelyard.systems.postgres import pgbench
from steelyard.systems.postgres.log_lines import LogForm
from steelyard.systems.postgres.transaction_log import TransactionLogReader
from support.kubernetes import IMAGE, left_of, until
from support.postgres_pod import LABELS, SERVICE, PostgresPod, postgres_pod

# No name of Kubernetes as it is.
CAMPAIGN_ID = f"Live_generators-{uuid.uuid4().hex[:6]}"
_SMALL = PodResources(requests=(("cpu", "200m"), ("memory", "128Mi")))
_CLOCK = Clock()


@dataclass(kw_only=True)
class Site:
    """A server in a namespace, and two generators of a campaign there."""

    api: KubernetesApi
    server: PostgresPod
    pods: GeneratorPods


@pytest.fixture
def site(cluster_api: KubernetesApi, own_namespace: str) -> Iterator[Site]:
    """Yield a namespace of the strictest standard but for the server, which gets its data."""
    ledger = ToldLedger()
    belongings = Belongings(cluster_api, ledger, CAMPAIGN_ID, own_namespace)
    server = postgres_pod(cluster_api, make_secret(belongings))
    cluster_api.patch(
        ObjectRef(kind=NAMESPACE, name=own_namespace),
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
    )
    plan = GeneratorPlan(
        place=KubernetesPlace(generators=Asked(resources=_SMALL)),
        image=IMAGE,
        number=2,
        secret=server.secret,
        deadline_s=900,
        away_from=LABELS,
    )
    pods = GeneratorPods(plan, belongings, cluster_api, _CLOCK)
    pods.make(lambda _: None)
    yield Site(api=cluster_api, server=server, pods=pods)
    pods.close()
    belongings.remove_all()
    assert left_of(cluster_api, CAMPAIGN_ID) == []
    assert not ledger.now


@pytest.fixture
def history(site: Site) -> Iterator[Callable[[], int]]:
    """Yield what counts the transactions on the server, from here."""
    reach = Reach(site.api, sql_knock(Sql()), _CLOCK)
    server, namespace = site.server, site.server.secret.namespace

    def count() -> int:
        where = (server.where, SERVICE, namespace, server.secret, "postgres")
        address = reach.address(*where, port=6543)
        rows = Sql().rows(address, "SELECT count(*) FROM pgbench_history")
        return int(str(rows[0][0]))

    yield count
    reach.close()


def test_two_generators_begin_together_and_add_up(
    site: Site, history: Callable[[], int], tmp_path: Path
) -> None:
    """Summaries, histograms and the server count the same transactions, and nothing is lost.

    They are on another node than the server, under the standard `restricted`.
    """
    processes = AgentProcesses(site.pods, _CLOCK, roots=[tmp_path], told=lambda _: None)
    address = ServerAddress(
        host="127.0.0.1",
        port=1,
        user="postgres",
        database="postgres",
        password="never sent",
        inside=(f"{SERVICE}.{site.server.secret.namespace}.svc", 6543),
    )

    def command(*words: str) -> Command:
        return Command(argv=words, environment=dict(pgbench.environment(address)))

    # What is behind a Service is known to every node some time after the pod is ready.
    ask = command("psql", "-c", "SELECT 1")
    until(lambda: processes.run(ask, timeout_s=60).succeeded, "the Service leads to the server")
    made = processes.run(command("pgbench", "-i", "-s", "2", "-q"), timeout_s=120)
    assert made.succeeded, made.stderr
    words = ("--no-vacuum", "--time=4", "--client=2", "--progress=1", "--progress-timestamp")
    logs = [f"--log-prefix={tmp_path / 'log'}-{number}" for number in range(2)]
    completed = processes.run_together(
        [command("pgbench", *words, "--builtin=tpcb-like", "--log", log) for log in logs],
        timeout_s=60,
    )
    assert all(each.succeeded for each in completed), [each.stderr for each in completed]
    processed = sum(pgbench.processed_of(each) for each in completed)
    assert processed == history() > 0
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
    measured = pgbench.parse_generators(completed, ramp_s=0.0, started_at=began_at)
    assert round(measured.transactions) == processed
    assert site.server.node not in site.pods.nodes
    skew = processes.last_skew
    assert skew is not None
    assert 0 <= skew.seconds < 1
    for run in processes.last_runs:
        assert run.program_s > 0
