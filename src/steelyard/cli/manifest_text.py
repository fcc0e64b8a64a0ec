"""Objects as text for ``kubectl apply -f -``."""

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from steelyard.core.kubernetes import Manifest

_ONE_LINE: Final = 80
# What a YAML 1.1 reader, such as kubectl's, takes for something else than a text.
_AMBIGUOUS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ""}
)


def manifest_text(manifests: Iterable[Manifest], *, head: Iterable[str] = ()) -> str:
    """Return the objects as YAML documents, after a head of comment lines."""
    yaml = YAML()
    yaml.width = 4096  # lines are never folded
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = StringIO()
    text.writelines(f"# {line}".rstrip() + "\n" for line in head)
    for manifest in manifests:
        text.write("---\n")
        yaml.dump(_plain(manifest), text)
    return text.getvalue()


def _plain(value: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    if isinstance(value, str) and "\n" in value:
        return LiteralScalarString(value)
    if isinstance(value, str):
        return DoubleQuotedScalarString(value) if value.lower() in _AMBIGUOUS else value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return _sequence(value) if isinstance(value, list | tuple) else value


def _sequence(value: Sequence[Any]) -> Sequence[Any]:
    """Return a list; one of short words stands in one line."""
    made = CommentedSeq(_plain(each) for each in value)
    if all(isinstance(each, str) for each in value) and len(" ".join(value)) < _ONE_LINE:
        made.fa.set_flow_style()
    return made
