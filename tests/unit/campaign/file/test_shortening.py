"""What `--short` makes of a file: overrides from what it says, and nothing else."""

import re
from pathlib import Path

import pytest

from steelyard.campaign.file.document import parse_document
from steelyard.campaign.file.files import load_experiment, preset_names
from steelyard.campaign.file.overrides import has_path
from steelyard.campaign.file.shortening import shortened
from steelyard.core.wording import ExperimentFileError
from unit.campaign.file.experiment_texts import FACTS


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_can_be_short(name: str) -> None:
    """With short runs, a tenth of the data, few loads and three blocks; its name says so."""
    source = f"preset:{name}"
    whole = load_experiment(source, facts=FACTS)
    short = load_experiment(source, facts=FACTS, short=True)
    experiment = short.experiment
    assert experiment.name == f"{whole.experiment.name} (shortened)"
    assert {experiment.run_time_s(work.name) for work in experiment.workloads} == {2.0}
    assert (experiment.measure.warm_up_s, experiment.measure.runs_per_start) == (0.0, 1)
    assert experiment.stop.blocks == (None if experiment.is_single_pass else 3)
    assert (experiment.stop.width, experiment.sustained_s) == (None, None)
    assert len({load.clients for load in experiment.loads}) <= 3
    for work, before in zip(experiment.workloads, whole.experiment.workloads, strict=True):
        if before.scale is not None:
            assert work.scale == max(1, before.scale // 10)
    assert [c.settings for c in experiment.configurations] == [
        c.settings for c in whole.experiment.configurations
    ]


_TEXT = """
name: a
workloads:
  - {name: reads, scale: 25, run_time: 1s}
  - {name: keys, keys: 1, loaded: 0}
load: {clients: "1, 2/2, 4/4, 8/8, 16/16", threads: [1, 2, 4]}
measure: {run_time: 1s, discard_start: 4s, calibration: {restarts: 5}}
stop: {width: 1%}
capacity: {runs: 9}
sustain: 1h
"""


def test_what_is_short_already_stays() -> None:
    """Only what is longer, larger or more is overridden, from the file's own values."""
    changes = dict(change.split("=", 1) for change in shortened(parse_document(_TEXT)))
    assert changes.pop("name") == '"a (shortened)"'
    assert changes.pop("description").startswith('"Figures of a shortened run')
    assert changes == {
        "measure.discard_start": '"1s"',
        "measure.warm_up": '"0s"',
        "measure.runs_per_start": "1",
        "measure.calibration": "null",
        "capacity.runs": "3",
        "stop.blocks": "3",
        "stop.width": "null",
        "sustain": "null",
        "load.clients": '["1", "4/4", "16/16"]',
        "workloads.0.scale": "2",
    }


def test_the_command_line_comes_after_it() -> None:
    """A value that is asked for beside --short counts, and a wrong one is told as always."""
    own = ("load.clients=1,2,3,4", "measure.run_time=7s")
    loaded = load_experiment("preset:quick", facts=FACTS, overrides=own, short=True)
    assert [load.clients for load in loaded.experiment.loads] == [1, 2, 3, 4]
    assert loaded.experiment.run_time_s("reads") == 7.0
    with pytest.raises(ExperimentFileError, match=r"stop\.blocks"):
        load_experiment("preset:quick", facts=FACTS, overrides=("stop.blocks=1",), short=True)


def test_a_path_is_found_as_overrides_find_it() -> None:
    """Items by name or place, levels and settings with dots in one piece."""
    text = "workloads: [{name: reads, scale: 1}]\nfactors: {fill: {0.9: {postgres: {a.b: 1}}}}"
    document = parse_document(text)
    for words in ("workloads.reads.scale", "workloads.0", "factors.fill.0.9.postgres.a.b"):
        assert has_path(document, words)
    for words in ("workloads.writes", "workloads.reads.scale.x", "target", "load.clients"):
        assert not has_path(document, words)


_WHOLE = """\
version: 1
name: whole
baseline: a
workloads: [{name: reads, builtin: select-only, scale: "1000"}]
load: {clients: 8}
configurations: {a: {}, b: {postgres: {jit: off}}}
"""


@pytest.mark.parametrize(
    ("load", "further", "few"),
    [
        (
            "{clients: [8, 99, 50, 20], threads: [1, 2, 4, 60]}",
            "",
            "8/1 8/4 99/1 99/4 99/60 20/1 20/4",
        ),
        ("{clients: [1, 9, 4, 8], threads: [4, 1, 2, 9]}", "", "1/1 9/4 9/1 9/9 8/4 8/1"),
        ("{clients: 8, rate: [9, closed, 8, 7]}", "gate: slower > 3%", "8/4@9/s 8/4 8/4@7/s"),
        (
            "{clients: 8, rate: [9, 8, 70%, 7]}",
            "capacity: {clients: [8]}",
            "8/4@9/s 8/4@70% 8/4@7/s",
        ),
        ("{clients: 8}", "measure: {turn: 2s, turn_discard: 1500ms, run_time: 60s}", "8/4"),
    ],
)
def test_what_is_left_fits_the_rest(load: str, further: str, few: str, tmp_path: Path) -> None:
    """Loads that others refer to stay, turns fit into the run, and data as text are fewer, too."""
    file = tmp_path / "whole.yaml"
    file.write_text(f"{_WHOLE.replace('{clients: 8}', load)}{further}\n", encoding="utf-8")
    load_experiment(file, facts=FACTS)
    experiment = load_experiment(file, facts=FACTS, short=True).experiment
    assert experiment.workloads[0].scale == 100
    loads = [f"{each.clients}/{each.threads}@{each.rate_label}" for each in experiment.loads]
    assert [re.sub(r"@$|\s", "", each) for each in loads] == few.split()
