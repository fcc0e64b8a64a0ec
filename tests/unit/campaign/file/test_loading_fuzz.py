"""Whatever a file or an earlier journal holds, loading ends in an experiment or in problems."""

import json
from pathlib import Path

import pytest
from experiment_texts import CANONICAL, SMALL, load, problems_of, write_scripts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from steelyard.campaign.file.files import preset_names, preset_text
from steelyard.campaign.file.form import SECTIONS
from steelyard.core.campaign import BlockOutcome, CampaignPlan, RoundsFor
from steelyard.core.experiment import Experiment

TEXTS = [CANONICAL, *(preset_text(name) for name in preset_names())]
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
    """Load a text; anything but an experiment or located problems fails the test."""
    lines = text.count("\n") + text.count("\r") + text.count("\x85") + text.count("\u2028") + 2
    problems = problems_of(text, *overrides, base=base)
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
def test_valid_files_with_pieces_put_in_and_cut_out(scripts: Path, data: st.DataObject) -> None:
    """A typing mistake anywhere in a valid file ends in problems, or still in an experiment."""
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        piece = data.draw(st.sampled_from([*PIECES, *WORDS, ""]) | st.text(max_size=3))
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


def test_an_experiment_without_later_keys_is_what_it_was() -> None:
    """Closed loops of one generator, beside the usual neighbours, with the usual ceilings."""
    experiment = load(SMALL).experiment
    adapter = TypeAdapter(Experiment)
    written = adapter.dump_python(experiment, mode="json")
    for key in ("capacity", "goal"):
        del written[key]
    for key in ("share", "latency_limit_s", "generators"):
        del written["loads"][0][key]
    for key in ("max_other_load", "machine_limits"):
        del written["measure"][key]
    assert adapter.validate_python(written) == experiment


def test_a_block_without_a_cause_has_none() -> None:
    """Its reason stays."""
    old = {"index": 0, "attempt": 0, "complete": False, "reason": "steal"}
    assert TypeAdapter(BlockOutcome).validate_python(old).cause == ""


def test_a_plan_of_old_has_one_round() -> None:
    """Journals that know nothing of rounds are still read, and say what they always said."""
    text = (
        '{"mode":"starts","switch":"restart","reset":"start","restore":"copy","restore_s":[],'
        '"block_s":60.0,"stopping":{"max_blocks":9,"alpha":0.04,"results":1,"first_look":6,'
        '"cell_first_look":6,"spending_power":2.0},'
        '"warm_up":{"warm_up_s":20.0,"how":"floor","risk":""}}'
    )
    plan = TypeAdapter(CampaignPlan).validate_json(text)
    assert (plan.rounds, plan.rounds_for, plan.rounds_reason) == (1, RoundsFor.ONE, "")
