"""Whatever a file holds, loading ends in an experiment or in problems."""

import json
import re
import resource
from pathlib import Path

import pytest
import test_validation
from experiment_texts import CANONICAL, problems_of, write_scripts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.campaign.file.files import preset_names, preset_text
from steelyard.campaign.file.form import SECTIONS
from steelyard.core.wording import MIB

TEXTS = [*test_validation.TEXTS, *map(preset_text, preset_names())]
KEYS = sorted({key for form in SECTIONS.values() for key in form.model_fields})
WORDS = [
    *KEYS,
    "redis",
    "redis-local",
    "existing",
    "get",
    "default",
    "auto",
    "select-only",
    "fitted",
    "local",
    "rds",
    "linux",
    "5s",
    "3%",
]
LINES = sorted({f"{line}\n" for text in TEXTS for line in text.splitlines()})
PIECES = ["\t", "  ", "- ", ": ", "{", "}", "[", "]", "&a ", "*a", "!!int ", "? ", "|", ">", "'"]
PIECES += ['"', "\n", "\x00", "\x85", "\ufeff", "%YAML 3.0\n", "---\n", "<<: ", "#", "null", "~"]

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=25,
)


def attempt(text: str, base: Path, *overrides: str) -> None:
    """Load a text; anything but an experiment or located problems fails the test.

    So does taking more than 256 MiB of memory.
    """
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + 2
    limits = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 256 * MIB, limits[1]))
    try:
        problems = problems_of(text, *overrides, base=base)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    for problem in problems:
        assert problem.message
        assert problem.line is None or 1 <= problem.line <= lines + text.count("\u2029")
        assert problem.column is None or problem.column >= 1


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the canonical file's scripts."""
    return write_scripts(tmp_path_factory.mktemp("scripts"))


@FUZZ
@given(text=st.text() | st.lists(st.sampled_from(PIECES + WORDS)).map("".join))
def test_arbitrary_text(scripts: Path, text: str) -> None:
    """No text gets past the problems: the loader raises nothing else."""
    attempt(text, scripts)


@FUZZ
@given(data=st.data())
def test_mutated_files(scripts: Path, data: st.DataObject) -> None:
    """Mistakes in letters, words and lines end in problems, or still in an experiment."""
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        parts = data.draw(st.sampled_from([".?", r"[^\s,:{}[\]]+", ".*\n"]))
        start, end = data.draw(st.sampled_from([m.span() for m in re.finditer(parts, text)]))
        if data.draw(st.booleans()):
            end = data.draw(st.integers(start, min(len(text), start + 12)))
        pieces = st.sampled_from([*PIECES, *WORDS, text[start:end] * 2, ""])
        values = st.sampled_from(LINES) | json_values.map(json.dumps)
        piece = data.draw(pieces | st.text(max_size=3) | values)
        text = text[:start] + piece + text[end:]
    attempt(text, scripts)


@FUZZ
@given(value=json_values, key=st.sampled_from(KEYS))
def test_any_value_at_any_key(scripts: Path, value: object, key: str) -> None:
    """Values of the wrong kind at known keys are refused in words."""
    attempt(json.dumps(value), scripts)
    attempt(json.dumps({key: value}), scripts)


@pytest.mark.slow
@FUZZ
@given(
    steps=st.lists(st.sampled_from(WORDS) | st.text(max_size=4), min_size=1, max_size=5),
    value=st.sampled_from(WORDS + PIECES) | st.text(max_size=8) | json_values.map(json.dumps),
)
def test_any_override(scripts: Path, steps: list[str], value: str) -> None:
    """Any `--set` argument ends in an experiment or in problems."""
    attempt(CANONICAL, scripts, f"{'.'.join(steps)}={value}")


TARGET_PIECES = ["postgresql://", "postgres://", "b@", ":", "db", "/x", "?sslmode=", "%", "[::1]"]
TARGET_PIECES += ["{kind: ", "endpoint", ", host: ", "}", "embedded", "15", "~", "#", "&", "=", " "]


@pytest.mark.slow
@FUZZ
@given(
    text=st.sampled_from(TEXTS),
    target=st.text(max_size=12) | st.lists(st.sampled_from(TARGET_PIECES)).map("".join),
)
def test_any_target(scripts: Path, text: str, target: str) -> None:
    """Any `--target` on any valid file ends in an experiment or in problems."""
    attempt(text, scripts, f"target={target}")


@FUZZ
@given(data=st.data(), target=st.sampled_from(["postgresql://db/x", "15", "{kind: existing}"]))
def test_a_target_on_a_damaged_file(scripts: Path, data: st.DataObject, target: str) -> None:
    """Configurations of any shape are retargeted or refused, never a traceback."""
    configurations = data.draw(json_values)
    attempt(
        json.dumps({"version": 1, "configurations": configurations}), scripts, f"target={target}"
    )
    named = {
        "a": configurations,
        "b": {"extends": "a", "target": configurations, "postgres": configurations},
    }
    attempt(json.dumps({"version": 1, "configurations": named}), scripts, f"target={target}")
