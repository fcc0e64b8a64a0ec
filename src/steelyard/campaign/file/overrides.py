"""What the command line puts into an experiment file: values, and a target.

``--override path=value`` replaces one value, ``--target`` the targets of the whole experiment.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from steelyard.campaign.file import kinds
from steelyard.campaign.file.document import Document, KeyPath, Place, Value, parse_document
from steelyard.campaign.file.form import WHAT_IS_COMPARED, engine_of, setting_keys
from steelyard.core.experiment import AttributionKind
from steelyard.core.quantities import shown
from steelyard.core.target import (
    POSTGRES,
    TARGETS,
    CloudNativePgTarget,
    DatabaseSystem,
    EndpointTarget,
    is_directory,
    kind_here,
    kind_words,
    system_of,
    systems,
)
from steelyard.core.wording import InputError, Problem, choice, listed

_EXCLUDING: Final = (
    "Change them one by one: `--override configurations.NAME.target={kind: ..., ...}`."
)
_KINDS: Final = tuple(kind.value for kind in AttributionKind)
_IN_KUBERNETES: Final = "kubernetes://"
_SHARED: Final = "default"  # what the combination of all first levels is called by itself
_ROOM: Final = "max_connections"  # what a preset asks for so that its clients fit


def retargeted(
    configurations: Mapping[str, Value], target: Mapping[str, Value], engine: str
) -> dict[str, Value]:
    """Return configurations that all run on one target.

    On a server that is there already and that nobody restarts, ``max_connections`` is left as it
    is where all configurations ask for the same: it makes room there and is not what is compared.

    Raises:
        InputError: The configurations differ by their targets.
    """
    own = [form.get("target") for form in configurations.values() if isinstance(form, dict)]
    stated = [target for target in own if target is not None]
    if any(each != stated[0] for each in stated):
        raise InputError("the configurations have targets of their own", hint=_EXCLUDING)
    replaced = {name: _on(dict(target), form) for name, form in configurations.items()}
    if _keeps_its_settings(target, engine):
        _leave_room_to_server(replaced)
    return replaced


def _keeps_its_settings(target: Mapping[str, Value], engine: str) -> bool:
    """Return whether a server is there already and nobody restarts it for an experiment."""
    try:
        model = kinds.TARGET.read(target, engine).model
    except ValidationError:
        return False  # which is told
    return not model.is_made and not model.is_restarted


def configurations_of(root: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return the configurations of a file; where factors make them, the one that they all share.

    A file of factors need not write it. None where there is nothing that could have a target.
    """
    configurations = root.get("configurations")
    if isinstance(configurations, dict) and configurations:
        return configurations
    factors = [name for kind in _KINDS for name in _mapping(root.get(kind))]
    if not factors:
        return configurations if isinstance(configurations, dict) else None
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
                    f" `--override {kind}.{factor}.LEVEL.target={{kind: ..., ...}}`.",
                )


def fitting_target(root: Value, text: str) -> dict[str, Value]:
    """Return the target of a text for a file, whose engine it must be of.

    Raises:
        InputError: The text is no target, or one of another database system.
    """
    system = system_of(engine_of(Document(value=root, places={})))
    target, other = target_of(text, system)
    if other in (None, system):
        return target
    raise InputError(
        f"the experiment puts load on {system.words.server}, and the target is a server of"
        f" {other.words.server}",
        hint="`steelyard presets` lists experiments; those for Redis begin with `redis-`.",
    )


def _mapping(value: Value) -> Mapping[str, Value]:
    return value if isinstance(value, dict) else {}


def target_of(
    text: str, system: DatabaseSystem | None = None
) -> tuple[dict[str, Value], DatabaseSystem | None]:
    """Return the section ``target`` that a word, a URI or a YAML mapping stands for.

    And whose server that is, where the text says it: a directory and a kind are of any system. They
    are read as of the one that is given.

    Raises:
        InputError: It is none of them.
    """
    text = text.strip()
    if text.startswith("{"):
        value = parse_document(text).value
        if isinstance(value, dict):
            return value, None
        raise InputError("the target is not a YAML mapping", hint="Quote it for the shell.")
    if not text:
        known = TARGETS[system.name] if system else kind_words()
        raise InputError("the target is empty", hint=f"Name a URI, a version, or {listed(known)}.")
    if "://" in text:
        return _at(text)
    return _at(_uri_of(text)) if "=" in text else _by_word(text, system or POSTGRES)


