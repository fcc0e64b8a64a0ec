"""A crash test as a document, and as JSON."""

from collections.abc import Iterator, Sequence

from steelyard.answers.crashes.compute import CrashSummary
from steelyard.core.crash import CrashTest
from steelyard.core.findings import Estimate
from steelyard.core.persistence import Death
from steelyard.core.units import format_bytes, format_share
from steelyard.report.document import (
    Block,
    BulletList,
    Column,
    Document,
    KeyValues,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    number_column,
)
from steelyard.report.formats import bounds, count, ended
from steelyard.report.json_values import Json, interval, number

_TITLES = {
    Death.KILL: "The server is killed (SIGKILL)",
    Death.POWER: "The power is cut",
}
_NOTES = {
    Death.KILL: "The kernel and its cache live on: what the server had written to a file before it"
    " answered is there, flushed or not. So a kill says next to nothing of what a power cut costs.",
    Death.POWER: "What was not flushed is gone: the file system is shut down under the running"
    " server without a flush of its journal, the server is killed, and the file system is mounted"
    " again. A loop device keeps what the kernel has written to it: disks that answer a flush"
    " before they have it, or lose their own cache, lose more than this shows.",
}
_READING = (
    "Medians over crashes; in brackets their exact intervals at 95 %, from 6 crashes on. Seconds"
    " are those before the death at which the oldest lost write was acknowledged, 0 where none is"
    " lost. The chance is the exact upper bound at 95 % of a crash that loses something."
)
_COLUMNS = (
    Column(name="mode"),
    number_column("crashes"),
    number_column("with a loss"),
    number_column("acknowledged"),
    number_column("lost writes"),
    number_column("most", spare=True),
    number_column("lost", "s"),
    number_column("most", "s"),
    number_column("chance at most", spare=True),
    Column(name="may lose"),
)


def crash_document(test: CrashTest, summaries: Sequence[CrashSummary]) -> Document:
    """Return a whole test as a document."""
    return Document(
        title=f"What {test.server} loses when it dies",
        subtitle=_subtitle(test),
        sections=(
            *(_section(test, summaries, death) for death in test.deaths),
            Section(anchor="method", title="How it was taken", blocks=tuple(_method(test))),
        ),
    )


def _subtitle(test: CrashTest) -> str:
    taken = count(len(test.crashes), "death")
    early = ", ended before its time" if test.interrupted else ""
    return f"{taken} under load, {len(test.modes)} configurations, seed {test.seed}{early}"


def _section(test: CrashTest, summaries: Sequence[CrashSummary], death: Death) -> Section:
    own = [each for each in summaries if each.death is death]
    blocks: tuple[Block, ...] = (
        crash_table(summaries, death),
        *_findings(test, own),
        Paragraph(text=_NOTES[death]),
    )
    return Section(anchor=death.value, title=_TITLES[death], blocks=blocks)


def crash_table(summaries: Sequence[CrashSummary], death: Death) -> Table:
    """Return the table of one kind of death, a row for each mode."""
    rows = tuple(_row(each) for each in summaries if each.death is death)
    return Table(title=_TITLES[death], columns=_COLUMNS, rows=rows, tone_column=2, note=_READING)


def _row(each: CrashSummary) -> Row:
    tone = Tone.BAD if each.is_broken else Tone.GOOD if each.losing == 0 else Tone.WARNING
    cells = (
        each.mode,
        str(each.crashes),
        str(each.losing),
        f"{each.acknowledged:,.0f}",
        _with_interval(each.lost, 0),
        f"{each.most_lost:,}",
        _with_interval(each.lost_s, 2),
        f"{each.most_lost_s:.2f}",
        format_share(each.chance_at_most),
        each.promised.words,
    )
    return Row(cells=cells, tone=tone)


def _with_interval(estimate: Estimate, digits: int) -> str:
    pair = bounds(estimate)
    value = f"{estimate.value:,.{digits}f}"
    if pair is None:
        return value
    return f"{value} [{pair[0]:,.{digits}f}, {pair[1]:,.{digits}f}]"


def _findings(test: CrashTest, own: Sequence[CrashSummary]) -> Iterator[Block]:
    """Yield what must not be overlooked, gravest first, then why each mode may lose what it may."""
    for each in own:
        if each.is_broken:
            text = (
                f"{each.mode} promises that nothing is lost, and {each.losing} of {each.crashes}"
                f" crashes lost something: {ended(each.promised.reason)}"
            )
            yield Paragraph(text=text, tone=Tone.ERROR)
        if each.exceeds:
            text = (
                f"{each.mode} lost {each.most_lost_s:.2f} s in one crash, more than"
                f" {each.promised.words}: {ended(each.promised.reason)}"
            )
            yield Paragraph(text=text, tone=Tone.WARNING)
        if each.unusable:
            words = next(c.unusable for c in test.of(each.mode, each.death) if c.unusable)
            text = (
                f"After {each.unusable} of {each.crashes} crashes of {each.mode} the server did not"
                f" come back with its data; everything counts as lost. It said: {words}"
            )
            yield Paragraph(text=text, tone=Tone.WARNING)
    windows = [w for each in own if (w := each.longest_window_s) is not None]
    if windows:
        text = (
            f"The call that cuts took {max(windows) * 1000:.1f} ms at most. A write counts that was"
            " answered before it began; none that was answered during it or after."
        )
        yield Paragraph(text=text)
    yield from _heirs(test, own)
    yield from _reach(test, own)
    late = [each for each in own if each.uncounted_lost and each.losing == 0]
    if late:
        told = ", ".join(
            f"{each.mode} {each.uncounted:,}, of which {each.uncounted_lost:,} are gone"
            for each in late
        )
        yield Paragraph(
            text="Not counted are writes that were answered while the file system was being shut"
            f" down: {told}. The power would have stopped the server at that moment, too; XFS may"
            " end a flush without an error when the shutdown has dropped what it waited for."
        )
    items = tuple(
        f"{each.mode}: {each.promised.words}, because {each.promised.reason}."
        f" Source: {ended(each.promised.source)}"
        for each in own
    )
    yield BulletList(lead="What each may lose, by its settings", items=items)


