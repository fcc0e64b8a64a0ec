"""Somebody else's object, changed and put back: only what still has the campaign's value.

With every change an annotation says what the campaign asks for by now. A field that has neither
that value nor the former one was changed by somebody else since, and stays as it is. An object
without the annotation has nothing of the campaign, or was put back already.
"""

import json
from collections.abc import Collection
from typing import Any, Final

from steelyard.gateways.kubernetes.api import KubernetesApi
from steelyard.model.errors import LeftBehindError
from steelyard.model.kubernetes import Manifest
from steelyard.model.outside import InCluster
from steelyard.platforms.kubernetes.patches import merged, strange, without

ASKED: Final = "steelyard/asked"  # annotation: the merge patch of all that the campaign changed


def marked(patch: Manifest, asked: Manifest) -> dict[str, Any]:
    """Return a merge patch that also says what the campaign asks for, all changes together."""
    return merged(patch, _annotation(json.dumps(asked, sort_keys=True)))


def uid_of(manifest: Manifest | None) -> str:
    """Return what tells an object from another of its name; empty where there is none."""
    return "" if manifest is None else str(manifest["metadata"].get("uid") or "")


def put_back(thing: InCluster, api: KubernetesApi) -> tuple[str, ...]:
    """Bring an altered object back to what it was; twice is no error.

    Returns the fields that somebody else has changed since: they are left as they are.
    """
    live = api.read(thing.ref)
    if live is None or (thing.uid and uid_of(live) != thing.uid):  # its successor is not ours
        return ()
    asked = (live["metadata"].get("annotations") or {}).get(ASKED)
    if asked is None:
        return ()
    former = json.loads(thing.before)
    left = strange(_read(str(asked)), former, live)
    api.patch(thing.ref, merged(without(former, left), _annotation(None)))
    return left


def left_alone(thing: InCluster, paths: Collection[str]) -> LeftBehindError:
    """Return what is to be told of fields that somebody else has changed."""
    return LeftBehindError(
        f"somebody has changed {', '.join(paths)} of {thing.ref.label} since the campaign did; that"
        " is left as it is, and the rest was put back",
        hint=f"Look whether it is meant so; before the campaign it was: {thing.before}.",
    )


def _annotation(value: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {ASKED: value}}}


def _read(text: str) -> dict[str, Any]:
    """Return what an annotation says; of one that somebody broke, that nothing is strange."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
