"""``--target``: one target for the whole experiment, in place of those in the file."""

from collections.abc import Mapping
from typing import Final

from steelyard.engines.redis.benchmark import BUILTINS as TESTS
from steelyard.experiment.document import Value, parse_document
from steelyard.experiment.form import POSTGRES_WORK_KEYS
from steelyard.experiment.form_redis import REDIS_WORK_KEYS
from steelyard.experiment.form_target import (
    LATER_TARGETS,
    REDIS_SERVERS,
    REDIS_TARGETS,
    TARGETS,
    is_directory,
    is_version,
)
from steelyard.experiment.form_values import BUILTINS
from steelyard.experiment.kubernetes_checks import CLUSTER
from steelyard.experiment.suggestions import listed, shown
from steelyard.model.attribution import AttributionKind
from steelyard.model.errors import InputError
from steelyard.model.redis_uri import is_redis_uri

_EXCLUDING: Final = "Change them one by one: `--set treatments.NAME.target={kind: ..., ...}`."
_KINDS: Final = tuple(kind.value for kind in AttributionKind)
_IN_KUBERNETES: Final = "kubernetes://"
_EMBEDDED: Final = "embedded"
_SHARED: Final = "default"  # what the combination of all first levels is called by itself
_ROOM: Final = "max_connections"  # what a preset asks for so that its clients fit


def retargeted(treatments: Mapping[str, Value], target: Mapping[str, Value]) -> dict[str, Value]:
    """Return treatments that all run on one target.

    On a server that is there already and that nobody restarts, ``max_connections`` is left as it
    is where all treatments ask for the same: it makes room there and is not what is compared.

    Raises:
        InputError: The treatments differ by their targets.
    """
    own = [form.get("target") for form in treatments.values() if isinstance(form, dict)]
    stated = [target for target in own if target is not None]
    if any(each != stated[0] for each in stated):
        raise InputError("the treatments have targets of their own", hint=_EXCLUDING)
    replaced = {name: _on(dict(target), form) for name, form in treatments.items()}
    if _keeps_its_settings(target):
        _leave_room_to_server(replaced)
    return replaced


def _keeps_its_settings(target: Mapping[str, Value]) -> bool:
    """Return whether a server is there already and nobody restarts it for an experiment."""
    if target.get("kind") == CLUSTER:
        return "cluster" in target and not target.get("allow_existing")
    return target.get("kind") != "local" and "restart_command" not in target


