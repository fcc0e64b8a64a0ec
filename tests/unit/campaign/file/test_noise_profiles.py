"""Noise profiles in the cache: found for the same place and work, never in the way."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakes import analyses
from fakes.host import FakeHost
from steelyard.answers.noise.compute import analyse_noise
from steelyard.answers.results import CampaignAnalysis
from steelyard.campaign.design.noise_profiles import (
    content_of,
    keep_profile,
    place_of,
    profile_for,
)
from steelyard.core.campaign import ASSUMED_NOISE, NoiseOrigin, TurnNoise
from steelyard.core.experiment import Experiment, Script, Workload
from steelyard.core.schedule import Mode
from steelyard.core.target import CloudNativePgTarget, EndpointTarget

TURNS = TurnNoise(start_sd=0.04, connection_sd=None, second_sd=0.06)
HOST = FakeHost(files={"/proc/meminfo": "MemTotal: 8388608 kB\n", "/proc/cpuinfo": ""})
OTHER_HOST = FakeHost(files={"/proc/meminfo": "MemTotal: 16777216 kB\n", "/proc/cpuinfo": ""})


def measured(campaign: str = "one", at: float = 1000.0) -> CampaignAnalysis:
    """Return a noise measurement in which the parts of `reads` are known, those of `writes` not."""
    analysis = replace(analyses.noise_floor(), campaign_id=campaign, started_at=at)
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    reads, writes = floor.workloads
    assert reads.noise is not None
    known = replace(reads, noise=replace(reads.noise, second_sd=0.05, autocorrelation=0.5))
    return analysis.with_answer(analyse_noise, replace(floor, workloads=(known, writes)))


def with_both(analysis: CampaignAnalysis, second_sd: float) -> CampaignAnalysis:
    """Return the measurement with the parts of both workloads."""
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    reads, writes = floor.workloads
    assert reads.noise is not None
    noise = replace(reads.noise, second_sd=second_sd)
    both = (
        replace(reads, noise=replace(noise, workload="reads")),
        replace(writes, noise=replace(noise, workload="writes")),
    )
    return analysis.with_answer(analyse_noise, replace(floor, workloads=both))


def on_endpoint(experiment: Experiment, host: str) -> Experiment:
    """Return the experiment on a server that is there already."""
    target = EndpointTarget(host=host)
    configurations = tuple(replace(each, target=target) for each in experiment.configurations)
    return replace(experiment, configurations=configurations)


def test_what_was_kept_is_found() -> None:
    """With its parts, its costs, its campaign and its place."""
    analysis = measured()
    path = keep_profile(analysis, HOST)
    assert path is not None
    profile = profile_for(analysis.experiment, HOST)
    assert profile.origin is NoiseOrigin.MEASURED
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    assert profile.workloads == (floor.workloads[0].noise,)
    assert analysis.plan is not None
    assert (profile.switch, profile.blocks) == (analysis.plan.switch, analysis.blocks)
    assert profile.warm_up_s == analysis.plan.warm_up.warm_up_s
    assert (profile.campaign_id, profile.measured_at) == ("one", 1000.0)
    assert "8.0 GiB" in profile.place


def test_without_a_measurement_the_noise_is_assumed() -> None:
    """And it says so; also on the machine that runs the test."""
    assert profile_for(measured().experiment, HOST) is ASSUMED_NOISE
    assert profile_for(measured().experiment) is ASSUMED_NOISE


def test_workloads_are_told_by_what_they_do() -> None:
    """A renamed workload is the same, under its new name; another scale is another workload."""
    keep_profile(measured(), HOST)
    experiment = measured().experiment
    reads = experiment.workload("reads")
    renamed = replace(experiment, workloads=(replace(reads, name="lookups"),))
    assert profile_for(renamed, HOST).workloads[0].workload == "lookups"
    larger = replace(experiment, workloads=(replace(reads, scale=999),))
    assert profile_for(larger, HOST) is ASSUMED_NOISE


def test_scripts_count_by_text_and_weight() -> None:
    """Not by the names of their files."""
    one = Workload(name="o", scripts=(Script(name="a.sql", text="SELECT 1", weight=2),))
    named = replace(one, scripts=(replace(one.scripts[0], name="b.sql"),))
    assert content_of(one) == content_of(named)
    for changed in (replace(one.scripts[0], weight=3), replace(one.scripts[0], text="SELECT 2")):
        assert content_of(replace(one, scripts=(changed,))) != content_of(one)


def test_another_place_has_another_noise() -> None:
    """Another machine, another server, another endpoint: nothing carries over."""
    keep_profile(measured(), HOST)
    experiment = measured().experiment
    assert profile_for(experiment, OTHER_HOST) is ASSUMED_NOISE
    assert profile_for(on_endpoint(experiment, "db1"), HOST) is ASSUMED_NOISE
    places = {
        place_of(on_endpoint(experiment, "db1"), HOST),
        place_of(on_endpoint(experiment, "db2"), HOST),
        place_of(experiment, HOST),
        place_of(experiment, OTHER_HOST),
    }
    assert len(places) == 4


def test_the_place_is_that_of_the_baseline() -> None:
    """One on this machine has its noise, also beside a Cluster."""
    experiment = measured().experiment
    one, other = experiment.configurations
    beside = replace(experiment, configurations=(one, replace(other, target=CloudNativePgTarget())))
    assert place_of(beside, HOST) == place_of(experiment, HOST)
    assert "Kubernetes" in place_of(replace(beside, baseline=other.name), HOST)


def test_the_newest_counts() -> None:
    """Also when its name sorts before the older one's."""
    for campaign, at, second_sd in (("b", 1000.0, 0.01), ("a", 2000.0, 0.02)):
        keep_profile(with_both(measured(campaign, at), second_sd), HOST)
    assert profile_for(measured().experiment, HOST).of("writes").second_sd == 0.02


