"""Objects of a Kubernetes cluster that does not exist, with an API server's rules."""

import base64
import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from fakes.clock import FakeClock
from steelyard.core.kubernetes import Kind, Manifest, ObjectRef

Object = dict[str, Any]
_Key = tuple[str, str, str, str]
_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "deletionTimestamp")


class Objects:
    """Makes, changes and deletes; what is owned goes with its owner, or with its namespace."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._held: dict[_Key, Object] = {}
        self._applied: dict[_Key, Object] = {}
        self._numbers = count(1)
        self._lingering: dict[str, int] = {}
        self._left: dict[_Key, int] = {}

    def linger(self, kind: Kind, reads: int) -> None:
        """Let a deleted object stay, marked as such, until it was read so many times."""
        self._lingering[kind.name] = reads

    def held(self, ref: ObjectRef) -> Object | None:
        """Return the object itself, which a test may change; None where there is none."""
        return self._held.get(_key(ref))

    def seen(self, ref: ObjectRef) -> Object | None:
        """Return a copy, as a read does; a deleted one may be gone afterwards."""
        key = _key(ref)
        found = copy.deepcopy(self._held.get(key))
        if key in self._left:
            self._left[key] -= 1
            if self._left[key] <= 0:
                self.remove(ref)
        return found

    def all_of(self, kind: Kind, namespace: str, labels: Mapping[str, str]) -> tuple[Object, ...]:
        """Return copies of the objects of a kind with these labels, by namespace and name."""
        return tuple(
            copy.deepcopy(held)
            for key, held in sorted(self._held.items())
            if key[:2] == (kind.api_version, kind.name)
            and namespace in {"", key[2]}
            and labels.items() <= (held["metadata"].get("labels") or {}).items()
        )

    def merged(self, ref: ObjectRef, manifest: Manifest) -> Object:
        """Return what an object becomes when a manifest is applied to it.

        What the last manifest had and this one has not is taken away, as from the only manager.
        """
        key = _key(ref)
        wanted = _normal(copy.deepcopy(dict(manifest)))
        there = self._held.get(key)
        if there is None:
            return {**wanted, "metadata": {**wanted["metadata"], **self._birth(ref)}}
        kept = _without(there, self._applied.get(key, {}), wanted)
        result: Object = merge(kept, wanted)
        return self._changed(there, result)

    def store(self, ref: ObjectRef, made: Object, manifest: Manifest | None = None) -> Object:
        """Keep an object, and the manifest that was applied; return what is kept."""
        self._held[_key(ref)] = made
        if manifest is not None:
            self._applied[_key(ref)] = _normal(copy.deepcopy(dict(manifest)))
        return made

    def patched(self, ref: ObjectRef, patch: Manifest) -> Object:
        """Return what an object becomes by a JSON merge patch (RFC 7386)."""
        there = self._held[_key(ref)]
        return self._changed(there, merge(copy.deepcopy(there), copy.deepcopy(dict(patch))))

    def delete(self, ref: ObjectRef) -> None:
        """Delete an object as the API does: at once, or after some reads."""
        reads = self._lingering.get(ref.kind.name, 0)
        if not reads:
            self.remove(ref)
            return
        metadata = self._held[_key(ref)]["metadata"]
        metadata.setdefault("deletionTimestamp", self._time())
        self._left.setdefault(_key(ref), reads)

    def remove(self, ref: ObjectRef) -> None:
        """Let an object be gone, with all that it owns or holds."""
        key = _key(ref)
        self._left.pop(key, None)
        self._applied.pop(key, None)
        gone = self._held.pop(key, None)
        if gone is None:
            return
        for other in [held for held in self._held.values() if _goes_with(held, gone)]:
            self.remove(reference(other))

    def _birth(self, ref: ObjectRef) -> Object:
        number = next(self._numbers)
        where = {"namespace": ref.namespace} if ref.namespace else {}
        return {
            **where,
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number),
            "creationTimestamp": self._time(),
            "generation": 1,
        }

    def _changed(self, there: Object, result: Object) -> Object:
        metadata = there["metadata"]
        result["metadata"].update(
            {name: metadata[name] for name in _SERVERS_OWN if name in metadata}
        )
        if result != there:
            result["metadata"]["resourceVersion"] = str(next(self._numbers))
        if result.get("spec") != there.get("spec"):
            result["metadata"]["generation"] += 1
        return result

    def _time(self) -> str:
        return datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge(target: Any, patch: Any) -> Any:
    """Return a JSON merge patch (RFC 7386) applied: null removes, lists are replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def reference(held: Manifest) -> ObjectRef:
    """Return which object this is."""
    metadata = held["metadata"]
    namespace = metadata.get("namespace", "")
    kind = Kind(api_version=held["apiVersion"], name=held["kind"], namespaced=bool(namespace))
    return ObjectRef(kind=kind, name=metadata["name"], namespace=namespace)


def _key(ref: ObjectRef) -> _Key:
    return (ref.kind.api_version, ref.kind.name, ref.namespace, ref.name)


def _goes_with(held: Object, gone: Object) -> bool:
    metadata = held["metadata"]
    if gone["kind"] == "Namespace":
        return bool(metadata.get("namespace") == gone["metadata"]["name"])
    owners = metadata.get("ownerReferences") or []
    return any(owner.get("uid") == gone["metadata"]["uid"] for owner in owners)


def _without(there: Any, before: Any, wanted: Any) -> Any:
    """Return an object without the fields that were applied before and are not wanted now."""
    if not isinstance(there, dict) or not isinstance(before, dict):
        return there
    wanted = wanted if isinstance(wanted, dict) else {}
    return {
        name: _without(value, before.get(name), wanted.get(name))
        for name, value in there.items()
        if name in wanted or name not in before
    }


def _normal(manifest: Object) -> Object:
    """Return a manifest as the API keeps it: a Secret's words are encoded."""
    words = manifest.pop("stringData", None) if manifest.get("kind") == "Secret" else None
    if words:
        coded = {
            name: base64.b64encode(str(word).encode()).decode() for name, word in words.items()
        }
        manifest["data"] = {**(manifest.get("data") or {}), **coded}
    return manifest
