"""Facts files: the facts of a stack as YAML or JSON, to be kept, judged elsewhere, or written.

What was written by hand may say sizes as ``16GiB`` and CPUs as ``0-3,8``.
"""

import io
import json
import re
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.representer import SafeRepresenter

from steelyard.gateways.files import read_text, write_text
from steelyard.model.errors import InputError, Problem
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.facts.decoding import Decoder
from steelyard.tuning.facts.decoding import Path as Steps

_FORMAT: Final = 1
# Characters that JSON may hold as they are and YAML may not, or takes for the end of a line.
_NOT_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_HINT: Final = "`steelyard inspect --save FILE` writes such a file."


def read_facts(path: Path) -> StackFacts:
    """Return the facts in a file.

    Raises:
        InputError: It cannot be used; all its problems are told together, each with its line.
    """
    text = read_text(path)
    if text is None:
        raise InputError(f"{path} is not there or cannot be read", hint=_HINT)
    return parse_facts(text, str(path))


def parse_facts(text: str, source: str) -> StackFacts:
    """Return the facts in a text.

    Raises:
        InputError: It cannot be used; all its problems are told together, each with its line.
    """
    document = _loaded(text, source)
    decoder = Decoder()
    facts = decoder.decode(StackFacts, document, ())
    if isinstance(document, dict) and document.get("format", _FORMAT) != _FORMAT:
        decoder.problem(("format",), f"format {document['format']} is not known", "")
    if decoder.problems or not isinstance(facts, StackFacts):
        problems = [_placed(document, *each) for each in decoder.problems]
        raise _refusal(source, problems)
    return facts


def _loaded(text: str, source: str) -> Any:  # noqa: ANN401 - whatever a file holds
    try:
        return YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = f"it is not YAML: {error.problem or error.context or 'it cannot be parsed'}"
        raise _refusal(source, [Problem(message=message, line=line, column=column)]) from error
    # The parser lets these through on malformed input, as in experiment files.
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        reason = str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        problem = Problem(message=f"it is not YAML: {reason}", line=1, column=1)
        raise _refusal(source, [problem]) from error
    except RecursionError:
        problem = Problem(message="it is nested too deeply", line=1, column=1)
        raise _refusal(source, [problem]) from None


def _placed(document: object, path: Steps, message: str, hint: str) -> Problem:
    """Return a problem with line and column of the nearest thing that holds it."""
    line, column = 1, 1
    node: Any = document
    for step in path:
        try:
            places: Any = node.lc
            place = places.item(step) if isinstance(node, list) else places.value(step)
            node = node[step]
        except (AttributeError, LookupError, TypeError):
            break
        line, column = place[0] + 1, place[1] + 1
    words = ".".join(map(str, path))
    return Problem(message=message, hint=hint, path=words, line=line, column=column)


def _refusal(source: str, problems: list[Problem]) -> InputError:
    number = len(problems)
    heading = f"{source} has {number} problem{'s' if number != 1 else ''}:"
    lines = [heading, *(f"  {problem.located(source)}" for problem in problems)]
    return InputError("\n".join(lines), hint=_HINT)


def write_facts(path: Path, facts: StackFacts) -> None:
    """Write facts to a file: JSON where it is called so, else YAML."""
    write_text(path, facts_json(facts) if path.suffix == ".json" else facts_yaml(facts))


def facts_json(facts: StackFacts) -> str:
    """Return facts as JSON, which is YAML, too."""
    text = json.dumps(plain(facts), indent=2, ensure_ascii=False)
    return _NOT_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def facts_yaml(facts: StackFacts) -> str:
    """Return facts as YAML."""
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = None  # lists of numbers in one line
    yaml.width = 100
    # All of Unicode is escaped where there is something that must be: ruamel knows no better.
    yaml.allow_unicode = not _NOT_YAML.search(json.dumps(plain(facts), ensure_ascii=False))
    yaml.sort_base_mapping_type_on_output = False
    out = io.StringIO()
    yaml.dump(plain(facts), out)
    return out.getvalue()


class _Representer(SafeRepresenter):
    """Writes texts so that they are read again: a bare ``?`` begins a key in a mapping in line."""


def _text(representer: Any, text: str) -> Any:  # noqa: ANN401 - ruamel has no types for it
    style = '"' if text.startswith("?") else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Representer.add_representer(str, _text)


def plain(value: object) -> Any:  # noqa: ANN401 - plain values
    """Return a dataclass as mappings, lists and plain values; defaults are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in fields(value)
            if field.name == "format" or not _is_default(field, getattr(value, field.name))
        }
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value.value if hasattr(value, "value") else value


def _is_default(field: Any, value: object) -> bool:  # noqa: ANN401 - Field takes a type
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return field.default is not MISSING and value == field.default
