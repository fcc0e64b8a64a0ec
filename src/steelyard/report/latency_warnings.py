"""What nobody may miss: throughput that became better while the slowest transactions did not."""

from collections.abc import Iterator

from steelyard.analysis.latency_results import LatencyChange
from steelyard.analysis.results import CampaignAnalysis, Comparison
from steelyard.model.verdicts import Verdict
from steelyard.model.work_words import MANY
from steelyard.report.document import Paragraph, Tone
from steelyard.report.formats import effect_interval, effect_value
from steelyard.report.wording import cell_name, contestants, durability_word

_TOLD = 0.99
_AGAINST = {Verdict.FASTER: "higher", Verdict.SLOWER: "lower"}


def tail_warnings(analysis: CampaignAnalysis) -> Iterator[Paragraph]:
    """Yield a sentence per headline whose p99 clearly went the other way than its throughput."""
    for headline in analysis.headlines:
        for verdict, word in _AGAINST.items():
            cells = [
                change
                for change in _tails_of(analysis, headline)
                if change.called == word and _verdict_at(analysis, headline, change) is verdict
            ]
            if cells:
                yield Paragraph(
                    text=_sentence(analysis, headline, verdict, cells), tone=Tone.WARNING
                )


def _tails_of(analysis: CampaignAnalysis, headline: Comparison) -> Iterator[LatencyChange]:
    for change in analysis.latency.changes if analysis.latency is not None else ():
        if change.share == _TOLD and _is_of(headline, change):
            yield change


def _is_of(headline: Comparison, other: LatencyChange | Comparison) -> bool:
    return (headline.workload, headline.baseline, headline.treatment) == (
        *(other.workload, other.baseline, other.treatment),
    )


def _verdict_at(
    analysis: CampaignAnalysis, headline: Comparison, change: LatencyChange
) -> Verdict | None:
    """Return the cell's own verdict on throughput, else that over all loads."""
    for cell in analysis.comparisons:
        if cell.load == change.load and _is_of(headline, cell) and cell.verdict.decided:
            return cell.verdict
    return None if headline.depends_on_load else headline.verdict


def _sentence(
    analysis: CampaignAnalysis, headline: Comparison, verdict: Verdict, cells: list[LatencyChange]
) -> str:
    told = "; ".join(
        f"{effect_value(cell.change)} {effect_interval(cell.change)} at"
        f" {cell_name(analysis.experiment, cell.load)}"
        for cell in cells
    )
    ours, theirs = contestants(headline)
    word = "longer" if verdict is Verdict.FASTER else "shorter"
    return (
        f"{headline.workload}: {ours} is {verdict.value}{durability_word(headline)} than {theirs},"
        f" but its slowest {MANY} take {word}: p99 latency {told}."
    )