def target_at(dsn: str) -> tuple[dict[str, Value], DatabaseSystem | None]:
    """Return the section ``target`` of a DSN, or of a word that ``target_of`` knows; and whose.

    Raises:
        InputError: It is neither; the message repeats nothing of what may have a password.
    """
    target, system = target_of(dsn)
    programs = target.get("server")
    if programs is None or system is not None or is_directory(str(programs)):
        return target, system
    raise InputError(
        "--dsn: this is neither a URI nor a list of libpq's keywords",
        hint="Write postgresql://USER@HOST:PORT/DATABASE or 'host=HOST port=PORT dbname=DATABASE'.",
    )


def _uri_of(keywords: str) -> str:
    """Return libpq's keywords and values, ``host=db dbname=shop``, as a URI.

    Raises:
        InputError: They are none.
    """
    try:
        pairs = [word.partition("=")[::2] for word in shlex.split(keywords)]
    except ValueError:
        pairs = [("", "")]
    if not all(name.isidentifier() and value for name, value in pairs):
        raise InputError(
            f"{shown(keywords)} is no list of libpq's keywords",
            hint="Write it as 'host=db.example.com dbname=shop', or as a URI.",
        )
    return f"postgresql://?{urlencode(pairs, quote_via=quote)}"


def _at(uri: str) -> tuple[dict[str, Value], DatabaseSystem | None]:
    if uri.startswith(_IN_KUBERNETES):
        return _existing_cluster(uri.removeprefix(_IN_KUBERNETES)), POSTGRES
    there: dict[str, Value] = {"kind": EndpointTarget().kind, "uri": uri}
    return there, next((each for each in systems() if each.is_of(uri)), None)


def _by_word(text: str, system: DatabaseSystem) -> tuple[dict[str, Value], DatabaseSystem | None]:
    """Return the target that a kind, or what stands for programs, means to a system.

    Raises:
        InputError: It is an old word for a kind.
    """
    if text in kind_words():
        return {"kind": text}, None
    if way := kinds.renamed_kind(text):
        raise InputError(f"{shown(text)} is no kind of target any more", hint=way)
    named = next((each for each in systems() if each.names_programs(text)), None)
    return {"kind": kind_here((named or system).name), "server": text}, named


def _existing_cluster(path: str) -> dict[str, Value]:
    """Return the target that ``kubernetes://NAMESPACE/CLUSTER`` stands for."""
    *namespace, cluster = path.split("/")
    if len(namespace) > 1 or not all((*namespace, cluster)):
        raise InputError(
            f"{shown(_IN_KUBERNETES + path)} names no Cluster",
            hint="Write kubernetes://CLUSTER or kubernetes://NAMESPACE/CLUSTER for one that is"
            " there, kubernetes for one that Steelyard makes.",
        )
    there: dict[str, Value] = {"kind": CloudNativePgTarget().kind, "cluster": cluster}
    return {**there, "namespace": namespace[0]} if namespace else there


def _has(form: Value, key: str) -> bool:
    return isinstance(form, dict) and form.get(key) is not None


def _on(target: Value, form: Value) -> Value:
    """Return a configuration on the target, which one that extends another inherits."""
    if form is not None and not isinstance(form, dict):
        return form  # refused by its form
    rest = {key: value for key, value in (form or {}).items() if key != "target"}
    return rest if _has(rest, "extends") else {**rest, "target": target}


def _leave_room_to_server(configurations: Mapping[str, Value]) -> None:
    """Withdraw ``max_connections`` where it is the same for all configurations."""
    asked = {name: _room(form) for name, form in configurations.items()}
    roots = [asked[name] for name, form in configurations.items() if not _has(form, "extends")]
    heirs = [asked[name] for name, form in configurations.items() if _has(form, "extends")]
    if any(heirs) or len(set(roots)) != 1:
        return
    for form in configurations.values():
        if isinstance(form, dict) and isinstance(settings := form.get("postgres"), dict):
            form["postgres"] = {n: v for n, v in settings.items() if n.lower() != _ROOM}


def _room(form: Value) -> str | None:
    settings = form.get("postgres") if isinstance(form, dict) else None
    given = settings if isinstance(settings, dict) else {}
    return next((str(value) for name, value in given.items() if name.lower() == _ROOM), None)


# `--target` stands for this path, which no file has: the target of every configuration.
TARGET: Final = "target"

