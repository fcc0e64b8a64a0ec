"""What dead campaigns left on servers that are not their own: outside of clusters and inside."""

from typing import Final

from steelyard.experiment.doors import Doors
from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.gateways.redis import own_password
from steelyard.model.errors import LeftBehindError, RecordError, SteelyardError
from steelyard.model.kubernetes import CLUSTER, NAMESPACE, SECRET, SERVICE, ObjectRef
from steelyard.model.outside import OnServer, ServerInCluster
from steelyard.platforms.endpoint.restarting import Means
from steelyard.platforms.endpoint.service_place import reached
from steelyard.platforms.endpoint.undoing import undo
from steelyard.platforms.kubernetes.reaching import redis_knock, sql_knock
from steelyard.platforms.redis_endpoint.connection import RedisMeans
from steelyard.platforms.redis_endpoint.undoing import undo_on_redis

_OF_CLUSTERS: Final = ("-rw", "-ro", "-r")  # how CloudNativePG names the Services of a Cluster


def undo_on_server(thing: OnServer, doors: Doors) -> None:
    """Undo one thing on a server; one whose server is gone went with it.

    Raises:
        LeftBehindError: It is still there, or the server cannot be reached.
    """
    means = Means(sql=doors.sql, processes=doors.processes, clock=doors.clock)
    try:
        if thing.inside is None and thing.resource.is_of_redis:
            undo_on_redis(thing, _redis_means(doors), password=own_password())
        elif thing.inside is None:
            undo(thing, means)
        else:
            _undo_inside(thing, thing.inside, means, doors)
    except RecordError:
        raise
    except SteelyardError as error:
        raise LeftBehindError(
            f"{thing.label} is left behind: {error.message}", hint=_hint(thing, error)
        ) from error


def _redis_means(doors: Doors) -> RedisMeans:
    return RedisMeans(redis=doors.redis, processes=doors.processes, clock=doors.clock)


def _undo_inside(thing: OnServer, inside: ServerInCluster, means: Means, doors: Doors) -> None:
    api = doors.kubernetes.connect(inside.context or None)
    is_sure = inside.server == api.server and (bool(inside.context) or api.is_inside)
    if is_sure and _is_gone(inside, api):
        return
    if thing.resource.is_of_redis:
        knock = redis_knock(doors.redis)
        with reached(inside, api, knock, doors.clock, database="") as address:
            undo_on_redis(thing, _redis_means(doors), reached=address)
        return
    with reached(inside, api, sql_knock(doors.sql), doors.clock) as address:
        undo(thing, means, reached=address)


def _is_gone(inside: ServerInCluster, api: KubernetesApi) -> bool:
    """Return whether the server itself is gone, and not only the way to it.

    A Cluster's Service goes with the Cluster. Another Service may be gone while its server is
    there; that one counts as gone together with the Secret of its user.
    """
    if api.read(ObjectRef(kind=NAMESPACE, name=inside.namespace)) is None:
        return True
    if _is_there(api, ObjectRef(kind=SERVICE, name=inside.service, namespace=inside.namespace)):
        return False
    ending = next((each for each in _OF_CLUSTERS if inside.service.endswith(each)), "")
    name = inside.service.removesuffix(ending)
    if _is_there(api, ObjectRef(kind=CLUSTER, name=name, namespace=inside.namespace)):
        return False
    secret = inside.secret
    return not _is_there(api, ObjectRef(kind=SECRET, name=secret.name, namespace=secret.namespace))


def _is_there(api: KubernetesApi, ref: ObjectRef) -> bool:
    return api.knows(ref.kind) and api.read(ref) is not None


def _hint(thing: OnServer, error: SteelyardError) -> str:
    if isinstance(error, LeftBehindError) and error.hint:
        return error.hint
    if thing.inside is None:
        where = "REDISCLI_AUTH" if thing.resource.is_of_redis else "PGPASSWORD or ~/.pgpass"
        return (
            f"Run `steelyard clean` again with the password in {where}, when the server can be"
            " reached."
        )
    way = (
        f"Run `steelyard clean` again when the Service {thing.inside.service} in"
        f" {thing.inside.namespace} leads to the server, with its Secret"
        f" {thing.inside.secret.name}; where both are gone, the server counts as gone."
    )
    return f"{error.hint} {way}".strip()
