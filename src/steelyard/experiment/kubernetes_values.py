"""The scalars and fragments of a Kubernetes target: how each is read, refused and described.

Limits are those of Kubernetes itself. Sources: Kubernetes, "Object Names and IDs", "Labels and
Selectors", "Quantity" and "Taints and Tolerations"; the OCI distribution specification for names
of images.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema

from steelyard.experiment import form_values as values
from steelyard.experiment.form_values import refusal
from steelyard.experiment.suggestions import choice, did_you_mean, listed, shown
from steelyard.model.errors import InputError
from steelyard.model.kubernetes import DNS_LABEL, DNS_SUBDOMAIN, IMAGE_REFERENCE, LABEL
from steelyard.model.quantities import page_bytes_of, parse_quantity

_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1035: no digit in front
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY: Final = re.compile(
    rf"({LABEL}(\.{LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}"
    r"[A-Za-z0-9])?"
)
_CLUSTER_LENGTH: Final = 50  # the operator adds suffixes and refuses longer names
_KEY_OF_SECRET: Final = re.compile(r"[-._A-Za-z0-9]{1,253}")
_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi")
_HUGE: Final = "hugepages-"
_TOLERATION: Final = ("key", "operator", "value", "effect", "tolerationSeconds")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OWN_KEYS: Final = {"nodeSelector": "node_selector", "tolerations": "tolerations"}


def _named(form: re.Pattern[str], what: str, hint: str) -> Callable[[object], str]:
    """Return a validator for names of one form."""

    def read(value: object) -> str:
        name = values.text(value)
        if not form.fullmatch(name):
            raise refusal(f"{shown(name)} is no {what}", hint)
        return name

    return read


def is_service_name(name: str) -> bool:
    """Return whether a Service can have this name."""
    return _SERVICE.fullmatch(name) is not None


def _cluster(value: object) -> str:
    name = _object_name(value)
    if len(name) > _CLUSTER_LENGTH or "." in name:
        hint = f"Names of Clusters have up to {_CLUSTER_LENGTH} characters and no dot."
        raise refusal(f"{shown(name)} is no name of a Cluster", hint)
    return name


def quantity(value: object) -> str:
    """Return an amount as written; one that is not above zero is refused."""
    text = values.text(value)
    try:
        amount = parse_quantity(text)
    except InputError as error:
        raise refusal(f"{shown(value)} is no quantity of Kubernetes", error.hint) from None
    if not amount:
        raise refusal(f"{shown(value)} is nothing", "Write more than 0.")
    return text


def _storage(value: object) -> str:
    text = quantity(value)
    if parse_quantity(text) % 1:
        raise refusal(f"{shown(value)} is no size of a volume", "Write it as 20Gi.")
    return text


def amounts(value: object) -> dict[str, str]:
    """Return amounts by resource, as Kubernetes names them."""
    if not isinstance(value, dict) or not value:
        hint = "Write it as in `{cpu: 2, memory: 4Gi}`."
        raise refusal(f"{shown(value)} names no resources", hint)
    for name in value:
        if name in _RESOURCES or _is_extended(name):
            continue
        hint = did_you_mean(name, _RESOURCES) or f"known: {listed(_RESOURCES)}"
        raise refusal(f"{shown(name)} is no resource of a container", hint)
    return {name: quantity(amount) for name, amount in value.items()}


def _is_extended(name: str) -> bool:
    """Return whether a resource is of a device plugin, or huge pages of another size."""
    if name.startswith(_HUGE):
        return page_bytes_of(name) is not None
    return "/" in name and _LABEL_KEY.fullmatch(name) is not None


def labels(value: object) -> dict[str, str]:
    """Return labels that a node must have, as Kubernetes takes them: text by text."""
    if not isinstance(value, dict):
        raise refusal(f"{shown(value)} is no mapping of labels", "Write it as {disk: nvme}.")
    found = {}
    for key, given in value.items():
        if not _LABEL_KEY.fullmatch(key):
            hint = "Write it as `disk` or `example.com/disk`."
            raise refusal(f"{shown(key)} is no key of a label", hint)
        text = "" if given == "" else _label_value(key, given)
        found[key] = text
    return found


def _label_value(key: str, given: object) -> str:
    if isinstance(given, bool):  # YAML's true; a label is text
        given = "true" if given else "false"
    text = values.text(given)
    if not _LABEL_VALUE.fullmatch(text):
        hint = "Labels have up to 63 letters, digits, hyphens, underscores and dots."
        raise refusal(f"{shown(given)} is no value of the label `{key}`", hint)
    return text


def canonical(value: object) -> str:
    """Return YAML's plain values as JSON whose text is the same wherever the meaning is."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _fragment(value: object) -> object:
    """Return a fragment as plain values; one that was read already is JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        hint = "Write it as in a manifest."
        raise refusal(f"{shown(value)} is no YAML of a manifest", hint) from None


def tolerations(value: object) -> str:
    """Return tolerations as Kubernetes takes them, a JSON list."""
    items = _fragment(value)
    if not isinstance(items, list):
        hint = "Write it as in `[{key: dedicated, operator: Exists}]`."
        raise refusal(f"{shown(value)} is no list of tolerations", hint)
    for item in items:
        _check_toleration(item)
    return canonical(items)


def _check_toleration(item: object) -> None:
    if not isinstance(item, dict):
        hint = "Write it as in `[{key: dedicated, operator: Exists}]`."
        raise refusal(f"{shown(item)} is no toleration", hint)
    for key in item:
        if key not in _TOLERATION:
            raise refusal(f"a toleration has no key {shown(key)}", choice(key, _TOLERATION))
    operator, effect = item.get("operator", "Equal"), item.get("effect")
    if operator not in ("Exists", "Equal"):
        hint = "Use `Exists` or `Equal`."
        raise refusal(f"{shown(operator)} is no operator of a toleration", hint)
    if operator == "Equal" and not item.get("key"):
        hint = "Name the `key` of the taint, or write `operator: Exists`."
        raise refusal("a toleration without `key` fits no taint", hint)
    if effect is not None and effect not in _EFFECTS:
        hint = choice(str(effect), _EFFECTS)
        raise refusal(f"{shown(effect)} is no effect of a taint", hint)


def affinity(value: object) -> str:
    """Return further keys of a Cluster's ``spec.affinity``, a JSON object."""
    keys = _fragment(value)
    if not isinstance(keys, dict):
        hint = "Write it as below `spec.affinity` of a Cluster."
        raise refusal(f"{shown(value)} is no mapping", hint)
    for theirs, ours in _OWN_KEYS.items():
        if theirs in keys:
            hint = f"Write it below `{ours}` of the target."
            raise refusal(f"`{theirs}` has a key of its own", hint)
    return canonical(keys)


