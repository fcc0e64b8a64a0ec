"""What an acknowledged commit or write survives by the rules, and what crash tests found of it.

The rules tell the worst case of what the configuration allows, under one failure at a time, by
what holds a copy and since when. That disks keep what they have flushed, and that nobody restores
a backup, is taken for granted. Of a crash test they tell how much is lost, how far back, how often,
and whether that is as promised.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np

from steelyard.answers.durability.results import BY_WEIGHT, Fate, Loss, Survival
from steelyard.core.crash import Crash, CrashMode, CrashTest
from steelyard.core.findings import Estimate, Fact
from steelyard.core.kubernetes import class_in, is_longhorn, is_node_bound, replicas
from steelyard.core.quantities import SECONDS, Computed, Named
from steelyard.core.redis import (
    Death,
    PromisedDeath,
    PromisedLoss,
    promised_by_replica,
    promised_commits,
    promised_loss,
)
from steelyard.core.stack import StorageClassFacts
from steelyard.core.target import RedisKubernetesTarget, RedisLocalTarget, Target
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


_WAL: Final = "PostgreSQL documentation, 'Write Ahead Log'"
_ASYNCHRONOUS: Final = "PostgreSQL documentation, 'Asynchronous Commit'"
_REPLICATION: Final = "CloudNativePG documentation, 'Replication'"
_FAILOVER: Final = "CloudNativePG documentation, 'Automated failover'"
_LONGHORN: Final = "Longhorn documentation, 'Architecture and Concepts', 'Storage Class Parameters'"
_CACHES: Final = "longhorn/longhorn#4504"
_VOLUMES: Final = "Kubernetes documentation, 'Volumes'"
_APART: Final = f"{_REPLICATION}, 'Scheduling'"
_UNSAFE: Final = {
    "fsync": "nothing is flushed, and the whole database may be damaged",
    "full_page_writes": "a page that was torn in the middle of a write cannot be repaired",
}

NO_WAIT: Final = frozenset({"off", "local"})  # values of synchronous_commit that ask no standby


class Keeper(StrEnum):
    """Who made what lies below the server."""

    MACHINE = "this machine"
    CLUSTER = "a Cluster of Steelyard's"
    OTHERS = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class Footing:
    """What an acknowledged commit of a configuration rests on.

    Attributes:
        settings: In force, by name; what is missing has PostgreSQL's default.
        standbys: Beside the primary.
        waits: ``required`` or ``preferred``, where commits wait for a standby; empty: they do not.
        why_not: Then why not.
        apart: Instances may not share a node.
        volumes: Storage classes of the data and of WAL; None where one was not looked up. At
            least one for a Cluster.
    """

    keeper: Keeper
    settings: Mapping[str, str] = field(default_factory=dict)
    standbys: int = 0
    waits: str = ""
    why_not: str = ""
    apart: bool = False
    volumes: Sequence[StorageClassFacts | None] = ()


def survivals(footing: Footing) -> tuple[Survival, ...]:
    """Return what an acknowledged commit survives, one answer for each failure."""
    return tuple(_survival(footing, loss) for loss in Loss)


def _survival(footing: Footing, loss: Loss) -> Survival:
    if loss is Loss.SITE:
        if footing.keeper is Keeper.OTHERS:
            return _elsewhere(footing, Loss.SITE)
        why = "no copy outside: neither a backup nor a replica elsewhere was made"
        return Survival(loss=Loss.SITE, fate=Fate.ALL, reason=why)
    if footing.standbys:
        return _with_standby(footing, loss)
    if loss in (Loss.SERVER, Loss.POWER):
        return _on_own_volume(footing, loss)
    if footing.keeper is Keeper.CLUSTER:
        return _without_its_node(footing, loss)
    return _elsewhere(footing, loss)


def _on_own_volume(footing: Footing, loss: Loss) -> Survival:
    """Return what comes back when the same server starts again on the same data."""
    if loss is not Loss.SERVER:
        for name, why in _UNSAFE.items():
            if footing.settings.get(name, "on") == "off":
                return Survival(
                    loss=loss, fate=Fate.ALL, reason=f"{name} = off: {why}", source=_WAL
                )
    if footing.settings.get("synchronous_commit", "on") == "off":
        return Survival(
            loss=loss,
            fate=Fate.LAST,
            reason="synchronous_commit = off: a commit is acknowledged up to"
            f" {_lag(footing)} before its WAL is written",
            source=_ASYNCHRONOUS,
        )
    if loss is Loss.SERVER:
        why = "WAL is with the kernel before a commit is acknowledged"
        return Survival(loss=loss, fate=Fate.KEPT, reason=why, source=_WAL)
    return _flushed(footing, loss)


def _lag(footing: Footing) -> str:
    delay = footing.settings.get("wal_writer_delay", "")  # ms, as the server shows it
    return f"{3 * int(delay)} ms" if delay.isdigit() else "three times wal_writer_delay"


def _flushed(footing: Footing, loss: Loss) -> Survival:
    why, source = "WAL is flushed before a commit is acknowledged", _WAL
    if any(each is not None and is_longhorn(each) for each in footing.volumes):
        why += "; Longhorn passes over the kernel's cache, not that of the disk"
        source = f"{_WAL}; {_CACHES}"
    return Survival(loss=loss, fate=Fate.KEPT, reason=why, source=source)


def _without_its_node(footing: Footing, loss: Loss) -> Survival:
    """Return what is left of a single instance whose node or disk is gone: the worst volume's."""
    left = _on_own_volume(footing, Loss.POWER)
    found = [volume_survival(each, loss, left) for each in footing.volumes]
    return max(found, key=lambda each: BY_WEIGHT.index(each.fate))


