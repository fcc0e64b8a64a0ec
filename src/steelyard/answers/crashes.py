"""What crash tests found: how much is lost, how far back, how often, and whether as promised."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np

from steelyard.core.crash import Crash, CrashMode, CrashTest
from steelyard.core.findings import Estimate
from steelyard.core.quantities import SECONDS, Computed, Named
from steelyard.core.redis import (
    Death,
    PromisedDeath,
    PromisedLoss,
    promised_by_replica,
    promised_commits,
    promised_loss,
)
from steelyard.core.wording import format_bytes, format_share
from steelyard.report import document as doc
from steelyard.report.keys import keys_of
from steelyard.report.texts import Texts
from steelyard.stats.intervals import highest_chance, ranked_median_interval

LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashSummary:
    """One mode under one kind of death."""

    mode: Annotated[str, "Name of the mode."]
    death: Annotated[Death, "How the server died."]
    crashes: Annotated[int, "Crashes that were taken."]
    losing: Annotated[int, "Crashes after which something acknowledged was gone."]
    unusable: Annotated[int, "Crashes after which the server failed to start or to read its data."]
    acknowledged: Annotated[
        float, Named("acknowledged_median"), "Acknowledged writes: median over crashes."
    ]
    lost: Annotated[Estimate, "Acknowledged writes that are gone: median over crashes."]
    most_lost: Annotated[int, "The same of the worst crash."]
    lost_s: Annotated[
        Estimate,
        "Seconds before the death of the oldest lost one, 0 without a loss: median over crashes.",
    ]
    most_lost_s: Annotated[float, "The same of the worst crash."]
    chance_at_most: Annotated[
        float, "Chance of a crash that loses something, by an exact upper bound at 95 %."
    ]
    whole_load: Annotated[
        int, "Crashes that lost all that was written: how far back it would go is not seen."
    ]
    uncounted: Annotated[
        int, "Writes that were answered while the power was being cut: no promise."
    ]
    uncounted_lost: Annotated[int, "Those of them that are gone."]
    promised: Annotated[PromisedDeath, Named("may_lose"), "Possible loss, by its settings."]
    is_broken: ClassVar = Computed(
        lambda mode: mode.promised.most_s == 0 and mode.losing > 0,
        Annotated[bool, Named("broken"), "Something is lost that must be kept."],
    )
    is_control: Annotated[
        bool,
        Named("control"),
        "Something was lost each time, and only because it was not flushed: so the test finds such"
        " a loss.",
    ]
    longest_window_s: Annotated[float | None, "The longest call that cut; null if it is not known."]
    tried: Annotated[int, Named("unflushed_left"), "Cuts before which a file was left unflushed."]
    took: Annotated[int, Named("unflushed_taken"), "Those of them that took it."]

    @property
    def is_shown_to_cut(self) -> bool:
        """Return whether each cut took a file with it that was not flushed."""
        return self.took == self.tried == self.crashes

    @property
    def exceeds(self) -> bool:
        """Return whether more seconds are lost than promised, where settings alone bound them."""
        if self.promised.on_top:
            return False
        return bool(self.promised.most_s) and self.most_lost_s > (self.promised.most_s or math.inf)


def crash_summaries(test: CrashTest) -> tuple[CrashSummary, ...]:
    """Return what is to be said of each mode and kind of death that was taken, modes first."""
    return tuple(
        _summary(mode, death, crashes, promised(test.engine, mode))
        for death in test.deaths
        for mode in test.modes
        if (crashes := test.of(mode.name, death))
    )


def promised(engine: str, mode: CrashMode) -> PromisedLoss:
    """Return what a mode promises by its settings."""
    if mode.replica is not None:
        return promised_by_replica()
    rule = promised_loss if engine == "redis" else promised_commits
    return rule(mode.asked)


def _summary(
    mode: CrashMode, death: Death, crashes: Sequence[Crash], promise: PromisedLoss
) -> CrashSummary:
    lost = [each.gone for each in crashes]
    lost_s = [each.oldest_lost_s or 0.0 for each in crashes]
    losing = sum(gone > 0 for gone in lost)
    return CrashSummary(
        mode=mode.name,
        death=death,
        crashes=len(crashes),
        losing=losing,
        unusable=sum(bool(each.unusable) for each in crashes),
        acknowledged=float(np.median([each.counted for each in crashes])),
        lost=_median(lost),
        most_lost=max(lost),
        lost_s=_median(lost_s),
        most_lost_s=max(lost_s),
        chance_at_most=highest_chance(losing, of=len(crashes), level=LEVEL),
        whole_load=sum(each.gone == each.counted for each in crashes),
        uncounted=sum(each.late for each in crashes) if death is Death.POWER else 0,
        uncounted_lost=sum(each.late_lost for each in crashes) if death is Death.POWER else 0,
        promised=promise.after(death),
        # What a kill loses for the same reason does not show that the cut cuts.
        is_control=death is Death.POWER
        and promise.power != promise.kill
        and losing == len(crashes),
        longest_window_s=max((w for c in crashes if (w := c.window_s) is not None), default=None),
        tried=sum(each.took_unflushed is not None for each in crashes),
        took=sum(each.took_unflushed is True for each in crashes),
    )


def _median(values: Sequence[float]) -> Estimate:
    found = ranked_median_interval(np.array(values, dtype=float), LEVEL)
    if not found.bounded:
        return Estimate(value=found.estimate)
    return Estimate(value=found.estimate, low=found.low, high=found.high)


_TITLES = {
    Death.KILL: "The server is killed (SIGKILL)",
    Death.POWER: "The power is cut",
}
_TEXTS: Final = Texts(__name__)


def crash_document(test: CrashTest, summaries: Sequence[CrashSummary]) -> doc.Document:
    """Return a whole test as a document."""
    taken = doc.count(len(test.crashes), "death")
    early = ", ended before its time" if test.interrupted else ""
    return doc.Document(
        title=f"What {test.server} loses when it dies",
        subtitle=f"{taken} under load, {len(test.modes)} configurations, seed {test.seed}{early}",
        sections=(
            *(_section(test, summaries, death) for death in test.deaths),
            doc.Section(anchor="method", title="How it was taken", blocks=tuple(_method(test))),
        ),
    )


def _section(test: CrashTest, summaries: Sequence[CrashSummary], death: Death) -> doc.Section:
    own = [each for each in summaries if each.death is death]
    blocks: tuple[doc.Block, ...] = (
        crash_table(summaries, death),
        *_findings(test, own),
        doc.Paragraph(text=_TEXTS.note(is_power=death is Death.POWER)),
    )
    return doc.Section(anchor=death.value, title=_TITLES[death], blocks=blocks)


_COUNT: Final = doc.Form(show="{:,.0f}".format)
_COUNTS: Final = doc.Form(show=partial(doc.with_interval, shown="{:,.0f}".format))
_TIME: Final = doc.Form(show="{:.2f}".format, unit=SECONDS, heading="s")
_TIMES: Final = replace(_TIME, show=partial(doc.with_interval, shown="{:,.2f}".format))
_CHANCE: Final = doc.Form(show=format_share)


def crash_table(summaries: Sequence[CrashSummary], death: Death) -> doc.Table:
    """Return the table of one kind of death, a row for each mode."""
    return doc.table_of(
        (each for each in summaries if each.death is death),
        doc.column("mode", lambda mode: mode.mode),
        doc.column("crashes", lambda mode: mode.crashes, doc.Form()),
        doc.column("with a loss", lambda mode: mode.losing, doc.Form(), key="losing"),
        doc.column(
            "acknowledged", lambda mode: mode.acknowledged, _COUNT, key="acknowledged_median"
        ),
        doc.column("lost writes", lambda mode: mode.lost, _COUNTS, key="lost"),
        doc.column("most", lambda mode: mode.most_lost, doc.WHOLE, key="most_lost", spare=True),
        doc.column("lost", lambda mode: mode.lost_s, _TIMES),
        doc.column("most", lambda mode: mode.most_lost_s, _TIME, key="most_lost"),
        doc.column("chance at most", lambda mode: mode.chance_at_most, _CHANCE, spare=True),
        doc.column("may lose", lambda mode: mode.promised.words),
        title=_TITLES[death],
        note=_TEXTS.reading(),
        tone=_tone,
        tone_column=2,
    )


def _tone(each: CrashSummary) -> doc.Tone:
    if each.is_broken:
        return doc.Tone.BAD
    return doc.Tone.GOOD if each.losing == 0 else doc.Tone.WARNING


def _findings(test: CrashTest, own: Sequence[CrashSummary]) -> Iterator[doc.Block]:
    """Yield what must not be overlooked, gravest first, then why each mode may lose what it may."""
    for mode in own:
        reason = doc.ended(mode.promised.reason)
        if mode.is_broken:
            text = _TEXTS.broken(
                mode=mode.mode, losing=mode.losing, crashes=mode.crashes, reason=reason
            )
            yield doc.Paragraph(text=text, tone=doc.Tone.ERROR)
        if mode.exceeds:
            most_s, promised_words = f"{mode.most_lost_s:.2f}", mode.promised.words
            text = _TEXTS.exceeds(
                mode=mode.mode, most_s=most_s, promised=promised_words, reason=reason
            )
            yield doc.Paragraph(text=text, tone=doc.Tone.WARNING)
        if mode.unusable:
            words = next(c.unusable for c in test.of(mode.mode, mode.death) if c.unusable)
            text = _TEXTS.unusable(
                mode=mode.mode, unusable=mode.unusable, crashes=mode.crashes, words=words
            )
            yield doc.Paragraph(text=text, tone=doc.Tone.WARNING)
    windows_s = [w for mode in own if (w := mode.longest_window_s) is not None]
    if windows_s:
        yield doc.Paragraph(text=_TEXTS.window(longest_ms=f"{1000 * max(windows_s):.1f}"))
    yield from _heirs(test, own)
    yield from _reach(test, own)
    late = ", ".join(
        f"{mode.mode} {mode.uncounted:,}, of which {mode.uncounted_lost:,} are gone"
        for mode in own
        if mode.uncounted_lost and mode.losing == 0
    )
    if late:
        yield doc.Paragraph(text=_TEXTS.uncounted(modes=late))
    items = tuple(
        f"{mode.mode}: {mode.promised.words}, because {mode.promised.reason}."
        f" Source: {doc.ended(mode.promised.source)}"
        for mode in own
    )
    yield doc.BulletList(lead="What each may lose, by its settings", items=items)


def _heirs(test: CrashTest, own: Sequence[CrashSummary]) -> Iterator[doc.Block]:
    """Yield how far the replicas were behind that took the place of a dead server."""
    for mode in own:
        crashes = test.of(mode.mode, mode.death)
        behind = [crash.behind_bytes for crash in crashes if crash.behind_bytes is not None]
        if behind:
            most = format_bytes(max(behind))
            text = _TEXTS.heir(mode=mode.mode, behind=most, crashes=len(behind))
            yield doc.Paragraph(text=text)


def _reach(test: CrashTest, own: Sequence[CrashSummary]) -> Iterator[doc.Block]:
    """Yield what the test cannot see: losses longer than the load, or any without a control."""
    for mode in own:
        if mode.took < mode.tried:
            cuts = mode.tried - mode.took
            text = _TEXTS.outlived(mode=mode.mode, cuts=cuts, tried=mode.tried)
            yield doc.Paragraph(text=text, tone=doc.Tone.WARNING)
    if whole := ", ".join(mode.mode for mode in own if mode.whole_load):
        yield doc.Paragraph(text=_TEXTS.whole(modes=whole))
    heirs = {mode.name for mode in test.modes if mode.replica is not None}
    kept = [mode for mode in own if mode.losing == 0 and mode.mode not in heirs]
    if not kept or own[0].death is not Death.POWER:
        return
    is_shown = all(mode.is_shown_to_cut for mode in kept)
    has_control = any(mode.is_control for mode in own)
    names = ", ".join(mode.mode for mode in kept)
    text = _TEXTS.kept(modes=names, is_shown=is_shown, has_control=has_control)
    is_open = not is_shown and not has_control
    yield doc.Paragraph(text=text, tone=doc.Tone.WARNING if is_open else doc.Tone.PLAIN)


def _method(test: CrashTest) -> Iterator[doc.Block]:
    each = f", {test.pipeline} at a time" if test.pipeline > 1 else ", one at a time"
    pairs = [
        ("server", test.server),
        ("data on", f"{test.volume}, Linux {test.kernel}"),
        ("load", f"{doc.count(test.clients, 'connection')} that write numbers{each}"),
        ("death", f"at a moment drawn by the seed, after at most {test.longest_s:g} s of load"),
    ]
    for mode in test.modes:
        settings = (f"{name} {value or '(empty)'}" for name, value in mode.settings)
        beside = (f"{name} {value or '(empty)'}" for name, value in mode.replica or ())
        replica = f"; its replica: {', '.join(beside)}" if mode.replica is not None else ""
        pairs.append((f"mode {mode.name}", ", ".join(settings) + replica))
    yield doc.KeyValues(title="", pairs=tuple(pairs))
    yield doc.Paragraph(text=_TEXTS.method())


def crash_json(summaries: Sequence[CrashSummary]) -> dict[str, doc.Json]:
    """Return what is derived, for programs; the crashes themselves are the test's own form."""
    return {
        "broken": any(mode.is_broken for mode in summaries),
        "summaries": [keys_of(mode) for mode in summaries],
    }
