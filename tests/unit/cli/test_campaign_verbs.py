"""The verbs that read campaigns, on records of campaigns that ran in a world without servers."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner, Result

from fakes.campaigns import Stage, a_record, an_experiment, asks
from fakes.clock import FakeClock
from steelyard.campaign.cleanup.leftovers import require_nothing_left
from steelyard.cli import campaigns as reading
from steelyard.cli.main import cli
from steelyard.core.experiment import Configuration, Measure, Stop
from steelyard.core.outside import Foreign, OnServer, TurnedKnob, Word
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.target import LocalTarget
from steelyard.core.wording import InputError, LeftBehindError, RecordError
from steelyard.record.journal import Created


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a directory with a decided campaign, one of three configurations, a damaged one."""
    root = tmp_path_factory.mktemp("there") / "campaigns"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEELYARD_CACHE", str(root.with_name("cache")))
        _run_campaigns(root)
        yield root


def _run_campaigns(root: Path) -> None:
    a_record(root / "two")
    two = an_experiment()
    faster = Configuration(
        name="fastest", target=LocalTarget(), settings=asks(speed="1.2", speed_needs_restart="on")
    )
    three = replace(
        two,
        configurations=(*two.configurations, faster),
        measure=Measure(run_time_s=4.0, discard_start_s=1.0, warm_up_s=2.0),
        stop=Stop(budget_s=1800.0),
    )
    later = FakeClock()
    later.sleep(5000.0)
    Stage.new(three, root / "three", later).run()
    (root / "broken").mkdir()
    (root / "broken" / "journal.jsonl").write_text("no journal\n")


def invoke(*words: str | Path) -> Result:
    """Return the outcome of a command line."""
    return CliRunner().invoke(cli, [str(word) for word in words])


def as_json(*words: str | Path) -> dict:
    """Return what a command prints for programs."""
    result = invoke(*words, "--json")
    assert result.exit_code == 0, (result.exception, result.output)
    return json.loads(result.output)


def test_list_names_all_campaigns_oldest_first(
    campaigns: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has status, blocks, verdicts and size; a damaged record is listed, not fatal."""
    listed = as_json("list", campaigns)["campaigns"]
    assert [Path(str(one["directory"])).name for one in listed] == ["two", "three", "broken"]
    assert [one["status"] for one in listed] == ["decided", "decided", "damaged"]
    assert listed[0]["verdicts"] == [
        {"workload": "reads", "configuration": "fast", "verdict": "faster"}
    ]
    assert all(one["size_bytes"] > 0 for one in listed)
    assert "damaged at line 1" in listed[2]["problem"]
    monkeypatch.chdir(campaigns.parent)
    text = invoke("list").output
    assert "3 campaigns" in text
    assert "reads fast: faster" in text


def test_list_of_one_and_of_none(
    campaigns: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign's own directory lists itself; without campaigns/ there is nothing to list."""
    assert len(as_json("list", campaigns / "two")["campaigns"]) == 1
    monkeypatch.chdir(campaigns / "two")
    assert "No campaign is below campaigns." in invoke("list").output
    assert isinstance(invoke("list", tmp_path / "absent").exception, InputError)


def test_looking_writes_nothing(campaigns: Path) -> None:
    """List, show and compare leave every file as it is."""
    before = {path: path.stat().st_mtime_ns for path in campaigns.rglob("*")}
    for words in (
        ("list", campaigns),
        ("show", campaigns / "two"),
        ("compare", campaigns / "two", campaigns / "three"),
        ("compare", campaigns / "three", "fast", "fastest"),
    ):
        assert invoke(*words).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in campaigns.rglob("*")} == before


def test_show_tells_where_a_campaign_stands(campaigns: Path) -> None:
    """Experiment, plan, position, environment and what is left behind, in text and for programs."""
    text = invoke("show", campaigns / "two").output
    for part in ("Where it stands", "Experiment", "Plan", "Left behind", "seed", "kernel"):
        assert part in text
    shown = as_json("show", campaigns / "two")
    assert shown["status"] == "decided"
    assert shown["left_behind"] == []
    told = [(fact["subject"], fact["name"]) for fact in shown["facts"]]
    assert told == [("machine", "kernel"), ("tools", "transaction logs while a run goes on")]
    assert isinstance(invoke("show", campaigns).exception, RecordError)
    assert isinstance(invoke("show", campaigns / "broken").exception, RecordError)


def test_only_what_is_still_there_is_left_behind(tmp_path: Path) -> None:
    """What a dead session removed before it could say so is not shown: `clean` finds none of it."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    for name in ("gone", "there"):
        stage.directory.journal.append(Created(resource="directory", name=str(tmp_path / name)))
    (tmp_path / "there").mkdir()
    stage.directory.close()
    assert as_json("show", stage.path)["left_behind"] == [str(tmp_path / "there")]


def test_everything_that_clean_would_undo_is_left_behind(tmp_path: Path) -> None:
    """Groups, things on servers and knobs too: a turned kernel is nothing to keep quiet about."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    group = tmp_path / "steelyard-x-server"
    group.mkdir()
    knob = TurnedKnob(
        knob=Knob(name="n", layer="linux", kind=KnobKind.SYSCTL, place="vm.swappiness", value="1"),
        snapshot="60",
    )
    thing = OnServer(
        resource=Foreign.DATABASE,
        host="db",
        port=5432,
        user="me",
        database="steelyard_1",
        entrance="postgres",
        mark="m",
    )
    for created in (
        Created(resource="cgroup", name=str(group)),
        Created.of(thing),
        Created.of(knob),
    ):
        stage.directory.journal.append(created)
    stage.directory.close()
    left = [str(group), thing.label, "knob sysctl vm.swappiness"]
    assert as_json("show", stage.path)["left_behind"] == left
    assert as_json("list", stage.path)["campaigns"][0]["left_behind"] == left
    assert "knob sysctl vm.swappiness" in invoke("show", stage.path).output


