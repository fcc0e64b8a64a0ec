"""The section that says what each configuration may lose, beside what its writes take."""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.answers.durability.compute import campaign_durability, measured_lags
from steelyard.answers.durability.rules import (
    ConfigurationDurability,
    Fate,
    Loss,
    Survival,
    WriteLatency,
)
from steelyard.answers.results import CampaignAnalysis, place_name
from steelyard.core.experiment import Experiment
from steelyard.core.quantities import PER_SECOND, SECONDS
from steelyard.core.target import EngineName
from steelyard.core.wording import format_bytes, format_latencies
from steelyard.report import document as doc
from steelyard.report.keys import load_data
from steelyard.report.texts import Texts

TITLE = "What may be lost of acknowledged commits"
REDIS_TITLE = "What may be lost of acknowledged writes"
_TEXTS: Final = Texts(__name__)
_COMMITS = "commits"  # as in the words of ``Fate``
_IN_WORDS = {
    Fate.KEPT: "nothing is lost",
    Fate.LAST: "the last commits may be lost",
    Fate.ALL: "everything may be lost",
    Fate.UNKNOWN: "not known",
}
_RATE: Final = doc.Form(show=doc.rate, unit=PER_SECOND, heading="1/s")
_LATENCY_MEAN: Final = doc.Form(show=doc.milliseconds, unit=SECONDS, heading="ms")
_BYTES: Final = doc.Form(show=format_bytes)
_WRITTEN_IN: Final = doc.Form(show=lambda seconds: format_latencies((seconds,))[0], unit=SECONDS)


def durability_section(analysis: CampaignAnalysis) -> tuple[doc.Section, ...]:
    """Return the table and the reasons; nothing where it is beside the question."""
    found = analysis.answer(campaign_durability)
    if not found:
        return ()
    redis = analysis.experiment.engine is EngineName.REDIS
    title = REDIS_TITLE if redis else TITLE
    note = _TEXTS.note(has_latencies=bool(found[0].latencies), is_redis=redis)
    noun = _noun(analysis.experiment)
    reasons = tuple(_reasons(alike, noun) for alike in _alike(found))
    table = _table(analysis.experiment, found, title)
    tested = (doc.Paragraph(text=_TEXTS.crash_test()),) if redis else ()
    lags = tuple(_lags(analysis))
    blocks: tuple[doc.Block, ...] = (table, *reasons, *lags, doc.Paragraph(text=note), *tested)
    return (doc.Section(anchor="durability", title=title, blocks=blocks),)


def _table(
    experiment: Experiment, found: Sequence[ConfigurationDurability], title: str
) -> doc.Table:
    redis, noun = experiment.engine is EngineName.REDIS, _noun(experiment)
    return doc.table_of(
        found,
        doc.column("configuration", lambda side: side.configuration),
        *(
            _write_column(place, place_name(experiment, latency.cell), latency, redis=redis)
            for place, latency in enumerate(found[0].latencies)
        ),
        *(_loss_column(found[0], places, noun) for places in _told_together(found, noun)),
        title=title,
        common=load_data(found[0].latencies[0].cell.load) if found[0].latencies else (),
    )


def _write_column(place: int, name: str, first: WriteLatency, *, redis: bool) -> doc.Cells:
    """Return what writes of one workload take: the rate of a Redis, or their latency."""
    return doc.column(
        name,
        lambda side: side.latencies[place].per_s if redis else side.latencies[place].mean_s,
        _RATE if redis else _LATENCY_MEAN,
        key=f"{first.cell.workload}{'' if redis else '_mean'}",
        spare=place > 0,
    )


def _loss_column(first: ConfigurationDurability, places: Sequence[int], noun: str) -> doc.Cells:
    """Return what failures of which the same is to be said may take, with the bound of each."""
    losses = [first.survivals[place].loss for place in places]
    return doc.Cells(
        doc.Column(name=_lost(losses)),
        lambda side: _told(side.survivals[places[0]], noun),
        lambda side: tuple(
            datum for place in places for datum in _loss_data(side.survivals[place])
        ),
    )


