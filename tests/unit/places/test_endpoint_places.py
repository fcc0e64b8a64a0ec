"""Where an endpoint is and where its settings are kept can be exchanged."""

from collections.abc import Iterator, Mapping

import pytest

from fakes.clock import FakeClock
from fakes.doors import fake_doors
from fakes.endpoint import FakeEndpoint
from fakes.kubernetes_api import FakeKubernetesApi
from fakes.programs import FakeLedger, FakeProgram
from steelyard.core.kubernetes import NAMESPACE, POD, SECRET, SERVICE, ContainerRef, SecretRef
from steelyard.core.outside import ServerAddress, ServerInCluster
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import PreflightError, TargetError
from steelyard.places.kubernetes.reaching import Reach, sql_knock
from steelyard.systems.existing import Anywhere, ServicePlace, SettingStore
from steelyard.systems.postgres.existing.platform import EndpointOptions, EndpointPlatform
from steelyard.systems.postgres.existing.server import DatasetNeeds

_FOUND = ServerInCluster(
    context="lab",
    server="https://127.0.0.1:6443",
    namespace="prod",
    service="db",
    port=6432,
    secret=SecretRef(namespace="prod", name="db-user"),
)


class _Store:
    """Settings that are kept in a list."""

    label = "in a list"

    def __init__(self) -> None:
        self.changes: list[tuple[str, Mapping[str, str]]] = []

    def change(self, settings: Mapping[str, str]) -> bool:
        """Note them; the server has them."""
        self.changes.append(("change", dict(settings)))
        return False

    def activate(self, settings: Mapping[str, str], *, restarts: bool) -> None:
        """Note them, and whether there was a restart."""
        self.changes.append(("restart" if restarts else "reload", dict(settings)))


class _Place(Anywhere):
    """A place with a store of its own, or with none."""

    def __init__(self, server: FakeEndpoint, own: SettingStore | None) -> None:
        super().__init__(server.reach({}))
        self.own = own
        self.left = 0

    def store(self, own_file: SettingStore) -> SettingStore | None:  # noqa: ARG002
        """Return its own store."""
        return self.own

    def require_ready(self) -> None:
        """Refuse."""
        raise PreflightError("the place is not ready")

    def leave(self) -> None:
        """Count."""
        self.left += 1


def _platform(
    server: FakeEndpoint, place: Anywhere | ServicePlace, *, restarts: bool = False
) -> EndpointPlatform:
    clock = FakeClock()
    options = EndpointOptions(
        target=EndpointTarget(),
        entrance=server.reach({}),
        campaign_id="night-2",
        datasets=(DatasetNeeds(name="steelyard_s1", tables=True, scripts=False),),
        settings=("work_mem",),
        restarts=restarts,
        clients=4,
    )
    means = fake_doors(clock, sql=server)
    return EndpointPlatform(options, FakeLedger(), means, place)


@pytest.mark.parametrize("restarts", [True, False])
def test_the_store_of_a_place_takes_the_settings(*, restarts: bool) -> None:
    """Nothing is changed by ALTER SYSTEM then, and who restarts is the store."""
    server, store = FakeEndpoint(), _Store()
    place = _Place(server, store)
    platform = _platform(server, place, restarts=restarts)
    state = platform.prepare(FakeProgram(), ["data"], _nothing)
    platform.start(state, FakeProgram(), {"work_mem": "9MB"})
    assert platform.configure({"work_mem": "8MB"}) is False
    how = "restart" if restarts else "reload"
    assert store.changes == [(how, {"work_mem": "9MB"}), ("change", {"work_mem": "8MB"})]
    assert not server.file
    assert {f.name: f.value for f in platform.facts()}["settings"] == "in a list"
    platform.destroy()
    assert place.left == 1


def test_a_place_may_forbid_changes_for_everyone() -> None:
    """A superuser then sets own sessions only."""
    server = FakeEndpoint()
    platform = _platform(server, _Place(server, None))
    state = platform.prepare(FakeProgram(), ["data"], _nothing)
    platform.start(state, FakeProgram(), {"work_mem": "9MB"})
    assert dict(platform.address.parameters)["options"] == "-c work_mem=9MB"
    assert not server.file
    platform.destroy()


