"""PostgreSQL settings as a Cluster takes them: texts, and not those that the operator keeps.

A Cluster has one list beside the parameters, ``shared_preload_libraries``; here it is a setting
like any other.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from steelyard.model.errors import PreflightError
from steelyard.model.operator_parameters import OVERWRITTEN, REFUSED

LIBRARIES: Final = "shared_preload_libraries"
CHANGE: Final = "steelyard.change"  # ours: what the server read last, see rollout.py
_WAY_OUT: Final = {
    "synchronous_standby_names": "`synchronous:` of the target says it",
    "allow_alter_system": "the operator writes it from spec.postgresql.enableAlterSystem",
}


def require_taken(names: Iterable[str]) -> None:
    """Raise when the operator keeps one of these settings to itself.

    Raises:
        PreflightError: With all of them.
    """
    kept = sorted({name.lower() for name in names} & ((REFUSED | OVERWRITTEN) - {LIBRARIES}))
    if not kept:
        return
    ways = [f"{name}: {_WAY_OUT[name]}" for name in kept if name in _WAY_OUT]
    raise PreflightError(
        f"CloudNativePG sets {', '.join(kept)} itself and takes no other value",
        hint="; ".join(["Leave them out of `postgres:`", *ways]) + ".",
    )


def postgresql_spec(settings: Mapping[str, str | None]) -> dict[str, Any]:
    """Return settings as keys of ``spec.postgresql``; None removes one in a merge patch."""
    named = {name.lower(): value for name, value in settings.items()}
    spec: dict[str, Any] = {}
    if LIBRARIES in named:
        libraries = named.pop(LIBRARIES)
        spec[LIBRARIES] = None if libraries is None else _listed(libraries)
    if named:
        spec["parameters"] = named
    return spec


def settings_in(spec: Mapping[str, Any], names: Iterable[str]) -> dict[str, str | None]:
    """Return what a Cluster's spec says of each setting; None where it says nothing."""
    postgresql = spec.get("postgresql") or {}
    parameters = {
        name.lower(): value for name, value in (postgresql.get("parameters") or {}).items()
    }
    libraries = postgresql.get(LIBRARIES)
    known = {**parameters, LIBRARIES: None if libraries is None else ", ".join(libraries)}
    return {name: known.get(name) for name in dict.fromkeys(n.lower() for n in names)}


def _listed(libraries: str) -> list[str]:
    return [each.strip().strip('"') for each in libraries.split(",") if each.strip()]
