"""Ports of pods on this machine: psycopg speaks to a PostgreSQL in the cluster through them."""

import socket
import threading
from collections.abc import Iterator

import psycopg
import pytest

from steelyard.core.kubernetes import ContainerRef
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import namespace_in, start_pod, until, waiting_pod

PORT = 5432
_SERVER = """
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
initdb -D /scratch/pgdata --auth=trust --username=postgres --no-sync >/dev/null &&
exec postgres -D /scratch/pgdata -c listen_addresses='*' -c unix_socket_directories=/scratch
"""


@pytest.fixture(scope="module")
def database(cluster_api: KubernetesApi) -> Iterator[ContainerRef]:
    """Yield a container with a PostgreSQL that lets everybody in from the pod's own network."""
    with namespace_in(cluster_api) as namespace:
        security = {"runAsUser": 26, "runAsGroup": 26, "fsGroup": 26}
        volumes = [{"name": "scratch", "emptyDir": {}}]
        pod = waiting_pod(namespace, "database", securityContext=security, volumes=volumes)
        container = pod["spec"]["containers"][0]
        container["command"] = ["sh", "-c", _SERVER]
        container["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
        where = start_pod(cluster_api, pod)
        ready = ["sh", "-c", "psql -h 127.0.0.1 -U postgres -c 'SELECT 1'"]
        until(lambda: cluster_api.run(where, ready, timeout_s=60).succeeded, "the server accepts")
        yield where


def connect(port: int) -> psycopg.Connection:
    """Return a connection through a forward."""
    return psycopg.connect(
        host="127.0.0.1", port=port, user="postgres", connect_timeout=60, autocommit=True
    )


def answer(connection: psycopg.Connection, statement: str) -> object:
    """Return the first column of the first row."""
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def test_sql_goes_through_a_forward(cluster_api: KubernetesApi, database: ContainerRef) -> None:
    """Short answers and long ones, both ways, as on any connection."""
    with cluster_api.forward(database, PORT) as port, connect(port) as connection:
        assert answer(connection, "SELECT 42") == 42
        assert answer(connection, "SELECT repeat('x', 4000000)") == "x" * 4_000_000
        connection.execute("CREATE TEMP TABLE lines (line text)")
        with connection.cursor().copy("COPY lines FROM STDIN") as copy:
            for number in range(20_000):
                copy.write_row([f"{number} " + "y" * 100])
        assert answer(connection, "SELECT count(*) FROM lines") == 20_000


def test_a_broken_connection_harms_no_other(
    cluster_api: KubernetesApi, database: ContainerRef
) -> None:
    """One that the server ends, and one whose client vanishes; the others and new ones work."""
    with cluster_api.forward(database, PORT) as port, connect(port) as staying:
        doomed = connect(port)
        process = answer(doomed, "SELECT pg_backend_pid()")
        staying.execute(f"SELECT pg_terminate_backend({process})")
        with pytest.raises(psycopg.OperationalError):
            doomed.execute("SELECT 1")
        doomed.close()
        vanishing = socket.create_connection(("127.0.0.1", port))
        vanishing.sendall(b"nonsense")
        vanishing.close()
        assert answer(staying, "SELECT 1") == 1
        with connect(port) as fresh:
            assert answer(fresh, "SELECT 2") == 2


def test_leaving_a_forward_ends_its_connections(
    cluster_api: KubernetesApi, database: ContainerRef
) -> None:
    """What is open breaks, nobody listens any more, and its threads are gone."""
    before = threading.active_count()
    with cluster_api.forward(database, PORT) as port:
        connection = connect(port)
        assert threading.active_count() > before
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    connection.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))
    assert threading.active_count() == before
