"""The kinds of target as an experiment file knows them: keys, what is wrong with one, its model.

``KINDS`` registers them. A problem is told of one whole target, once everything is inherited: the
key it is about, the fact and the way out; ``inheritance`` finds the line.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from steelyard.campaign.file.form_target import (
    CLUSTER_KEYS,
    MAKING_KEYS,
    REDIS_SERVERS,
    GeneratorsForm,
    ResourcesForm,
    ServiceForm,
    SynchronousForm,
    TargetForm,
    is_directory,
    is_version,
)
from steelyard.campaign.file.form_values import is_service_name, shown
from steelyard.core.redis import DEFAULT_PORT, is_redis_uri, parse_redis_uri
from steelyard.core.spelling import listed
from steelyard.core.target import (
    TARGETS,
    CloudNativePgTarget,
    ClusterService,
    DatabaseSystem,
    EndpointTarget,
    EngineName,
    GeneratorPods,
    KubernetesPlace,
    LocalTarget,
    PodResources,
    RedisEndpointTarget,
    RedisKubernetesTarget,
    RedisLocalTarget,
    Synchronous,
    Target,
)
from steelyard.core.units import page_bytes_of, parse_quantity

Told = tuple[str, str, str]  # the key below `target`, what is wrong, the way out
Locate = Callable[[str], str]  # makes the name of a file or directory absolute


_OF_ALL: Final = frozenset({"kind", "burst_lasts"})
_SEPARATE: Final = ("host", "port", "user", "dbname", "service", "db", "tls")
_FILES: Final = ("cacert", "cert", "key")
_PROGRAMS: Final = {
    EngineName.POSTGRES: "Use `kind: redis-local`, or a version of PostgreSQL.",
    EngineName.REDIS: f"Write {listed(REDIS_SERVERS)}, or a directory with a `/`.",
}
_OF_A_SERVICE: Final = frozenset({"secret", "port", "user_key", "password_key", "allow_existing"})
_OF_A_STATEFUL_SET: Final = frozenset(
    {"image", "storage", "storage_class", "resources", "node_selector", "tolerations"}
)
_WHOLE: Final = ("uri", "host", "port", "user", "service")  # how a server outside is reached


def _nothing(_: TargetForm) -> Iterator[Told]:
    """Yield nothing."""
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of target.

    Attributes:
        name: As ``kind:`` has it.
        keys: That it may have besides those of all kinds.
        model: Makes the target of a form.
        problems: Yields what only the whole target shows, besides keys of other kinds.
        restores: Ways of ``restore``; empty where there is nothing to choose.
        noun: What a server is called that is there already.
        restarted_by: What lets Steelyard restart such a server; empty: nothing does.
    """

    name: str
    keys: frozenset[str]
    model: Callable[[TargetForm, Locate], Target]
    problems: Callable[[TargetForm], Iterator[Told]] = _nothing
    restores: tuple[str, ...] = ()
    noun: str = "endpoint"
    restarted_by: str = "Give its target a `restart_command`"

    @property
    def system(self) -> DatabaseSystem:
        """Return the database system of its servers."""
        return TARGETS[self.name].system


def kinds() -> dict[str, Kind]:
    """Return all kinds by name; what ``KINDS`` has not, its class says."""
    return {name: KINDS.get(name) or _of_class(model) for name, model in TARGETS.items()}


def kind_of(form: TargetForm) -> Kind:
    """Return the kind of a target; one that names none is a PostgreSQL server on this machine."""
    return kinds()[form.kind or LocalTarget().kind]


def _of_class(model: type[Target]) -> Kind:
    """Return the kind whose keys are the fields of its class."""
    keys = frozenset(each.name for each in fields(model)) - {"kind", "burst_lasts_s"}

    def made(form: TargetForm, locate: Locate) -> Target:
        given = form.model_dump(include=set(keys), exclude_none=True)
        if "directory" in given:
            given["directory"] = locate(given["directory"])
        return TypeAdapter(model).validate_python({**given, "burst_lasts_s": form.burst_lasts})

    def problems(form: TargetForm) -> Iterator[Told]:
        try:
            made(form, str)
        except ValidationError as error:
            for each in error.errors():
                yield str(each["loc"][0]), f"{shown(each['input'])} is not understood", each["msg"]

    def model_of_sound(form: TargetForm, locate: Locate) -> Target:
        return model() if any(problems(form)) else made(form, locate)

    return Kind(
        name=model().kind,
        keys=keys,
        model=model_of_sound,
        problems=problems,
        restores=("reflink", "copy") if model.is_here else (),
    )