def test_a_place_that_is_not_ready_is_refused_before_the_server_is_asked() -> None:
    """Its reason comes first, though the server is a standby, too."""
    server = FakeEndpoint()
    server.state[0] = True
    with pytest.raises(PreflightError, match="the place is not ready"):
        _platform(server, _Place(server, None)).require_ready()


def _cluster() -> FakeKubernetesApi:
    api = FakeKubernetesApi()
    api.put(NAMESPACE.manifest("prod"))
    api.put(
        SERVICE.manifest(
            "db",
            namespace="prod",
            spec={"ports": [{"port": 6432, "targetPort": 5432}], "selector": {"app": "db"}},
        )
    )
    api.put(
        SECRET.manifest(
            "db-user", namespace="prod", stringData={"username": "bench", "password": "planted"}
        )
    )
    _lead(api, "db-0")
    return api


def _lead(api: FakeKubernetesApi, pod: str) -> None:
    """Let the Service lead to one pod, which is ready."""
    for each in api.list(POD, "prod"):
        api.lose(POD, each["metadata"]["name"], "prod")
    api.put(
        POD.manifest(
            pod,
            namespace="prod",
            labels={"app": "db"},
            spec={"containers": [{"name": "db"}], "nodeName": "node1"},
            status={
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        )
    )


@pytest.fixture
def api() -> FakeKubernetesApi:
    """Return a cluster with a Service, a pod behind it, and a Secret."""
    return _cluster()


@pytest.fixture
def reach(api: FakeKubernetesApi) -> Iterator[Reach]:
    """Yield the ways into it, closed afterwards."""
    reach = Reach(api, sql_knock(FakeEndpoint()), api.clock)
    yield reach
    reach.close()


def test_a_server_behind_a_service(api: FakeKubernetesApi, reach: Reach) -> None:
    """It is reached by a forward to its pod, programs in pods take the Service."""
    place = ServicePlace(_FOUND, reach)
    address = place.entrance()
    assert (address.host, address.user, address.password) == ("127.0.0.1", "bench", "planted")
    assert address.service == ("db.prod.svc", 6432)
    assert api.forwards == [
        (ContainerRef(namespace="prod", pod="db-0", container="db"), 5432, address.port)
    ]
    assert {fact.value for fact in place.facts()} == {"db.prod:6432", "db-0", "node1"}


def test_another_pod_behind_the_service_is_followed(api: FakeKubernetesApi, reach: Reach) -> None:
    """After a failover the way leads to the pod that the Service leads to."""
    place = ServicePlace(_FOUND, reach)
    place.entrance()
    _lead(api, "db-1")
    api.clock.advance(60)
    place.entrance()
    assert [where.pod for where, _, _ in api.forwards] == ["db-0", "db-1"]


def test_what_is_made_there_is_noted_by_its_service(api: FakeKubernetesApi, reach: Reach) -> None:
    """A forwarded port means nothing after a death: the ledger has Service and Secret instead."""
    server = FakeEndpoint()
    place = ServicePlace(_FOUND, reach)
    platform = _platform(server, place)
    platform.prepare(FakeProgram(), ["data"], _nothing)
    ledger = platform._ledger
    assert isinstance(ledger, FakeLedger)
    (noted,) = [thing for _, thing in ledger.things]
    assert (noted.host, noted.port, noted.inside) == ("db.prod.svc", 6432, _FOUND)
    platform.destroy()
    assert set(server.databases) == {"postgres"}


def _nothing(address: ServerAddress) -> None:
    assert dict(address.databases)


def test_an_absent_service_is_refused(api: FakeKubernetesApi, reach: Reach) -> None:
    """Whoever names a Service that is not there is told before anything is made."""
    api.lose(SERVICE, "db", "prod")
    place = ServicePlace(_FOUND, reach)
    with pytest.raises(PreflightError, match="db is not there"):
        place.require_ready()
    with pytest.raises(TargetError, match="db is not there"):
        place.entrance()