def _loss_data(survival: Survival) -> tuple[doc.Datum, ...]:
    key = survival.loss.replace(" ", "_")
    return (key, survival.known_as or survival.fate.value), (f"{key}_most_s", survival.seconds)


def _told_together(found: Sequence[ConfigurationDurability], noun: str) -> list[list[int]]:
    """Return the places of the failures in groups: a node, disk or site that cost the same."""
    groups: list[list[int]] = []
    columns: list[list[str]] = []
    for place, survival in enumerate(found[0].survivals):
        column = [_told(each.survivals[place], noun) for each in found]
        apart = survival.loss in (Loss.SERVER, Loss.POWER, Loss.NODE)
        if groups and not apart and column == columns[-1]:
            groups[-1].append(place)
        else:
            groups.append([place])
            columns.append(column)
    return groups


def _lost(losses: Sequence[Loss]) -> str:
    """Return what fails as a heading: ``disk lost``, ``node, disk or site lost``."""
    *others, last = (each.value for each in losses)
    names = ", ".join(each.removesuffix(" lost") for each in others)
    return f"{names} or {last}" if names else last


def _told(survival: Survival, noun: str) -> str:
    """Return what is lost, in a cell: with its bound where there is one."""
    if survival.known_as:
        return survival.known_as
    if survival.seconds is None:
        return survival.fate.value.replace(_COMMITS, noun)
    return f"last {survival.seconds:g} s"


def _alike(found: Sequence[ConfigurationDurability]) -> Iterator[list[ConfigurationDurability]]:
    """Yield the configurations in groups of which the same is to be said."""
    groups: dict[tuple[Survival, ...], list[ConfigurationDurability]] = {}
    for each in found:
        groups.setdefault(each.survivals, []).append(each)
    yield from groups.values()


def _reasons(alike: Sequence[ConfigurationDurability], noun: str) -> doc.BulletList:
    """Return why, once for all failures of which the same is to be said."""
    losses: dict[tuple[str, str, str], list[str]] = {}
    for each in alike[0].survivals:
        key = (_in_words(each, noun), each.reason, each.source)
        losses.setdefault(key, []).append(each.loss.value)
    items = tuple(
        f"{doc.enumeration(tuple(names))} ({words}): {doc.ended(reason)}"
        + (f" Source: {doc.ended(source)}" if source else "")
        for (words, reason, source), names in losses.items()
    )
    return doc.BulletList(
        lead=doc.enumeration(tuple(each.configuration for each in alike)), items=items
    )


def _in_words(survival: Survival, noun: str) -> str:
    if survival.known_as:
        return f"{survival.known_as} may be lost"
    if survival.seconds is None:
        return _IN_WORDS[survival.fate].replace(_COMMITS, noun)
    return f"the last {survival.seconds:g} s of {noun} may be lost"


def _lags(analysis: CampaignAnalysis) -> Iterator[doc.Table]:
    """Yield how far replicas were behind, which is what a death would have cost at that moment."""
    experiment, lags = analysis.experiment, analysis.answer(measured_lags) or ()
    if not lags:
        return
    yield doc.table_of(
        lags,
        doc.column("configuration", lambda lag: lag.configuration),
        doc.Cells(
            doc.Column(name="under"),
            lambda lag: place_name(experiment, lag.cell),
            lambda lag: (("workload", lag.cell.workload), *load_data(lag.cell.load)),
        ),
        doc.column("runs", lambda lag: lag.runs, doc.Form()),
        doc.column("usual most", lambda lag: lag.usual_bytes, _BYTES, key="usual_bytes"),
        doc.column("is written in", lambda lag: lag.usual_s, _WRITTEN_IN, key="usual"),
        doc.column("most", lambda lag: lag.most_bytes, _BYTES, key="most_bytes"),
        title="How far replicas were behind under load",
        note=_TEXTS.lag(by_primary=any(not lag.compared for lag in lags)),
    )


def _noun(experiment: Experiment) -> str:
    """Return what is acknowledged, in the plural."""
    return "writes" if experiment.engine is EngineName.REDIS else _COMMITS