def volume_survival(each: StorageClassFacts | None, loss: Loss, left: Survival) -> Survival:
    """Return what is left of a single instance on one volume when its node or disk is gone.

    Args:
        each: Class of the volume; None where it was not looked up.
        loss: Of the node or the disk.
        left: What the volume holds when the power fails: a copy elsewhere holds no more.
    """
    if each is None:
        why, source = "where its volume lies is not in the record", ""
    elif is_node_bound(each):
        why = f"{each.name} is a directory or disk of one node, and no instance is elsewhere"
        return Survival(loss=loss, fate=Fate.ALL, reason=why, source=_VOLUMES)
    elif is_longhorn(each):
        return _longhorn(each, loss, left)
    else:
        why, source = f"what {each.provisioner} does then is not known here", ""
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why, source=source)


def _longhorn(each: StorageClassFacts, loss: Loss, left: Survival) -> Survival:
    number = replicas(each)
    if number == "1":
        why = f"{each.name} has one replica, on one node, and no instance is elsewhere"
    elif each.parameters.get("replicaSoftAntiAffinity") == "enabled":
        why = f"the {number} replicas of {each.name} may lie on one node"
    else:
        held = f"{number} replicas on {number} nodes have every write of {each.name}"
        sources = dict.fromkeys((_LONGHORN, *left.source.split("; ")))
        return Survival(
            loss=loss,
            fate=left.fate,
            reason=f"{held}; {left.reason}",
            source="; ".join(sources),
            seconds=left.seconds,
        )
    return Survival(loss=loss, fate=Fate.ALL, reason=why, source=_LONGHORN)


def _with_standby(footing: Footing, loss: Loss) -> Survival:
    """Return what is left where the operator promotes a standby, or where that is lost, too."""
    found = _promoted(footing, loss)
    if footing.apart or loss not in (Loss.NODE, Loss.DISK):
        return found
    together = _without_its_node(footing, loss)
    if BY_WEIGHT.index(together.fate) <= BY_WEIGHT.index(found.fate):
        return found
    return Survival(
        loss=loss,
        fate=together.fate,
        reason=f"the operator only prefers different nodes; on one: {together.reason}",
        source="; ".join(filter(None, (_APART, together.source))),
    )


def _promoted(footing: Footing, loss: Loss) -> Survival:
    """Return what is left where a standby elsewhere is promoted."""
    if not footing.waits:
        return Survival(
            loss=loss,
            fate=Fate.LAST,
            reason=f"a standby takes over, without what had not reached it: {footing.why_not}",
            source=f"{_FAILOVER}; {_REPLICATION}",
        )
    if footing.waits == "preferred":
        return _where_preferred(footing, loss)
    why = "a standby has every commit before it is acknowledged; without one, none is acknowledged"
    return Survival(loss=loss, fate=Fate.KEPT, reason=why, source=_APART)


def _where_preferred(footing: Footing, loss: Loss) -> Survival:
    if loss in (Loss.NODE, Loss.DISK):
        why = "while no standby is ready, commits are acknowledged without one (preferred)"
        return Survival(loss=loss, fate=Fate.LAST, reason=why, source=_REPLICATION)
    own = _on_own_volume(footing, loss)
    why = f"on a standby, or, while none is ready, on its own disk: {own.reason}"
    source = f"{_REPLICATION}; {own.source}"
    return Survival(loss=loss, fate=own.fate, reason=why, source=source)