def model_of(form: TargetForm, locate: Locate = str) -> Target:
    """Return the target of a form."""
    return kind_of(form).model(form, locate)


def target_problems(form: TargetForm) -> Iterator[Told]:
    """Yield what is wrong with one target once everything is inherited."""
    kind = kind_of(form)
    given = form.model_dump(exclude_none=True)
    for key in sorted(given.keys() - kind.keys - _OF_ALL):
        homes = [each for each in kinds().values() if key in each.keys]
        near = [each for each in homes if each.system is kind.system] or homes
        names = listed([each.name for each in near])
        yield key, f"`{key}` belongs to the target {names}, and this is `{kind.name}`", "Remove it."
    yield from _of_other_systems(form, kind)
    yield from kind.problems(form)
    if form.uri is not None:
        for key in _SEPARATE:
            if key in given:
                hint = "Write it into the URI, or use separate keys only."
                yield key, f"`uri` and `{key}` exclude each other", hint
    if kind.restores and form.restore not in (None, *kind.restores):
        hint = f"Use {listed(kind.restores)}."
        yield "restore", f"the target `{kind.name}` cannot restore by {form.restore}", hint
    if form.allow_existing and form.restore == "template":
        hint = "Remove `restore`: nothing is copied in a database that is not Steelyard's."
        yield "restore", "an existing database cannot be restored by template", hint


def _of_other_systems(form: TargetForm, kind: Kind) -> Iterator[Told]:
    """Yield programs and URIs of another database system."""
    if form.bin is not None and _system_of_programs(form.bin) not in (None, kind.system.name):
        hint = _PROGRAMS.get(kind.system.name, "Name the directory of its programs.")
        yield "bin", f"`{form.bin}` names no programs of the target `{kind.name}`", hint
    if form.uri is None:
        return
    system = EngineName.REDIS if is_redis_uri(form.uri) else EngineName.POSTGRES
    if system is not kind.system.name:
        by_uri = (each for each in KINDS.values() if "uri" in each.keys)
        other = next(each.name for each in by_uri if each.system.name is system)
        message = f"the URI is one of the target `{other}`, and this is `{kind.name}`"
        yield "uri", message, f"Use `kind: {other}`, or correct the URI."


def _system_of_programs(programs: str) -> EngineName | None:
    """Return whose programs these are; None: a directory does not say."""
    if programs in REDIS_SERVERS:
        return EngineName.REDIS
    is_postgres = programs == "embedded" or is_version(programs)
    return EngineName.POSTGRES if is_postgres else None


def located(base: Path) -> Locate:
    """Return what makes a name absolute: from a directory, ``~`` being the account's home."""

    def locate(given: str) -> str:
        home = str(Path.home())
        expanded = home + given[1:] if given == "~" or given.startswith("~/") else given
        return str((base / expanded).absolute())

    return locate


def _programs(form: TargetForm, plain: str, locate: Locate) -> str:
    """Return a version or a name as it is, a directory as an absolute path."""
    programs = form.bin or plain
    return locate(programs) if is_directory(programs) else programs


def _local(form: TargetForm, locate: Locate) -> LocalTarget:
    plain = LocalTarget()
    return LocalTarget(
        bin=_programs(form, plain.bin, locate),
        directory=locate(form.directory) if form.directory else None,
        port=form.port,
        connection=form.connection or plain.connection,
        run_as=form.run_as,
        initdb=tuple(form.initdb or ()),
        restore=form.restore,
        burst_lasts_s=form.burst_lasts,
    )


