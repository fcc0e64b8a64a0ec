"""Positions of everything in a text, and what is wrong with the text itself."""

import pytest
from experiment_texts import SMALL, load, only_problem, problems_of, with_line, with_other

from steelyard.campaign.file.document import MAX_VALUES, parse_document
from steelyard.core.quantities import WrittenFloat, WrittenInt


def test_places_are_one_based_for_keys_and_values() -> None:
    """Editors jump to the right spot in block and in flow style."""
    document = parse_document("a: 1\nb:\n  - {c: [x, 2]}\n")
    assert document.places[("a",)].key == (1, 1)
    assert document.places[("a",)].value == (1, 4)
    assert document.places[("b", 0)].value == (3, 5)
    assert document.places[("b", 0, "c")].key == (3, 6)
    assert document.places[("b", 0, "c", 1)].value == (3, 13)


def test_an_absent_value_is_placed_at_its_key() -> None:
    """A key with nothing after it is not reported lines below it."""
    document = parse_document("a:\n\n\nb: 1\n")
    assert document.places[("a",)].value == (1, 1)


def test_numbers_keep_their_spelling() -> None:
    """Settings reach the server as they were written: 1.10 and 0700 stay what they are."""
    value = parse_document("[1.10, 0700, 0x1F, 1e3]").value
    assert isinstance(value, list)
    numbers = [item for item in value if isinstance(item, WrittenInt | WrittenFloat)]
    assert [number.text for number in numbers] == ["1.10", "0700", "0x1F", "1e3"]
    assert [float(number) for number in numbers] == [1.1, 700.0, 31.0, 1000.0]


def test_yaml_1_2_words_stay_text() -> None:
    """Only true and false are booleans; on, no and dates are text."""
    value = parse_document("[on, no, 2026-01-01, true, ~, '5']").value
    assert value == ["on", "no", "2026-01-01", True, None, "5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "test.yaml:1:1: it is empty"),
        ("a: 1\n\tb: 2\n", "Indent with spaces: YAML does not allow tabs."),
        ("a:\n\t- b\n", "test.yaml:2:1: it is not YAML: found character '\\t'"),
        ("a: [1\nb: 2\n", "test.yaml:2:2: it is not YAML: expected ',' or ']'"),
        ("a: 1\nb: 'x\nc: 1\n", "test.yaml:2:4: it is not YAML: found unexpected end of stream"),
        ("a: 1\nb: 'x\nc: 1\n", "(Close the quotation mark.)"),
        ("a: 1\nb:x\nc: 1\n", "test.yaml:2:1: it is not YAML: could not find expected ':'"),
        ("a: 1\nb: {c: 1,\n  d: 2\n", "test.yaml:2:4: it is not YAML: expected ',' or '}'"),
        ("a: *nope\n", "found undefined alias 'nope'"),
        ("a: 1\n--- b\n", "test.yaml:2:1: it is not YAML: but found another document"),
        ("a: 1\nb: \x01\n", "test.yaml:2:4: character U+0001 is not allowed in YAML (Remove it.)"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_yaml_is_one_problem_with_its_place(text: str, expected: str) -> None:
    """Syntax errors name the line and column, and no second problem follows from them."""
    assert expected in only_problem(text)


def test_every_duplicate_key_is_told() -> None:
    """Duplicate keys are reported all at once, beside other problems, and name the first."""
    told = [problem.message for problem in problems_of(with_line("seed: 2\nname: x\nbogus: 1"))]
    assert told == [
        "the key `seed` was already given on line 6",
        "the key `name` was already given on line 2",
        "unknown key `bogus`",
    ]


def test_a_list_or_a_word_is_no_experiment() -> None:
    """A document that is no mapping is refused in words."""
    assert "`[a, b]` is not a mapping" in only_problem("[a, b]")
    assert "`hello` is not a mapping" in only_problem("hello")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("{clients:\u00a01}", "5:8: load.clients: behind `clients:` stands a"),
        ("{clients:\u20091, threads: 1}", "(Write a plain space there.)"),
    ],
)
def test_a_blank_that_is_no_space_is_told(new: str, expected: str) -> None:
    """Nobody sees it in an editor."""
    assert expected in only_problem(SMALL.replace("{clients: 1, protocol: simple}", new))


def test_commas_between_values_are_no_decimal_commas() -> None:
    """Lists of whole numbers, and of values with a space between them, are what they were."""
    value = parse_document("{a: [1,5], b: [1, 5h], c: [1,x5h], d: [1.5,5h], e: '1,5h', f: 1,g: }")
    assert not value.problems
    assert value.value == {
        "a": [1, 5], "b": [1, "5h"], "c": [1, "x5h"], "d": [1.5, "5h"], "e": "1,5h", "f": 1,
        "g": None,
    }  # fmt: skip


def test_aliases_are_values_like_any_other() -> None:
    """An anchor saves typing; what it stands for is validated at each place."""
    text = with_other("{postgres: &settings {work_mem: 8MB}}")
    text += "  third: {postgres: *settings}\n"
    settings = [configuration.settings for configuration in load(text).experiment.configurations]
    assert settings[1] == settings[2] != ()


def test_aliases_of_aliases_are_bounded() -> None:
    """A small text that describes a huge value is refused quickly, and that is all that is said."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (problem,) = problems_of("\n".join(["version: 1", *lines]))
    assert f"more than {MAX_VALUES} values" in problem.message


def test_keys_that_are_no_words_are_refused() -> None:
    """A list as a key is a problem with a place."""
    assert "the key is not a word" in only_problem(SMALL + "? [a]\n: b\n")
