"""``--target``: one target for the whole experiment, in place of those in the file."""

from collections.abc import Mapping
from typing import Final

from steelyard.experiment.document import Value, parse_document
from steelyard.experiment.form_target import LATER_TARGETS, TARGETS
from steelyard.experiment.suggestions import listed
from steelyard.model.errors import InputError

_EXCLUDING: Final = "Change them one by one: `--set treatments.NAME.target={kind: ..., ...}`."
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