def _elsewhere(footing: Footing, loss: Loss) -> Survival:
    """Return what is left of a server that Steelyard did not make, or made on this machine."""
    if footing.keeper is Keeper.MACHINE:
        why = "the data lie on this machine alone"
        return Survival(loss=loss, fate=Fate.ALL, reason=why)
    why = "Steelyard did not make this server, and sees neither its disks nor its standbys"
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why)


_REDIS_REPLICATION: Final = "Redis documentation, 'Redis replication'"


def redis_survivals(
    target: Target,
    settings: Mapping[str, str],
    facts: Sequence[Fact],
    per_s: float | None = None,
) -> tuple[Survival, ...]:
    """Return what an acknowledged write survives, one answer for each failure.

    Args:
        target: Where the server runs.
        settings: In force, by name. What is missing has Redis' default on a server of Steelyard's
            own; on one of others nobody knows it.
        facts: Of the record: the cluster's storage classes are among them.
        per_s: Writes per second, where they were measured.
    """
    promised = promised_loss(settings, per_s)
    return tuple(_redis_survival(target, settings, facts, loss, promised) for loss in Loss)


def _redis_survival(
    target: Target,
    settings: Mapping[str, str],
    facts: Sequence[Fact],
    loss: Loss,
    promised: PromisedLoss,
) -> Survival:
    if loss in (Loss.SERVER, Loss.POWER):
        return _started_again(target, settings, loss, promised)
    if target.is_here:
        why = "the data lie on this machine alone"
        return Survival(loss=loss, fate=Fate.ALL, reason=why)
    if isinstance(target, RedisKubernetesTarget) and target.is_made:
        if loss is Loss.SITE:
            why = "no copy outside: neither a backup nor a replica elsewhere was made"
            return Survival(loss=loss, fate=Fate.ALL, reason=why)
        left = _own(loss, promised.power)
        return volume_survival(class_in(facts, target.storage_class), loss, left)
    why = "Steelyard did not make this server, and sees neither its disks nor its replicas"
    return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why)


def _started_again(
    target: Target, settings: Mapping[str, str], loss: Loss, promised: PromisedLoss
) -> Survival:
    """Return what is left of a server that died, or its machine with it, and nothing else."""
    if not target.is_made and "appendonly" not in settings:
        why = "Steelyard did not make this server, and it does not show its settings"
        return Survival(loss=loss, fate=Fate.UNKNOWN, reason=why)
    return _beside(
        target, settings, _own(loss, promised.kill if loss is Loss.SERVER else promised.power)
    )


def _own(loss: Loss, promised: PromisedDeath) -> Survival:
    """Return what comes back when the same server starts again on the same data."""
    fate = {None: Fate.ALL, 0.0: Fate.KEPT}.get(promised.most_s, Fate.LAST)
    partly = bool(promised.on_top) or promised.most_writes is not None
    return Survival(
        loss=loss,
        fate=Fate.LAST if partly else fate,
        reason=promised.reason,
        source=promised.source,
        seconds=promised.most_s or None,
        known_as=promised.words if partly else "",
        most_writes=promised.most_writes,
        writes=promised.writes,
    )


def _beside(target: Target, settings: Mapping[str, str], own: Survival) -> Survival:
    """Return what is left where a replica beside the server has a copy, too."""
    if not isinstance(target, RedisLocalTarget) or target.replica is None:
        return own
    if own.fate is not Fate.ALL:
        return own  # it comes back by itself with more than a replica is sure to have
    if own.loss is Loss.SERVER:
        why = (
            "the replica has all but what had not reached it, if it is promoted before the primary"
            " starts again: an empty primary that comes back wipes it"
        )
        return Survival(loss=own.loss, fate=Fate.LAST, reason=why, source=_REDIS_REPLICATION)
    replica = promised_loss({**settings, **dict(target.replica)}).power
    held = _own(own.loss, replica)
    if held.fate is Fate.ALL:
        return own
    why = f"on the replica, without what had not reached it, if it starts first: {held.reason}"
    return Survival(
        loss=own.loss,
        fate=Fate.LAST,
        reason=why,
        source=f"{_REDIS_REPLICATION}; {held.source}",
        seconds=held.seconds,
        known_as=held.known_as,
        writes=held.writes,
    )


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
