"""Objects of a cluster, from the templates of their owners: ``templates/NAME.yaml.j2``.

A template is YAML whose ``{{ value }}`` are written as JSON, which YAML reads as it is: no value
can end its place. A key whose value is none is left out, as Kubernetes takes it.
"""

import json
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def render_manifests(owner: str, template: str, /, **values: object) -> tuple[dict[str, Any], ...]:
    """Return the objects of a template, in its order.

    Args:
        owner: The package that has it: ``__package__``.
        template: Its name: ``set`` of ``templates/set.yaml.j2``.
        values: That it names; one that is not among them is an error.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - a mistyped command is told without it

    text = _environment(owner).get_template(f"{template}.yaml.j2").render(values)
    return tuple(_known(each) for each in YAML(typ="safe", pure=True).load_all(text) if each)


def render_manifest(owner: str, template: str, /, **values: object) -> dict[str, Any]:
    """Return the only object of a template, as ``render_manifests`` does."""
    (made,) = render_manifests(owner, template, **values)
    return made


@cache
def _environment(owner: str) -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - as above

    environment = Environment(  # noqa: S701 - no HTML: every value is written as JSON
        loader=PackageLoader(owner),
        undefined=StrictUndefined,
        finalize=_json,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.clear()  # `namespace` is a value, not Jinja's
    return environment


def _json(value: object) -> str:
    """Return a value as JSON; what YAML does not take as it is, by number."""
    plain = json.dumps(value, ensure_ascii=False, default=_plain)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in plain)


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever JSON has no word for
    """Return a mapping as JSON takes it; a value that is lacking raises with its name."""
    return {str(key): value[key] for key in value}


def _known(value: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    """Return it without the keys whose value is none."""
    if isinstance(value, dict):
        return {key: _known(part) for key, part in value.items() if part is not None}
    return [_known(part) for part in value] if isinstance(value, list) else value
