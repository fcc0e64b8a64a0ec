"""An account of AWS for tests: moto, states that take time, faults, and real PostgreSQL servers.

moto answers in this process, so nothing leaves it. What moto lacks is added here: an instance is
`creating` for a while and `deleting` for a while; a deletion without the word on its snapshot is
refused as AWS does; calls can be throttled, denied or cut off. With a ``server`` every instance is
a PostgreSQL server of this machine, under the settings of its parameter group.
"""

import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs

import pytest

REGION = "us-east-1"
ACCOUNT = "123456789012"


Look = tuple[float, Counter[tuple[str, str]]]  # seconds since the epoch; sessions by type and event


class Server(Protocol):
    """One PostgreSQL server behind an instance."""

    port: int
    looks: list[Look]

    def apply(self, settings: dict[str, str], *, restarts: bool) -> None:
        """Take settings, by a restart where asked."""
        ...

    def stop(self) -> None:
        """End it and remove its data."""
        ...


@dataclass
class Account:
    """What a test changes of the account.

    Attributes:
        create_s: For which an instance is `creating`; None: for ever.
        delete_s: For which it is `deleting`.
        throttled: How many of the next calls of an action are refused for their rate.
        denied: Actions that the account may not do.
        begun: Makes the server behind an instance, from its settings, user and password.
        calls: Every action that came, in order.
        products: That the Price List API has, JSON each.
        looks: At the active sessions of an instance without a server, by its name.
        over: That the test has ended: no server is begun for it any more.
    """

    url: str = ""
    create_s: float | None = 0.0
    delete_s: float = 0.0
    throttled: dict[str, int] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    rejects_credentials: bool = False
    begun: Callable[[dict[str, str], str, str], Server] | None = None
    servers: dict[str, Server] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    products: list[str] = field(default_factory=list)
    looks: dict[str, list[Look]] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def refusal(self, action: str) -> tuple[str, str] | None:
        """Return code and message with which a call is refused; None: it is not."""
        self.calls.append(action)
        if self.rejects_credentials:
            return "InvalidClientTokenId", "The security token included in the request is invalid."
        if action in self.denied:
            return "AccessDenied", f"User bench is not authorized to perform: {action}"
        if self.throttled.get(action, 0) > 0:
            self.throttled[action] -= 1
            return "Throttling", "Rate exceeded"
        return None


_FAMILY = ("shared_buffers", "static"), ("work_mem", "dynamic"), ("random_page_cost", "dynamic")
# What only the group of a cluster has, in families of Aurora.
_OF_CLUSTERS = ("shared_buffers", "static"), ("default_statistics_target", "dynamic")


def _error(code: str, message: str) -> bytes:
    said = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error>"
    return f"<ErrorResponse>{said}<RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>".encode()


def _answer(action: str, content: str = "") -> bytes:
    result = f"<{action}Result>{content}</{action}Result>"
    return f"<{action}Response>{result}</{action}Response>".encode()


def _default_parameters(action: str, family: str) -> bytes:
    known: tuple[tuple[str, str], ...] = _FAMILY
    if "Cluster" in action:
        known = _OF_CLUSTERS
    elif family.startswith("aurora"):
        known = tuple(each for each in _FAMILY if each not in _OF_CLUSTERS)
    rows = "".join(
        f"<Parameter><ParameterName>{name}</ParameterName><ApplyType>{how}</ApplyType>"
        "<DataType>integer</DataType><IsModifiable>true</IsModifiable></Parameter>"
        for name, how in known
    )
    return _answer(action, f"<EngineDefaults><Parameters>{rows}</Parameters></EngineDefaults>")