def _endpoint(form: TargetForm, _: Locate) -> EndpointTarget:
    return EndpointTarget(
        uri=form.uri,
        host=form.host,
        port=form.port,
        user=form.user,
        dbname=form.dbname,
        service=form.service,
        allow_existing=bool(form.allow_existing),
        restart_command=form.restart_command or (),
        restore=form.restore,
        burst_lasts_s=form.burst_lasts,
        inside=None if form.kubernetes is None else _cluster_service(form.kubernetes),
    )


# A guess: pgbench keeps one CPU busy with a few clients, and its logs of a slice fit into memory.
_AMOUNTS: Final = (("cpu", "1"), ("memory", "512Mi"))
_GENERATOR: Final = PodResources(requests=_AMOUNTS, limits=_AMOUNTS)


def _cluster(form: TargetForm, _: Locate) -> CloudNativePgTarget:
    plain = CloudNativePgTarget()
    return CloudNativePgTarget(
        place=_generator_place(form.context, form.namespace, form.generators),
        cluster=form.cluster,
        allow_existing=bool(form.allow_existing),
        image=form.image,
        instances=form.instances or plain.instances,
        storage=form.storage or plain.storage,
        storage_class=form.storage_class,
        wal_storage=form.wal_storage,
        wal_storage_class=form.wal_storage_class,
        resources=_pod_resources(form.resources),
        synchronous=None if form.synchronous is None else _synchronous(form.synchronous),
        node_selector=_sorted_pairs(form.node_selector),
        tolerations=form.tolerations or plain.tolerations,
        affinity=form.affinity or plain.affinity,
        burst_lasts_s=form.burst_lasts,
    )


def _cluster_service(form: ServiceForm) -> ClusterService:
    service, secret = form.service or "", form.secret or ""
    plain = ClusterService(service=service, secret=secret)
    return ClusterService(
        place=_generator_place(form.context, form.namespace, form.generators),
        service=service,
        port=form.port or plain.port,
        secret=secret,
        user_key=form.user_key or plain.user_key,
        password_key=form.password_key or plain.password_key,
    )


def _generator_place(
    context: str | None, namespace: str | None, generators: GeneratorsForm | None
) -> KubernetesPlace:
    return KubernetesPlace(
        context=context,
        namespace=namespace,
        generators=_generators(generators or GeneratorsForm()),
    )


def _generators(form: GeneratorsForm) -> GeneratorPods:
    given = _pod_resources(form.resources)
    return GeneratorPods(
        image=form.image,
        resources=given if given != PodResources() else _GENERATOR,
        node_selector=_sorted_pairs(form.node_selector),
        tolerations=form.tolerations or GeneratorPods().tolerations,
        same_node=bool(form.same_node),
    )


def _synchronous(form: SynchronousForm) -> Synchronous:
    plain = Synchronous()
    return Synchronous(
        method=form.method or plain.method,
        number=form.number or plain.number,
        data_durability=form.data_durability or plain.data_durability,
    )


def _pod_resources(form: ResourcesForm | None) -> PodResources:
    """Return what was given; what was given on one side only is the same on the other."""
    if form is None:
        return PodResources()
    requests, limits = form.requests or form.limits, form.limits or form.requests
    return PodResources(requests=_sorted_pairs(requests), limits=_sorted_pairs(limits))


def _sorted_pairs(mapping: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    """Return a mapping as the model keeps it; empty where there is none."""
    return tuple(sorted((mapping or {}).items()))


def _redis_local(form: TargetForm, locate: Locate) -> RedisLocalTarget:
    plain = RedisLocalTarget()
    return RedisLocalTarget(
        bin=_programs(form, plain.bin, locate),
        directory=locate(form.directory) if form.directory else None,
        port=form.port,
        connection=form.connection or plain.connection,
        run_as=form.run_as,
        restore=form.restore,
        replica=None if form.replica is None else _folded(form.replica),
        burst_lasts_s=form.burst_lasts,
    )


def _folded(settings: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name.lower(), value) for name, value in settings.items()))


