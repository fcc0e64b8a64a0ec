"""Campaigns side by side: a row per workload and load, a column per environment, names by role."""

from dataclasses import replace

import numpy as np
import pytest
from made_records import a_record, an_experiment

from steelyard.answers.environments import (
    compare_environments,
    environments_document,
    environments_summary,
)
from steelyard.core.campaign import CampaignRecord
from steelyard.core.wording import InputError
from steelyard.report.html import render_markdown

BLOCKS = 8


def campaign(name: str, configuration: str, tps: float, *, workloads: int = 2) -> CampaignRecord:
    """Return a campaign of one configuration beside a baseline of its own."""
    experiment = an_experiment(workloads=workloads, loads=1)
    noise = np.random.default_rng(7).normal(0.0, 0.01, (BLOCKS, 2, workloads))
    record = a_record(np.log(tps) + noise, experiment)
    return replace(_renamed(record, {"t1": configuration, "t0": f"{name}-base"}), campaign_id=name)


def _renamed(record: CampaignRecord, names: dict[str, str]) -> CampaignRecord:
    experiment = record.experiment
    return replace(
        record,
        experiment=replace(
            experiment,
            baseline=names[experiment.baseline],
            configurations=tuple(
                replace(each, name=names[each.name]) for each in experiment.configurations
            ),
        ),
        runs=tuple(replace(run, configuration=names[run.configuration]) for run in record.runs),
    )


def three() -> list[CampaignRecord]:
    """Return an environment in each of three campaigns, the last with one workload less."""
    return [
        campaign("one", "local", 1000.0),
        campaign("two", "CNPG", 800.0),
        campaign("three", "rds", 500.0, workloads=1),
    ]


ROLES = {"CNPG": "local", "rds": "local"}


def test_a_row_per_workload_and_a_column_per_environment() -> None:
    """By role; what one environment did not measure is a dash, and nothing is averaged."""
    found = compare_environments(three(), ROLES)
    assert [(each.campaign, each.label) for each in found.columns] == [
        ("one", "local"),
        ("two", "CNPG"),
        ("three", "rds"),
    ]
    assert [cell.workload for cell in found.cells] == ["w0", "w1"]
    told = environments_summary(found)
    rates = [
        [each["tps"] for each in row["environments"]]  # type: ignore[index, call-overload, union-attr]
        for row in told["side_by_side"]  # type: ignore[union-attr]
    ]
    assert rates[0] == pytest.approx([1000.0, 800.0, 500.0], rel=0.02)
    assert rates[1][:2] == pytest.approx([1000.0, 800.0], rel=0.02)
    assert rates[1][2] is None
    assert told["campaigns"] == ["one", "two", "three"]


def test_each_is_set_against_the_first() -> None:
    """By Welch's interval, with the word that campaigns allow."""
    found = compare_environments(three(), ROLES)
    assert [pair.ids for pair in found.pairs] == [("one", "two"), ("one", "three")]
    effects = [pair.cells[0].effect for pair in found.pairs]
    assert [each.value for each in effects if each] == pytest.approx([-0.2, -0.5], abs=0.02)
    told = render_markdown(environments_document(found))
    assert "## Environments side by side" in told
    assert "two: Throughput of what both measured" in told
    assert "Not interleaved: time is confounded" in told


def test_two_campaigns_keep_their_words_and_keys() -> None:
    """The table is added; all that was there stays."""
    found = compare_environments(three()[:2], {"CNPG": "local"})
    told = environments_summary(found)
    assert told["kind"] == "campaigns"
    assert {"differences", "cells", "left_out", "side_by_side"} <= told.keys()
    document = environments_document(found)
    assert document.title == "two vs one"
    assert [section.anchor for section in document.sections][:2] == ["verdicts", "environments"]


def test_without_roles_there_is_nothing_in_common() -> None:
    """Names decide, unless the roles are told."""
    with pytest.raises(InputError, match="no configuration with the same"):
        compare_environments(three()[:2], {})


def test_equal_names_are_told_apart_by_their_campaign() -> None:
    """Two campaigns of one configuration."""
    records = [campaign("one", "local", 1000.0), campaign("two", "local", 900.0)]
    assert [each.label for each in compare_environments(records, {}).columns] == [
        "local, one",
        "local, two",
    ]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"aurora": "local"}, "`aurora`, which is a configuration of none"),
        ({"one-base": "local"}, "one configuration of two of one: local"),
    ],
)
def test_wrong_roles_are_refused(names: dict[str, str], words: str) -> None:
    """A name that nobody has, and one that a campaign has already."""
    with pytest.raises(InputError, match=words):
        compare_environments(three(), names)
