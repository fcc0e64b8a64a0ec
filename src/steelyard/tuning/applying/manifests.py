"""Objects of a cluster as a plan asks for them, against those that are there.

A plan's object speaks of some fields. Of an object that is there already these alone are changed,
by a merge patch, and what they were is another merge patch, which puts them back.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from steelyard.model.errors import InputError
from steelyard.model.kubernetes import CLUSTER, MANAGED_BY, MANAGER
from steelyard.model.quantities import parse_quantity
from steelyard.model.stack import Knob
from steelyard.platforms.kubernetes.patches import Difference

# Of a Cluster that is there: which image it has is not what a plan is about, and CloudNativePG
# takes one way of saying it at a time.
_IMAGE: Final = ("imageCatalogRef", "imageName")
_MOST_TOLD: Final = 4


def manifest_of(knob: Knob, namespace: str) -> dict[str, Any]:
    """Return the object that a knob asks for; one of a namespace is in this one.

    Raises:
        InputError: It is no object.
    """
    try:
        given = YAML(typ="safe", pure=True).load(knob.value)
    except YAMLError as error:
        raise InputError(f"{knob.place} is no YAML: {error}", hint="Make the plan anew.") from error
    if not isinstance(given, dict) or not {"apiVersion", "kind", "metadata"} <= given.keys():
        raise InputError(f"{knob.place} is no object of a cluster", hint="Make the plan anew.")
    made = json.loads(json.dumps(given))
    metadata = {**made["metadata"], "labels": {MANAGED_BY: MANAGER}}
    if made["kind"] == CLUSTER.name:
        metadata["namespace"] = namespace
    return {**made, "metadata": metadata}


def asked_of(manifest: Mapping[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a plan asks of an object that is there, without what stays as it is.

    Name and labels are no question; a Cluster keeps its image, and a volume that is larger.
    """
    asked = {k: v for k, v in manifest.items() if k not in ("apiVersion", "kind", "metadata")}
    if live is None or manifest["kind"] != CLUSTER.name:
        return asked
    spec, there = dict(asked["spec"]), live.get("spec") or {}
    if any(name in there for name in _IMAGE):
        spec = {name: value for name, value in spec.items() if name not in _IMAGE}
    for name in ("storage", "walStorage"):
        size = (spec.get(name) or {}).get("size")
        if size is not None and _is_at_least((there.get(name) or {}).get("size"), size):
            spec[name] = {key: value for key, value in spec[name].items() if key != "size"}
    return {**asked, "spec": spec}


def told(found: list[Difference]) -> tuple[str, ...]:
    """Return differences as sentences, not too many of them."""
    sentences = [
        f"{path} was asked to be {_shown(asked)} and is {_shown(live)}."
        for path, asked, live in found[:_MOST_TOLD]
    ]
    more = len(found) - _MOST_TOLD
    return (*sentences, f"So are {more} more fields.") if more > 0 else tuple(sentences)


def _is_at_least(size: object, asked: object) -> bool:
    try:
        return size is not None and parse_quantity(str(size)) >= parse_quantity(str(asked))
    except InputError:
        return False


def _shown(value: object) -> str:
    return "absent" if value is None else json.dumps(value)