def _app(account: Account) -> Any:
    from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415

    moto = DomainDispatcherApplication(create_backend_app)

    def wsgi(environ: dict[str, Any], start: Any) -> Any:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        asked = parse_qs(body.decode(errors="replace"))
        signed = re.search(r"/([^/]+)/aws4_request", environ.get("HTTP_AUTHORIZATION", ""))
        service = signed[1] if signed else ""
        # Some services say what is called in a header, and take their errors as JSON.
        target = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        action = f"{service}:{asked.get('Action', [target])[0]}"
        refused = account.refusal(action)
        if refused is not None:
            status = "400 Bad Request" if refused[0] == "Throttling" else "403 Forbidden"
            start(status, [("Content-Type", "text/xml")])
            if target:
                told = dict(zip(("__type", "message"), refused, strict=True))
                return [json.dumps(told).encode()]
            return [_error(*refused)]
        if service in _IN_JSON:
            start("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
            return [json.dumps(_IN_JSON[service](account, json.loads(body))).encode()]
        word = action.partition(":")[2]
        if re.fullmatch("DescribeEngineDefault(Cluster)?Parameters", word):
            start("200 OK", [("Content-Type", "text/xml")])
            return [_default_parameters(word, asked["DBParameterGroupFamily"][0])]
        if re.fullmatch("ResetDB(Cluster)?ParameterGroup", word):
            names = [v[0] for k, v in asked.items() if k.endswith(".ParameterName")]
            _reset(account, asked[f"{word.removeprefix('Reset')}Name"][0], names, "Cluster" in word)
            start("200 OK", [("Content-Type", "text/xml")])
            return [_answer(word)]
        import io  # noqa: PLC0415

        environ["wsgi.input"] = io.BytesIO(body)
        return moto(environ, start)

    return wsgi


def _load(account: Account, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what Performance Insights has of the active sessions of an instance."""
    (name,) = (
        name
        for name, db in _backend().databases.items()
        if db.dbi_resource_id == asked["Identifier"]
    )
    period = asked["PeriodInSeconds"]
    first = int(asked["StartTime"]) // period * period
    last = -(-int(asked["EndTime"]) // period) * period
    server = account.servers.get(name)
    every_look = account.looks.get(name, []) if server is None else server.looks
    looks = [look for look in every_look if first <= look[0] < last]

    def points(count: Callable[[Counter[tuple[str, str]]], int]) -> list[dict[str, float]]:
        told = []
        for begun in range(first, last, period):
            each = [count(found) for at_s, found in looks if begun <= at_s < begun + period]
            value = {"Value": sum(each) / len(each)} if each else {}
            told.append({"Timestamp": begun + period, **value})
        return told

    (query,) = asked["MetricQueries"]
    every = sum((found for _, found in looks), Counter[tuple[str, str]]())
    metrics = [{"Key": {"Metric": query["Metric"]}, "DataPoints": points(Counter.total)}]
    for wait, _ in every.most_common(query["GroupBy"]["Limit"]):
        parts = dict(zip(("db.wait_event.type", "db.wait_event.name"), wait, strict=True))
        key = {"Metric": query["Metric"], "Dimensions": parts}
        metrics.append({"Key": key, "DataPoints": points(lambda found, wait=wait: found[wait])})
    return {"Identifier": asked["Identifier"], "MetricList": metrics}


def _price_list(account: Account, asked: dict[str, Any]) -> dict[str, Any]:
    return {"FormatVersion": "aws_v1", "PriceList": account.products}


_IN_JSON = {"pricing": _price_list, "pi": _load}  # what moto does not have


def _backend() -> Any:
    from moto.rds.models import rds_backends  # noqa: PLC0415

    return rds_backends[ACCOUNT][REGION]


def _settings(db: Any) -> dict[str, str]:
    """Return what the groups of an instance say, its own before its cluster's."""
    groups = [_backend().db_parameter_groups.get(db.db_parameter_group_name or "")]
    if db.db_cluster_identifier:
        name = _backend().clusters[db.db_cluster_identifier].parameter_group
        groups.insert(0, _backend().db_cluster_parameter_groups.get(name))
    given = [found.parameters for found in groups if found]
    return {
        k: v["ParameterValue"] for each in given for k, v in each.items() if v.get("ParameterValue")
    }


def _reset(account: Account, group: str, names: list[str], of_cluster: bool) -> None:  # noqa: FBT001 - a level
    backend = _backend()
    groups = backend.db_cluster_parameter_groups if of_cluster else backend.db_parameter_groups
    for name in names:
        groups[group].parameters.pop(name, None)
    _apply(account)


def _apply(account: Account) -> None:
    for db in _backend().databases.values():
        server = account.servers.get(db.db_instance_identifier)
        if server is not None:
            server.apply(_settings(db), restarts=False)


def _patched(monkeypatch: pytest.MonkeyPatch, account: Account) -> None:  # noqa: C901 - one for each call
    """Give moto's instances states that take time, and servers."""
    from moto.rds import models  # noqa: PLC0415
    from moto.rds.exceptions import InvalidParameterCombination  # noqa: PLC0415

    backend = models.RDSBackend
    make, delete, describe = (
        backend.create_db_instance,
        backend.delete_db_instance,
        backend.describe_db_instances,
    )
    restart = backend.reboot_db_instance
    changes = {
        name: getattr(backend, name)
        for name in ("modify_db_parameter_group", "modify_db_cluster_parameter_group")
    }

    def created(self: Any, given: dict[str, Any]) -> Any:
        db = make(self, given)
        db.dbi_resource_id = f"db-{uuid.uuid4().hex[:26].upper()}"
        db.status = "creating"
        if account.create_s is not None:
            threading.Thread(target=boot, args=(self, db), daemon=True).start()
        return db

    def boot(self: Any, db: Any) -> None:
        if account.over.wait(account.create_s or 0.0):
            return
        owner = self.clusters[db.db_cluster_identifier] if db.db_cluster_identifier else db
        if account.begun is not None:
            server = account.begun(
                _settings(db), owner.master_username, owner._master_user_password
            )
            account.servers[db.db_instance_identifier] = server
            db.port = server.port
        db.status = "available"

    def purged(self: Any) -> None:
        for name, db in list(self.databases.items()):
            gone_at = getattr(db, "gone_at", None)
            if gone_at is not None and time.monotonic() >= gone_at:
                if server := account.servers.pop(name, None):
                    server.stop()
                delete(self, name, skip_final_snapshot=True)

    def described(
        self: Any, db_instance_identifier: str | None = None, *rest: Any, **more: Any
    ) -> Any:
        purged(self)
        return describe(self, db_instance_identifier, *rest, **more)

    def deleted(
        self: Any,
        db_instance_identifier: str,
        final_db_snapshot_identifier: str | None = None,
        skip_final_snapshot: bool = False,  # noqa: FBT001, FBT002 - moto's own
        delete_automated_backups: bool = True,  # noqa: FBT001, FBT002 - likewise
    ) -> Any:
        (db,) = described(self, db_instance_identifier)
        if db.deletion_protection:
            return delete(self, db_instance_identifier)
        kept = skip_final_snapshot or final_db_snapshot_identifier or db.db_cluster_identifier
        if not kept:
            message = "FinalDBSnapshotIdentifier is required unless SkipFinalSnapshot is specified."
            raise InvalidParameterCombination(message)
        db.status = "deleting"
        db.gone_at = time.monotonic() + account.delete_s
        return db

    def changing(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(self: Any, name: str, parameters: Any) -> Any:
            answer = change(self, name, parameters)
            _apply(account)
            return answer

        return changed

    def restarted(self: Any, db_instance_identifier: str, *rest: Any) -> Any:
        answer = restart(self, db_instance_identifier, *rest)
        if server := account.servers.get(db_instance_identifier):
            server.apply(_settings(self.databases[db_instance_identifier]), restarts=True)
        return answer

    patches: dict[str, Any] = {
        "create_db_instance": created,
        "delete_db_instance": deleted,
        "describe_db_instances": described,
        **{name: changing(change) for name, change in changes.items()},
        "reboot_db_instance": restarted,
    }
    for name, patch in patches.items():
        monkeypatch.setattr(backend, name, patch)
    # moto knows no `aurora-iopt1`; Aurora answers 1 for storage that grows by itself.
    monkeypatch.setattr(models.DBCluster, "default_allocated_storage", staticmethod(lambda **_: 1))
    monkeypatch.setattr(models.DBInstance, "address", property(lambda _: "127.0.0.1"))


@contextmanager
def an_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """Serve an empty account, and lead boto3 to it."""
    pytest.importorskip("boto3")
    pytest.importorskip("moto")
    from moto.core.base_backend import BackendDict  # noqa: F401, PLC0415
    from moto.moto_server.werkzeug_app import MotoRequestHandler  # noqa: PLC0415
    from werkzeug.serving import make_server  # noqa: PLC0415

    account = Account()
    _patched(monkeypatch, account)
    server = make_server(
        "127.0.0.1", 0, _app(account), threaded=True, request_handler=MotoRequestHandler
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    account.url = f"http://127.0.0.1:{server.server_port}"
    for name, value in {
        "AWS_ENDPOINT_URL": account.url,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    _backend().reset()
    try:
        yield account
    finally:
        account.over.set()
        for each in account.servers.values():
            each.stop()
        server.shutdown()