# Likewise ``--server-memory`` and ``--server-cpus``: what every server has that nobody sees.
_OF_SERVERS: Final = ("memory", "cpus")

# Asking for the one on the command line withdraws the other of the file.
_EXCLUDES: Final[Mapping[KeyPath, KeyPath]] = {
    ("stop", "width"): ("stop", "detect"),
    ("stop", "detect"): ("stop", "width"),
}

# Where the settings stand in a path; a factor's short form has no level.
_SETTINGS_AT: Final[Mapping[str, tuple[int, ...]]] = {
    "configurations": (2,),
    **dict.fromkeys(WHAT_IS_COMPARED[1:], (2, 3)),
}


class _Refused(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def apply_overrides(document: Document, overrides: Sequence[str]) -> Document:
    """Return a document with values replaced; wrong overrides become its problems.

    Unknown keys are put in all the same: validation refuses them like those of the file, and
    says what was meant. ``target=...`` comes first, wherever it stands: the others may change it.
    """
    if not isinstance(document.value, dict):
        return document
    value = _copied(document.value)
    places = dict(document.places)
    problems = list(document.problems)
    given: set[KeyPath] = set()
    for override in sorted(overrides, key=lambda each: not _is_target(each)):
        try:
            path = _put(value, places, override)
        except _Refused as refused:
            problems.append(refused.problem)
            continue
        given.add(path)
        _withdraw(value, _EXCLUDES.get(path, ()), given)
        _withdraw_old_kind(document, value, path, given)
    return Document(value=value, places=places, problems=tuple(problems))


def _is_target(override: str) -> bool:
    return override.partition("=")[0].strip() == TARGET


def _retarget(root: Value, places: dict[KeyPath, Place], override: str) -> KeyPath:
    """Put one target in place of those of all configurations."""
    configurations = configurations_of(root) if isinstance(root, dict) else None
    if isinstance(root, dict) and configurations is not None:
        try:
            require_no_targets_below(root)
            target = fitting_target(root, override.partition("=")[2])
            engine = engine_of(Document(value=root, places={}))
            root["configurations"] = retargeted(configurations, target, engine)
        except InputError as error:
            problem = Problem(message=error.message, hint=error.hint, path="--target")
            raise _Refused(problem) from None
        for name in configurations:
            _displace(places, ("configurations", name, "target"), "--target")
    return (TARGET,)


def _tell_of_servers(root: Value, places: dict[KeyPath, Place], key: str, value: Value) -> KeyPath:
    """Put what the servers have into every target that is not inherited."""
    configurations = configurations_of(root) if isinstance(root, dict) else None
    if isinstance(root, dict) and configurations is not None:
        root["configurations"] = configurations
        for name, form in configurations.items():
            own = _mapping(form)
            if _has(form, "extends") and not _has(form, "target"):
                continue
            configurations[name] = {**own, "target": {**_mapping(own.get("target")), key: value}}
            _displace(places, ("configurations", name, "target", key), f"--server-{key}")
    return (key,)


def _put(root: Value, places: dict[KeyPath, Place], override: str) -> KeyPath:
    words, separator, text = override.partition("=")
    if not separator or not words.strip():
        hint = "Write it as in `--override stop.budget=20m`."
        raise _refused(override, f"{shown(override)} is no `path=value`", hint)
    if words.strip() == TARGET:
        return _retarget(root, places, override)
    if words.strip() in _OF_SERVERS:
        return _tell_of_servers(root, places, words.strip(), _value(override, text))
    path = _path(root, override, _steps(root, words.strip()))
    holder = root
    for step in path[:-1]:
        holder = _below(holder, step)
    value = _value(override, text)
    if isinstance(holder, dict):
        holder[str(path[-1])] = value
    elif isinstance(holder, list) and isinstance(path[-1], int):
        holder[path[-1]] = value
    _displace(places, path, "--override")
    return path


def _displace(places: dict[KeyPath, Place], path: KeyPath, option: str) -> None:
    """Forget the file's places from a path on; what is new has none."""
    for known in [known for known in places if known[: len(path)] == path]:
        del places[known]
    nowhere = Place(key=None, value=None, given_as=option)
    for length in range(1, len(path)):
        places.setdefault(path[:length], nowhere)
    places[path] = nowhere


def _steps(root: Value, words: str) -> list[str]:
    """Return the steps of a dotted path; levels, settings and scripts may have dots in names."""
    parts = words.split(".")
    if parts[0] in WHAT_IS_COMPARED[1:]:
        parts = _with_level(root, parts)
    for place in _SETTINGS_AT.get(parts[0], ()):
        if len(parts) > place + 2 and parts[place] in (*setting_keys(), "scripts"):
            return [*parts[: place + 1], ".".join(parts[place + 1 :])]
    return parts


def _with_level(root: Value, parts: list[str]) -> list[str]:
    """Return the steps with a known level in one piece: ``0.9``."""
    levels = root
    for step in parts[:2]:
        levels = levels.get(step) if isinstance(levels, dict) else None
    for end in range(len(parts), 3, -1):
        level = ".".join(parts[2:end])
        if isinstance(levels, dict) and level in levels:
            return [*parts[:2], level, *parts[end:]]
    return parts


def _path(root: Value, override: str, steps: Sequence[str]) -> KeyPath:
    """Return the path in the document, list items found by name or index; makes what is absent."""
    path: list[str | int] = []
    holder = root
    for index in range(len(steps)):
        last = index == len(steps) - 1
        key = _key(holder, override, steps[: index + 1])
        path.append(key)
        if isinstance(holder, dict) and not last and holder.get(str(key)) is None:
            holder[str(key)] = {}
        if not last:
            holder = _below(holder, key)
    return tuple(path)


def _below(holder: Value, key: str | int) -> Value:
    if isinstance(holder, list) and isinstance(key, int):
        return holder[key]
    return holder[key] if isinstance(holder, dict) and isinstance(key, str) else None


def _key(holder: Value, override: str, steps: Sequence[str]) -> str | int:
    """Return the key of the last step, or the index of the list item it names."""
    step = steps[-1]
    where = ".".join(steps[:-1])
    if isinstance(holder, list):
        names = [item.get("name") if isinstance(item, dict) else None for item in holder]
        if step in names:
            return names.index(step)
        if re.fullmatch(r"[0-9]{1,6}", step) and int(step) < len(holder):
            return int(step)
        known = [name for name in names if isinstance(name, str)]
        hint = choice(step, known) if known else "Write the whole list."
        raise _refused(override, f"`{where}` has no item {shown(step)}", hint)
    if not isinstance(holder, dict):
        hint = "Shorten the path."
        raise _refused(override, f"`{where}` has nothing below it", hint)
    if steps[:-1] == ["configurations"] and step not in holder:
        message = f"there is no configuration {shown(step)}"
        raise _refused(override, message, choice(step, holder))
    return step


def _value(override: str, text: str) -> Value:
    """Return the value of YAML text; what only looks like YAML (``%m [%p]``) is taken as text."""
    if not text.strip():
        return None
    document = parse_document(text)
    if not document.problems:
        return document.value
    if text.lstrip()[0] in "[{":
        problem = document.problems[0]
        raise _refused(override, f"the value: {problem.message}", "Quote it for the shell.")
    return text


def _withdraw(value: Value, path: KeyPath, given: set[KeyPath]) -> None:
    if not path or tuple(path) in given or not isinstance(value, dict):
        return
    holder = value.get(str(path[0]))
    if isinstance(holder, dict):
        holder.pop(str(path[1]), None)


def _withdraw_old_kind(file: Document, value: Value, path: KeyPath, given: set[KeyPath]) -> None:
    """Withdraw a target's keys in the file when its kind changes: they were the old one's."""
    if len(path) != 4 or path[0] != "configurations" or path[2:] != ("target", "kind"):
        return
    target = Document(value=value, places={}).at(path[:3])
    old = file.at(path) or kind_here(engine_of(file))
    if not isinstance(target, dict) or target["kind"] == old or path[:3] in given:
        return
    for key in [key for key in target if (*path[:3], key) not in given]:
        del target[key]


def _copied(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _refused(override: str, message: str, hint: str) -> _Refused:
    path = override.partition("=")[0].strip()
    return _Refused(Problem(message=message, hint=hint, path=f"--override {path}"))


def has_path(document: Document, words: str) -> bool:
    """Return whether a file has a dotted path, list items by their name or index."""
    holder = document.value
    for step in _steps(document.value, words):
        if isinstance(holder, list):
            items = {str(place): item for place, item in enumerate(holder)}
            names = {i["name"]: i for i in holder if isinstance(i, dict) and "name" in i}
            holder = {**items, **{str(name): item for name, item in names.items()}}
        if not isinstance(holder, dict) or step not in holder:
            return False
        holder = holder[step]
    return True