def _schema(**keywords: object) -> WithJsonSchema:
    return WithJsonSchema(dict(keywords))


_object_name = _named(
    DNS_SUBDOMAIN,
    "name of an object in Kubernetes",
    "Use small letters, digits, hyphens and dots, with a letter or digit at both ends.",
)
_namespace = _named(
    DNS_LABEL, "name of a namespace", "Use up to 63 small letters, digits and hyphens."
)
_image = _named(
    IMAGE_REFERENCE, "reference of an image", "Write it as registry.example.com/name:tag."
)
_service = _named(
    _SERVICE, "name of a Service", "Use up to 63 small letters, digits and hyphens, a letter first."
)
_secret_key = _named(
    _KEY_OF_SECRET, "key of a Secret", "Use letters, digits, hyphens, underscores and dots."
)

_TEXT: Final = {"type": "string"}
_AMOUNT: Final[Mapping[str, Any]] = {"type": ["string", "number"], "examples": ["500m", "8Gi", 2]}
ObjectName = Annotated[str, PlainValidator(_object_name), _schema(**_TEXT)]
ClusterName = Annotated[str, PlainValidator(_cluster), _schema(**_TEXT, maxLength=_CLUSTER_LENGTH)]
NamespaceName = Annotated[str, PlainValidator(_namespace), _schema(**_TEXT, maxLength=63)]
ServiceName = Annotated[str, PlainValidator(_service), _schema(**_TEXT, maxLength=63)]
SecretKey = Annotated[str, PlainValidator(_secret_key), _schema(**_TEXT)]
Image = Annotated[str, PlainValidator(_image), _schema(**_TEXT)]
Storage = Annotated[str, PlainValidator(_storage), _schema(**_AMOUNT)]
Amounts = Annotated[
    dict[str, str],
    PlainValidator(amounts),
    _schema(type="object", additionalProperties=dict(_AMOUNT), minProperties=1),
]
Labels = Annotated[
    dict[str, str],
    PlainValidator(labels),
    _schema(type="object", additionalProperties={"type": ["string", "number", "boolean"]}),
]
Tolerations = Annotated[
    str, PlainValidator(tolerations), _schema(type="array", items={"type": "object"})
]
Affinity = Annotated[str, PlainValidator(affinity), _schema(type="object")]
Method = Annotated[
    str, PlainValidator(values.one_of("any", "first")), _schema(enum=["any", "first"])
]
Durability = Annotated[
    str,
    PlainValidator(values.one_of("required", "preferred")),
    _schema(enum=["required", "preferred"]),
]
