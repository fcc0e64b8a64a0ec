"""Texts in templates: each is used, each that is used is there, and its values are those it has."""

import ast
import itertools
import sys
from pathlib import Path

import jinja2
import pytest

import steelyard
from steelyard.report.texts import Texts, macros

_SRC = Path(steelyard.__file__).parents[1]
_FILES = sorted((_SRC / "steelyard" / "answers").rglob("*.j2"))
_NAMES = [".".join(file.relative_to(_SRC).with_suffix("").parts) for file in _FILES]


def _calls(module: str) -> list[tuple[str, set[str], bool]]:
    """Return the texts that a module uses: name, values by name, and whether there are others."""
    tree = ast.parse((_SRC / module.replace(".", "/")).with_suffix(".py").read_text("utf-8"))
    return [
        (
            node.func.attr,
            {keyword.arg for keyword in node.keywords if keyword.arg},
            any(keyword.arg is None for keyword in node.keywords),
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and getattr(node.func.value, "id", "") == "_TEXTS"
    ]


def _macros(module: str) -> dict[str, tuple[str, ...]]:
    """Return the macros of a module's template with the names of their values."""
    made = vars(macros(module)).items()
    return {
        name: tuple(value.arguments)
        for name, value in made
        if isinstance(value, jinja2.runtime.Macro)
    }


def test_the_texts_of_modules_are_looked_at() -> None:
    """The others would hold of no text at all."""
    using = {
        ".".join(file.relative_to(_SRC).with_suffix("").parts)
        for file in _SRC.rglob("*.py")
        if "= Texts(__name__)" in file.read_text("utf-8")
    }
    assert using == {*_NAMES}
    assert using


@pytest.mark.parametrize("module", _NAMES)
def test_a_text_is_used_and_what_is_used_is_a_text(module: str) -> None:
    """No text is left over, and none is missing when its moment comes."""
    assert {name for name, _, _ in _calls(module)} == {*_macros(module)}


@pytest.mark.parametrize("module", _NAMES)
def test_a_text_gets_the_values_that_it_has(module: str) -> None:
    """Each call hands over all values by their names, and no other."""
    values = _macros(module)
    for name, given, has_others in _calls(module):
        assert given <= {*values[name]}, name
        assert has_others or given == {*values[name]}, name


@pytest.mark.parametrize("module", _NAMES)
def test_a_text_is_one_line_whatever_its_values_are(module: str) -> None:
    """Whichever parts of a text its values choose: words are parted by one space, and end well."""
    for name, values in _macros(module).items():
        for sample in itertools.product((1, 0, None), repeat=min(len(values), 4)):
            chosen = dict.fromkeys(values, 2) | dict(zip(values, sample, strict=False))
            try:
                text = getattr(Texts(module), name)(**chosen)
            except TypeError:
                continue  # a filter of numbers got none
            assert text, name
            for flaw in ("  ", "\n", " ,", " .", " ;", ".."):
                assert flaw not in text.replace(" ...", ""), (name, text)
        assert getattr(Texts(module), name)(**dict.fromkeys(values, 2))


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Texts:
    """Return the texts of a module in a package of its own."""
    package = tmp_path / "some_answers"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "latency.j2").write_text(
        "{% macro told(server, seconds) %}\n{{ server }}: {{ rate }} for\n"
        "  {{ seconds|duration }}.\n{% if seconds > 60 %}\nThat is long.\n{% endif %}\n"
        "{% endmacro %}\n{% macro wrong() %}{{ nobody }}{% endmacro %}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "some_answers", raising=False)
    macros.cache_clear()
    return Texts("some_answers.latency")


def test_a_line_break_is_a_space_and_a_value_stays(texts: Texts) -> None:
    """The text is one line; spaces of a value are its own; the mark of the engine's word is in."""
    assert texts.told(server="a  b", seconds=5) == "a  b: \ue104 for 5.0 s."
    assert texts.told(server="a", seconds=120) == "a: \ue104 for 2 min. That is long."


def test_a_slip_is_an_error(texts: Texts) -> None:
    """Of a value that is missing, one too many, a name in the text, and the name of a text."""
    with pytest.raises(jinja2.UndefinedError, match="server"):
        texts.told(seconds=5)
    with pytest.raises(TypeError, match="minutes"):
        texts.told(server="a", seconds=5, minutes=1)
    with pytest.raises(jinja2.UndefinedError, match="nobody"):
        texts.wrong()
    with pytest.raises(AttributeError, match="absent"):
        texts.absent()