def treatments_of(root: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return the treatments of a file; where factors make them, the one that they all share.

    A file of factors need not write it. None where there is nothing that could have a target.
    """
    treatments = root.get("treatments")
    if isinstance(treatments, dict) and treatments:
        return treatments
    factors = [name for kind in _KINDS for name in _mapping(root.get(kind))]
    if not factors:
        return treatments if isinstance(treatments, dict) else None
    return {_SHARED if _SHARED not in factors else f"{_SHARED}-target": {}}


def require_no_targets_below(root: Mapping[str, Value]) -> None:
    """Raise when a level of a factor has a target of its own.

    Raises:
        InputError: One target for all would compare a server with itself, or mix two targets.
    """
    for kind in _KINDS:
        for factor, levels in _mapping(root.get(kind)).items():
            own = [name for name, level in _mapping(levels).items() if _has(level, "target")]
            if own:
                raise InputError(
                    f"the factor `{factor}` has targets of its own (level {shown(own[0])})",
                    hint="Leave that factor out of the file, or change its levels one by one:"
                    f" `--set {kind}.{factor}.LEVEL.target={{kind: ..., ...}}`.",
                )


def fitting_target(root: Mapping[str, Value], text: str) -> dict[str, Value]:
    """Return the target of a text for the work of a file; a directory has that work's programs.

    Raises:
        InputError: The text is no target, or one of another database system.
    """
    target = target_of(text)
    items = root.get("workloads")
    works = [work for work in (items if isinstance(items, list) else []) if isinstance(work, dict)]
    for_redis = any(_is_of(work, redis=True) for work in works)
    for_postgres = any(_is_of(work, redis=False) for work in works)
    if for_redis == for_postgres:
        return target  # nothing says which, or the file is told of what does not fit
    if target.get("kind") == "local" and "bin" in target:
        programs = str(target["bin"])
        if is_directory(programs):
            return {"kind": "redis-local", "bin": programs} if for_redis else target
        if programs != _EMBEDDED and not is_version(programs):
            return target  # no programs at all, which its form tells
    if (target.get("kind") in REDIS_TARGETS) == for_redis:
        return target
    system, here = ("Redis", "PostgreSQL") if for_redis else ("PostgreSQL", "Redis")
    hint = "`steelyard presets` lists experiments; those for Redis begin with `redis-`."
    message = f"the experiment puts load on {system}, and the target is a server of {here}"
    raise InputError(message, hint=hint)


def _is_of(work: Mapping[str, Value], *, redis: bool) -> bool:
    """Return whether a workload is for Redis, or for PostgreSQL, and for nothing else."""
    keys, builtins = (REDIS_WORK_KEYS, TESTS) if redis else (POSTGRES_WORK_KEYS, BUILTINS)
    return any(key in work for key in keys) or work.get("builtin") in builtins


def _mapping(value: Value) -> Mapping[str, Value]:
    return value if isinstance(value, dict) else {}


def target_of(text: str) -> dict[str, Value]:
    """Return the section ``target`` that a word, a URI or a YAML mapping stands for.

    Raises:
        InputError: It is none of them.
    """
    text = text.strip()
    if text.startswith("{"):
        value = parse_document(text).value
        if isinstance(value, dict):
            return value
        raise InputError("the target is not a YAML mapping", hint="Quote it for the shell.")
    if not text:
        raise InputError(
            "the target is empty", hint=f"Name a URI, a version, or {listed(TARGETS)}."
        )
    return _at(text) if "://" in text else _by_word(text)


def _at(uri: str) -> dict[str, Value]:
    if uri.startswith(_IN_KUBERNETES):
        return _existing_cluster(uri.removeprefix(_IN_KUBERNETES))
    return {"kind": "redis-endpoint" if is_redis_uri(uri) else "endpoint", "uri": uri}


def _by_word(text: str) -> dict[str, Value]:
    if text in (*TARGETS, *LATER_TARGETS):
        return {"kind": text}
    return {"kind": "redis-local" if text in REDIS_SERVERS else "local", "bin": text}


def _existing_cluster(path: str) -> dict[str, Value]:
    """Return the target that ``kubernetes://NAMESPACE/CLUSTER`` stands for."""
    *namespace, cluster = path.split("/")
    if len(namespace) > 1 or not all((*namespace, cluster)):
        raise InputError(
            f"{shown(_IN_KUBERNETES + path)} names no Cluster",
            hint="Write kubernetes://CLUSTER or kubernetes://NAMESPACE/CLUSTER for one that is"
            f" there, {CLUSTER} for one that Steelyard makes.",
        )
    there: dict[str, Value] = {"kind": CLUSTER, "cluster": cluster}
    return {**there, "namespace": namespace[0]} if namespace else there


def _has(form: Value, key: str) -> bool:
    return isinstance(form, dict) and form.get(key) is not None


def _on(target: Value, form: Value) -> Value:
    """Return a treatment on the target, which one that extends another inherits."""
    if form is not None and not isinstance(form, dict):
        return form  # refused by its form
    rest = {key: value for key, value in (form or {}).items() if key != "target"}
    return rest if _has(rest, "extends") else {**rest, "target": target}


def _leave_room_to_server(treatments: Mapping[str, Value]) -> None:
    """Withdraw ``max_connections`` where it is the same for all treatments."""
    asked = {name: _room(form) for name, form in treatments.items()}
    roots = [asked[name] for name, form in treatments.items() if not _has(form, "extends")]
    heirs = [asked[name] for name, form in treatments.items() if _has(form, "extends")]
    if any(heirs) or len(set(roots)) != 1:
        return
    for form in treatments.values():
        if isinstance(form, dict) and isinstance(settings := form.get("postgres"), dict):
            form["postgres"] = {n: v for n, v in settings.items() if n.lower() != _ROOM}


def _room(form: Value) -> str | None:
    settings = form.get("postgres") if isinstance(form, dict) else None
    given = settings if isinstance(settings, dict) else {}
    return next((str(value) for name, value in given.items() if name.lower() == _ROOM), None)
