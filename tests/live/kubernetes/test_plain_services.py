"""A whole campaign on a PostgreSQL that no operator made, by its Service and a Secret."""

from steelyard.gateways.kubernetes.api import KubernetesApi
from support.cluster_campaigns import HERE, on_a_service, only_the_record
from support.live import Steelyard, assert_nothing_holds
from support.postgres_pod import SERVICE, PostgresPod, postgres_pod, postgres_secret

PASSWORD = "hunter2-of-a-service"


def _asked(api: KubernetesApi, server: PostgresPod, query: str) -> str:
    said = api.run(
        server.where, ("psql", "-h", "127.0.0.1", "-d", "postgres", "-Atc", query), timeout_s=60
    )
    assert said.succeeded, said.stderr
    return said.stdout.strip()


def test_a_server_of_others_is_measured_and_is_as_it_was(
    cluster_api: KubernetesApi, own_namespace: str, steelyard: Steelyard
) -> None:
    """Its setting is changed for each configuration and put back; databases and pods are gone."""
    secret = postgres_secret(cluster_api, own_namespace, "right", PASSWORD)
    server = postgres_pod(cluster_api, secret)
    text = on_a_service(SERVICE, "right")
    with only_the_record(cluster_api, own_namespace, steelyard):
        words = (*HERE, "--dir", "c", "-n", own_namespace, "--yes", "--no-verdict")
        steelyard.until_blocks(1, "run", steelyard.experiment(text), *words)
    assert _asked(cluster_api, server, "SHOW work_mem") == "4MB"
    assert _asked(cluster_api, server, "SELECT count(*) FROM pg_database") == "3"
    assert {run["configuration"] for run in steelyard.runs} == {"default", "other"}
    assert_nothing_holds(steelyard.directory / "c", [PASSWORD])
