"""``--target``: one target for the whole experiment, in place of those in the file."""

from collections.abc import Mapping
from typing import Final

from steelyard.experiment.document import Value, parse_document
from steelyard.experiment.form_target import LATER_TARGETS, TARGETS
from steelyard.experiment.suggestions import listed, shown
from steelyard.model.attribution import AttributionKind
from steelyard.model.errors import InputError

_EXCLUDING: Final = "Change them one by one: `--set treatments.NAME.target={kind: ..., ...}`."
_KINDS: Final = tuple(kind.value for kind in AttributionKind)
_SHARED: Final = "default"  # what the combination of all first levels is called by itself
_ROOM: Final = "max_connections"  # what a preset asks for so that its clients fit


def retargeted(treatments: Mapping[str, Value], text: str) -> dict[str, Value]:
    """Return treatments that all run on the target of a text.

    On a server that is there already and that nobody restarts, ``max_connections`` is left as it
    is where all treatments ask for the same: it makes room there and is not what is compared.

    Raises:
        InputError: The text is no target, or the treatments differ by their targets.
    """
    target = target_of(text)
    own = [form.get("target") for form in treatments.values() if isinstance(form, dict)]
    stated = [target for target in own if target is not None]
    if any(each != stated[0] for each in stated):
        raise InputError("the treatments have targets of their own", hint=_EXCLUDING)
    replaced = {name: _on(target, form) for name, form in treatments.items()}
    if target.get("kind") != "local" and "restart_command" not in target:
        _leave_room_to_server(replaced)
    return replaced


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
    if "://" in text:
        return {"kind": "endpoint", "uri": text}
    if text in (*TARGETS, *LATER_TARGETS):
        return {"kind": text}
    return {"kind": "local", "bin": text}


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