def test_a_dead_campaign_is_told_from_a_running_one(tmp_path: Path) -> None:
    """A journal without an end is `running` while it is held, and `died` after that."""
    stage = Stage.new(an_experiment(), tmp_path / "open")
    assert as_json("show", tmp_path / "open")["status"] == "running"
    stage.directory.close()
    assert as_json("show", tmp_path / "open")["status"] == "died, can be resumed"


def test_campaigns_are_compared_by_role(campaigns: Path) -> None:
    """Two or more directories are campaigns; a configuration of another name can have one role."""
    two, three = campaigns / "two", campaigns / "three"
    told = as_json("compare", two, three, two)
    assert told["kind"] == "environments"
    assert len(told["pairs"]) == len(told["campaigns"]) - 1 == 2
    as_one = as_json("compare", two, three, "--as", "fast=slow-here")["side_by_side"][0]
    assert [each["role"] for each in as_one["environments"]].count("slow-here") == 2
    printed = invoke("compare", two, three, two).output
    assert "Environments side by side" in printed
    refused = invoke("compare", two, three, "--as", "fastest=fast").exception
    assert isinstance(refused, InputError)
    assert isinstance(invoke("compare", two, three, "--as", "fast").exception, InputError)


def test_compare_of_configurations_is_paired_and_labelled(campaigns: Path) -> None:
    """Two contenders are an additional analysis; a contender against the baseline is the plan's."""
    pair = as_json("compare", campaigns / "three", "fast", "fastest")
    assert not pair["planned"]
    result = pair["comparisons"][0]
    assert (result["baseline"], result["configuration"]) == ("fast", "fastest")
    assert result["low_percent"] < 100 * (1.2 / 1.05 - 1) < result["high_percent"]
    assert "additional analysis" in invoke("compare", campaigns / "three", "fast", "fastest").output

    planned = as_json("compare", campaigns / "two", "slow", "fast")
    whole = as_json("show", campaigns / "two")
    assert planned["planned"]
    assert [c["low_percent"] for c in planned["comparisons"]] == [
        c["low_percent"] for c in whole["comparisons"]
    ]
    turned = as_json("compare", campaigns / "two", "fast", "slow")
    assert turned["planned"]
    assert turned["comparisons"][0]["verdict"] == "slower"


def test_compare_of_configurations_refuses_what_is_not_there(campaigns: Path) -> None:
    """An unknown configuration is answered with the known ones; one alone makes no pair."""
    unknown = invoke("compare", campaigns / "two", "slow", "quick").exception
    assert isinstance(unknown, InputError)
    assert unknown.hint == "It has: slow, fast."
    assert isinstance(invoke("compare", campaigns / "two", "slow", "slow").exception, InputError)
    assert invoke("compare", campaigns / "two").exit_code == 2


def test_compare_of_campaigns_is_labelled_and_never_says_faster(campaigns: Path) -> None:
    """What differs comes first, the words are weak, and time is named as confounded."""
    text = invoke("compare", campaigns / "two", campaigns / "three").output
    assert "Not interleaved: time is confounded" in text
    assert text.index("Environment and settings that differ") < text.index("Throughput of what")
    assert "5 s measured → 1 s ramp, 4 s measured" in text
    assert "`fastest` is in the second campaign only" in text
    assert "faster" not in text
    assert "slower" not in text
    content = as_json("compare", campaigns / "two", campaigns / "three")
    assert not content["interleaved"]
    assert {cell["configuration"] for cell in content["cells"]} == {"slow", "fast"}
    assert {cell["word"] for cell in content["cells"]} <= {"differs", "no clear difference"}


def test_campaigns_without_anything_in_common_are_refused(campaigns: Path, tmp_path: Path) -> None:
    """Different work under one name is not compared."""
    other = an_experiment()
    work = replace(other.workloads[0], scale=99)
    Stage.new(replace(other, workloads=(work,)), tmp_path / "other").run()
    refused = invoke("compare", campaigns / "two", tmp_path / "other").exception
    assert isinstance(refused, InputError)
    assert "in common" in refused.message


def test_json_never_holds_what_json_does_not_know() -> None:
    """A number that is none is a programming error, not a summary that nothing can read."""
    assert json.loads(reading.as_json({"b": 1.5, "a": None})) == {"b": 1.5, "a": None}
    assert reading.as_json({"name": "für"}) == '{\n  "name": "für"\n}\n'
    with pytest.raises(ValueError, match="Out of range float"):
        reading.as_json({"x": math.nan})


@pytest.mark.parametrize("resource", get_args(Word))
def test_whatever_is_left_behind_can_be_listed(tmp_path: Path, resource: Word) -> None:
    """Also what is billed: a campaign of RDS that runs or died is in every list."""
    stage = Stage.new(an_experiment(), tmp_path / "campaign")
    (tmp_path / "left").mkdir()
    stage.directory.journal.append(Created(resource=resource, name=str(tmp_path / "left")))
    stage.directory.close()
    (left,) = as_json("show", stage.path)["left_behind"]
    assert str(tmp_path / "left") in left
    with pytest.raises(LeftBehindError, match="left behind"):
        require_nothing_left(stage.path)