def test_one_that_covers_more_workloads_comes_first() -> None:
    """A newer one that knows only one of them does not hide the other's noise."""
    keep_profile(with_both(measured("old", 1000.0), 0.01), HOST)
    keep_profile(measured("new", 2000.0), HOST)
    assert profile_for(measured().experiment, HOST).campaign_id == "old"


def in_turns(campaign: str, at: float) -> CampaignAnalysis:
    """Return the same of an A/A campaign in turns."""
    analysis = with_both(measured(campaign, at), 0.03)
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    assert analysis.plan is not None
    noises = tuple(
        replace(each, noise=replace(each.noise, turns=TURNS)) if each.noise is not None else each
        for each in floor.workloads
    )
    in_turns = replace(floor, mode=Mode.ALTERNATING, workloads=noises, block_s=24.0)
    planned = replace(analysis, plan=replace(analysis.plan, mode=Mode.ALTERNATING))
    return planned.with_answer(analyse_noise, in_turns)


def test_a_profile_of_the_planned_design_comes_before_a_newer_one() -> None:
    """One of the other design is better than none, and says that it is one."""
    experiment = measured().experiment
    keep_profile(with_both(measured("starts", 1000.0), 0.01), HOST)
    of_starts = profile_for(experiment, HOST, in_turns=True)
    assert (of_starts.campaign_id, of_starts.is_of_turns) == ("starts", False)
    keep_profile(in_turns("turns", 2000.0), HOST)
    keep_profile(with_both(measured("later", 3000.0), 0.01), HOST)
    of_turns = profile_for(experiment, HOST, in_turns=True)
    assert (of_turns.campaign_id, of_turns.is_of_turns) == ("turns", True)
    assert profile_for(experiment, HOST).campaign_id == "later"


def test_the_parts_of_turns_are_kept() -> None:
    """With the design, and with what a block took."""
    analysis = in_turns("turns", 2000.0)
    keep_profile(analysis, HOST)
    profile = profile_for(analysis.experiment, HOST, in_turns=True)
    assert profile.of("reads").turns == TURNS
    assert (profile.mode, profile.block_s) == (Mode.ALTERNATING, 24.0)


@pytest.mark.parametrize(
    ("found", "instead"),
    [('"start_sd": 0.04', '"start_sd": -0.04'), ('"format": 2\n}', '"format": 1\n}')],
    ids=["a deviation below 0", "the form before turns"],
)
def test_what_no_profile_in_turns_can_be_is_passed_over(found: str, instead: str) -> None:
    """A plan then goes by the assumed noise."""
    analysis = in_turns("turns", 2000.0)
    path = keep_profile(analysis, HOST)
    assert path is not None
    text = path.read_text("utf-8")
    assert found in text
    path.write_text(text.replace(found, instead), "utf-8")
    assert profile_for(analysis.experiment, HOST, in_turns=True) is ASSUMED_NOISE


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("{", ""),
        ('"format": 2', '"format": 99'),
        ('"second_sd": 0.05', '"second_sd": -0.05'),
        ('"second_sd": 0.05', '"second_sd": NaN'),
        ('"second_sd": 0.05', '"second_sd": "five"'),
        ('"autocorrelation": 0.5', '"autocorrelation": 5'),
        ('"contents": [', '"contents": ["x",'),
    ],
)
def test_a_damaged_file_is_passed_over(was: str, becomes: str) -> None:
    """Whatever is wrong with it, the noise is the assumed one, and there is no traceback."""
    path = keep_profile(measured(), HOST)
    assert path is not None
    text = path.read_text()
    assert was in text
    path.write_text(text.replace(was, becomes, 1) if becomes else "")
    assert profile_for(measured().experiment, HOST) is ASSUMED_NOISE


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"[]", b"null", b"{}", b'{"profile": {}}'])
def test_a_foreign_file_is_passed_over(tmp_path: Path, content: bytes) -> None:
    """Anything may lie in the cache; the sound profile beside it is used."""
    keep_profile(measured(), HOST)
    (tmp_path / "cache" / "noise" / "foreign.json").write_bytes(content)
    assert profile_for(measured().experiment, HOST).origin is NoiseOrigin.MEASURED


def test_other_campaigns_keep_nothing() -> None:
    """Neither a comparison nor a noise measurement without parts leaves a file."""
    assert keep_profile(analyses.quick(), HOST) is None
    analysis = measured()
    floor = analysis.answer(analyse_noise)
    assert floor is not None
    empty = analysis.with_answer(analyse_noise, replace(floor, workloads=()))
    assert keep_profile(empty, HOST) is None