def _heirs(test: CrashTest, own: Sequence[CrashSummary]) -> Iterator[Block]:
    """Yield how far the replicas were behind that took the place of a dead server."""
    for each in own:
        crashes = test.of(each.mode, each.death)
        seen = [one.behind_bytes for one in crashes if one.behind_bytes is not None]
        if seen:
            text = (
                f"{each.mode}: the server stays down, and its replica is promoted and asked for"
                " every number once it has taken what had reached it. Under load it was behind by"
                f" at most {format_bytes(max(seen))} of the stream (the worst of {len(seen)}"
                " crashes). Both are on one machine: a network between them keeps more back, and a"
                " machine that dies does not send what its kernel still holds."
            )
            yield Paragraph(text=text)


def _reach(test: CrashTest, own: Sequence[CrashSummary]) -> Iterator[Block]:
    """Yield what the test cannot see: losses longer than the load, or any without a control."""
    for each in own:
        if each.took < each.tried:
            text = (
                f"{each.mode}: a file that was not flushed outlived {each.tried - each.took} of"
                f" {each.tried} cuts: these did not cut, and what they kept says nothing."
            )
            yield Paragraph(text=text, tone=Tone.WARNING)
    whole = [each.mode for each in own if each.whole_load]
    if whole:
        text = (
            f"{', '.join(whole)}: some crashes lost all that had been written, so the seconds are"
            " those that the load had lasted; a longer load would lose more."
        )
        yield Paragraph(text=text)
    heirs = {mode.name for mode in test.modes if mode.replica is not None}
    kept = [each for each in own if each.losing == 0 and each.mode not in heirs]
    if not kept or own[0].death is not Death.POWER:
        return
    names = ", ".join(each.mode for each in kept)
    if all(each.is_shown_to_cut for each in kept):
        text = (
            f"{names}: nothing was lost, in cuts each of which took a file with it that had been"
            " written just before and not been flushed."
        )
        yield Paragraph(text=text)
        return
    if any(each.is_control for each in own):
        text = f"{names}: nothing was lost, in cuts that other modes never survived unharmed."
        yield Paragraph(text=text)
        return
    text = (
        f"{names}: nothing was lost, and no mode was taken along that lost what it had not flushed"
        " in each of its cuts: that these cuts find such a loss is not shown."
    )
    yield Paragraph(text=text, tone=Tone.WARNING)


def _method(test: CrashTest) -> Iterator[Block]:
    each = f", {test.pipeline} at a time" if test.pipeline > 1 else ", one at a time"
    pairs = [
        ("server", test.server),
        ("data on", f"{test.volume}, Linux {test.kernel}"),
        ("load", f"{count(test.clients, 'connection')} that write numbers{each}"),
        ("death", f"at a moment drawn by the seed, after at most {test.longest_s:g} s of load"),
    ]
    for mode in test.modes:
        settings = (f"{name} {value or '(empty)'}" for name, value in mode.settings)
        beside = (f"{name} {value or '(empty)'}" for name, value in mode.replica or ())
        replica = f"; its replica: {', '.join(beside)}" if mode.replica is not None else ""
        pairs.append((f"mode {mode.name}", ", ".join(settings) + replica))
    yield KeyValues(title="", pairs=tuple(pairs))
    yield Paragraph(
        text="A write counts as acknowledged when the client has its answer; with a power cut only"
        " before the cut began, as a real one would have stopped the server, too. After each"
        " death the server is started again on what is left, and every number is asked for. Each"
        " crash has fresh data; modes take turns in an order drawn anew in each round, in which all"
        " live equally long."
    )


def crash_json(summaries: Sequence[CrashSummary]) -> dict[str, Json]:
    """Return what is derived, for programs; the crashes themselves are the test's own form."""
    return {
        "broken": any(each.is_broken for each in summaries),
        "summaries": [_summary(each) for each in summaries],
    }


def _summary(each: CrashSummary) -> dict[str, Json]:
    return {
        "mode": each.mode,
        "death": each.death.value,
        "crashes": each.crashes,
        "losing": each.losing,
        "unusable": each.unusable,
        "acknowledged_median": number(each.acknowledged),
        "lost": interval(each.lost),
        "most_lost": each.most_lost,
        "lost_s": interval(each.lost_s),
        "most_lost_s": number(each.most_lost_s),
        "chance_at_most": number(each.chance_at_most),
        "whole_load": each.whole_load,
        "uncounted": each.uncounted,
        "uncounted_lost": each.uncounted_lost,
        "may_lose": {
            "most_s": number(each.promised.most_s),
            "words": each.promised.words,
            "reason": each.promised.reason,
            "source": each.promised.source,
        },
        "broken": each.is_broken,
        "control": each.is_control,
        "longest_window_s": number(each.longest_window_s),
        "unflushed_left": each.tried,
        "unflushed_taken": each.took,
    }