def _redis_endpoint(form: TargetForm, locate: Locate) -> RedisEndpointTarget:
    return RedisEndpointTarget(
        uri=form.uri,
        host=form.host,
        port=form.port,
        user=form.user,
        db=form.db,
        tls=bool(form.tls),
        cacert=None if form.cacert is None else locate(form.cacert),
        cert=None if form.cert is None else locate(form.cert),
        key=None if form.key is None else locate(form.key),
        allow_existing=bool(form.allow_existing),
        restart_command=form.restart_command or (),
        burst_lasts_s=form.burst_lasts,
    )


def _redis_pod(form: TargetForm, _: Locate) -> RedisKubernetesTarget:
    plain = RedisKubernetesTarget()
    place = _generator_place(form.context, form.namespace, form.generators)
    service = None
    if form.service is not None:
        names = ClusterService(service=form.service, secret=form.secret or "")
        service = ClusterService(
            place=place,
            service=form.service,
            port=form.port or DEFAULT_PORT,
            secret=form.secret or "",
            user_key=form.user_key or names.user_key,
            password_key=form.password_key or names.password_key,
        )
    return RedisKubernetesTarget(
        place=place,
        service=service,
        allow_existing=bool(form.allow_existing),
        image=form.image or plain.image,
        storage=form.storage or plain.storage,
        storage_class=form.storage_class,
        resources=_pod_resources(form.resources),
        node_selector=_sorted_pairs(form.node_selector),
        tolerations=form.tolerations or plain.tolerations,
        burst_lasts_s=form.burst_lasts,
    )


def _tls(target: TargetForm) -> Iterator[Told]:
    encrypted = bool(target.tls)
    if target.uri is not None:
        if not is_redis_uri(target.uri):
            return  # which is told
        encrypted = parse_redis_uri(target.uri).tls
    for key in _FILES:
        if getattr(target, key) is not None and not encrypted:
            hint = "Add `tls: true`, or write the URI with rediss://."
            yield key, f"`{key}` is for a connection with TLS, and this one has none", hint
    if (target.cert is None) != (target.key is None):
        there, lacking = ("cert", "key") if target.cert is not None else ("key", "cert")
        message = f"`{there}` is of no use without `{lacking}`"
        yield there, message, f"Add `{lacking}`."
    if target.tls and target.host is not None and target.host.startswith("/"):
        yield "tls", "a Unix socket is not encrypted", "Remove `tls`, or name a host."


def _cluster_problems(target: TargetForm) -> Iterator[Told]:
    yield from _existing(target) if target.cluster is not None else _made(target)
    yield from _generator_problems("generators", target.generators)


def _existing(target: TargetForm) -> Iterator[Told]:
    given = target.model_dump(exclude_none=True)
    for key in sorted(MAKING_KEYS & set(given)):
        yield (
            key,
            f"`cluster` names a Cluster that is there, and `{key}` is for one that is made",
            f"Remove `{key}`, or `cluster`.",
        )


def _made(target: TargetForm) -> Iterator[Told]:
    if target.allow_existing:
        hint = "Remove it, or name an existing Cluster with `cluster`."
        yield "allow_existing", "Steelyard makes this Cluster, and may change it", hint
    if target.wal_storage_class is not None and target.wal_storage is None:
        hint = "Give its size with `wal_storage`."
        yield "wal_storage_class", "`wal_storage_class` is for a volume that is not there", hint
    yield from _synchronous_problems(target.synchronous, target.instances or 1)
    yield from _resource_problems("resources", target.resources)


def _redis_pod_problems(target: TargetForm) -> Iterator[Told]:
    yield from _generator_problems("generators", target.generators)
    given = target.model_dump(exclude_none=True)
    if target.service is None:
        for key in sorted(given.keys() & _OF_A_SERVICE):
            hint = "Remove it, or name an existing Service with `service`."
            yield key, f"Steelyard makes this server, and `{key}` is for one that is there", hint
        yield from _resource_problems("resources", target.resources)
        return
    if not is_service_name(target.service):
        hint = "Use up to 63 small letters, digits and hyphens, a letter first."
        yield "service", f"{shown(target.service)} is no name of a Service", hint
    for key in sorted(given.keys() & _OF_A_STATEFUL_SET):
        yield (
            key,
            f"`service` names a server that is there, and `{key}` is for one that is made",
            f"Remove `{key}`, or `service`.",
        )


