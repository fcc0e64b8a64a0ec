"""What Redis may lose, in reports: beside its speed, with seconds where there is a bound."""

from dataclasses import replace

from fakes.analyses import quick
from steelyard.answers.durability.compute import campaign_durability
from steelyard.answers.durability.results import (
    ConfigurationDurability,
    Fate,
    Loss,
    Survival,
    WriteLatency,
)
from steelyard.answers.durability.section import durability_json
from steelyard.answers.report import build_document
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.schedule import CellKey
from steelyard.core.target import EngineName
from steelyard.report.html import render_markdown
from steelyard.report.terminal import render_terminal


def _survival(loss: Loss, seconds: float | None) -> Survival:
    fate = Fate.ALL if seconds is None and loss is not Loss.NODE else Fate.LAST
    return Survival(loss=loss, fate=fate, reason="so it is", source="a page", seconds=seconds)


def _analysis() -> CampaignAnalysis:
    base = quick()
    key = CellKey(workload="set", load=base.experiment.loads[0])
    found = ConfigurationDurability(
        configuration="everysec",
        survivals=tuple(_survival(loss, 2.0 if loss is Loss.POWER else None) for loss in Loss),
        latencies=(WriteLatency(cell=key, mean_s=0.001, per_s=23456.0),),
    )
    experiment = replace(base.experiment, engine=EngineName.REDIS)
    return replace(base, experiment=experiment).with_answer(campaign_durability, (found,))


def test_the_table_has_throughput_and_seconds() -> None:
    """A row reads: so fast, and the last two seconds may be gone when the power fails."""
    text = render_markdown(build_document(_analysis()))
    assert "What may be lost of acknowledged writes" in text
    assert "| everysec | 23,456 | everything | last 2 s | last writes |" in text
    assert "power lost (the last 2 s of writes may be lost): so it is." in text


def test_the_test_that_measures_it_is_named() -> None:
    """Who wants to see it lose is sent to the crash test, and told what a kill does not show."""
    text = render_markdown(build_document(_analysis()))
    assert "crash-test" in text
    assert "the kernel's cache survives it" in text


def test_the_terminal_shows_the_table() -> None:
    """The short report has it, too."""
    assert "last 2 s" in render_terminal(build_document(_analysis()))


def test_the_summary_has_the_seconds() -> None:
    """A program reads the bound as a number; where there is none there is no key."""
    (told,) = durability_json(_analysis())["durability"]
    assert told["may_lose"]["power lost"]["seconds"] == 2.0
    assert "seconds" not in told["may_lose"]["server killed"]


def test_the_summary_has_the_throughput_that_the_page_shows() -> None:
    """What stands beside the losses is there for programs, too."""
    (told,) = durability_json(_analysis())["durability"]
    assert [(each["mean_s"], each["per_s"]) for each in told["write_latency"]] == [(0.001, 23456.0)]


def test_a_bound_in_words_stands_in_the_cell_the_reason_and_the_summary() -> None:
    """Seconds alone would promise too much of a snapshot."""
    base = _analysis()
    words = "60 s of writes and the time of two saves"
    told = tuple(
        replace(s, known_as=words, seconds=60.0)
        for s in base.answer(campaign_durability)[0].survivals
    )
    found = replace(base.answer(campaign_durability)[0], survivals=told)
    text = render_markdown(build_document(base.with_answer(campaign_durability, (found,))))
    assert f"| everysec | 23,456 | {words} |" in text
    assert f"({words} may be lost)" in text
    (summary,) = durability_json(base.with_answer(campaign_durability, (found,)))["durability"]
    assert summary["may_lose"]["power lost"]["words"] == words