def _synchronous_problems(asked: SynchronousForm | None, instances: int) -> Iterator[Told]:
    if asked is None:
        return
    number = asked.number or Synchronous().number
    if number >= instances:
        standbys = "1 standby" if number == 1 else f"{number} standbys"
        has = "1 instance" if instances == 1 else f"{instances} instances"
        yield (
            "synchronous",
            f"a commit is to wait for {standbys}, and the Cluster has {has}",
            f"Write `instances: {number + 1}` or more.",
        )


def _resource_problems(key: str, asked: ResourcesForm | None) -> Iterator[Told]:
    if asked is None:
        return
    requests, limits = asked.requests or {}, asked.limits or {}
    for name in sorted(requests.keys() & limits.keys()):
        wanted, most = parse_quantity(requests[name]), parse_quantity(limits[name])
        if wanted > most:
            message = f"it asks for {requests[name]} of {name} and is limited to {limits[name]}"
            yield key, message, "Raise the limit."
    if requests and limits:
        for name in sorted(requests.keys() | limits.keys()):
            if name.startswith("hugepages-") and requests.get(name) != limits.get(name):
                message = f"{name} differs between requests and limits: huge pages are set aside"
                yield key, message, "Write the same amount in both."
    given = requests or limits
    if any(page_bytes_of(name) for name in given) and not {"cpu", "memory"} & given.keys():
        message = "huge pages are asked for without `cpu` or `memory`, which Kubernetes refuses"
        yield key, message, "Add `memory`."


def _generator_problems(key: str, asked: GeneratorsForm | None) -> Iterator[Told]:
    if asked is not None:
        yield from _resource_problems(key, asked.resources)


def _service_problems(target: TargetForm) -> Iterator[Told]:
    asked, given = target.kubernetes, target.model_dump(exclude_none=True)
    if asked is None:
        return
    for key in _WHOLE:
        if key in given:
            hint = "Remove it: the Service and its Secret say where the server is and who connects."
            yield key, f"`kubernetes` and `{key}` exclude each other", hint
    for key in ("service", "secret"):
        if getattr(asked, key) is None:
            example = "{service: db, secret: db-user}"
            yield "kubernetes", f"`{key}` is missing", f"Add it, as in `kubernetes: {example}`."
    yield from _generator_problems("kubernetes", asked.generators)


_HERE: Final = frozenset({"bin", "directory", "port", "connection", "run_as", "restore"})
_BY_ADDRESS: Final = frozenset({"uri", "host", "port", "user", "allow_existing", "restart_command"})
KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(
            name=LocalTarget().kind,
            keys=_HERE | {"initdb"},
            model=_local,
            restores=("reflink", "copy", "template"),
        ),
        Kind(
            name=EndpointTarget().kind,
            keys=_BY_ADDRESS | {"dbname", "service", "restore", "kubernetes"},
            model=_endpoint,
            problems=_service_problems,
            restores=("template", "vacuum"),
        ),
        Kind(
            name=CloudNativePgTarget().kind,
            keys=CLUSTER_KEYS | {"allow_existing"},
            model=_cluster,
            problems=_cluster_problems,
            noun="Cluster",
            restarted_by="Allow its change with `allow_existing: true`",
        ),
        Kind(
            name=RedisLocalTarget().kind,
            keys=_HERE | {"replica"},
            model=_redis_local,
            restores=("reflink", "copy"),
        ),
        Kind(
            name=RedisEndpointTarget().kind,
            keys=_BY_ADDRESS | {"db", "tls", *_FILES},
            model=_redis_endpoint,
            problems=_tls,
        ),
        Kind(
            name=RedisKubernetesTarget().kind,
            keys=_OF_A_SERVICE
            | _OF_A_STATEFUL_SET
            | {"context", "namespace", "generators", "service"},
            model=_redis_pod,
            problems=_redis_pod_problems,
            noun="server",
            restarted_by="",
        ),
    )
}
