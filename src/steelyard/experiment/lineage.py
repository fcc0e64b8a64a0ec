"""Treatments that extend one another, and what each comes down to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.experiment.document import Issue, Value
from steelyard.experiment.form import LevelForm, TreatmentForm
from steelyard.experiment.form_host import ManualForm
from steelyard.experiment.form_kubernetes import NESTED
from steelyard.experiment.form_target import TargetForm
from steelyard.experiment.host_checks import host_issues
from steelyard.experiment.merged_targets import target_issues
from steelyard.experiment.suggestions import choice, did_you_mean, shown
from steelyard.experiment.validation import Draft
from steelyard.tuning.profiles import MachineFacts, profiled_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One treatment with everything it inherits.

    Attributes:
        target: Keys of its target that were given anywhere in its line.
        settings: Value by name, as spelled where it was last given.
        missing: Settings it removes without inheriting them.
        limits: Value by key of ``cgroup``, as written.
        missing_limits: Keys of ``cgroup`` it removes without inheriting them.
        linux: Value by name of a kernel setting, as written.
        missing_linux: Kernel settings it removes without inheriting them.
        redis: Value by name of a Redis setting, in small letters.
        missing_redis: Redis settings it removes without inheriting them.
        domain: File of its virtual machine.
        manual: What is done by hand.
    """

    target: TargetForm
    protocol: str | None
    settings: Mapping[str, str]
    profiles: tuple[str, ...]
    missing: tuple[str, ...]
    limits: Mapping[str, str] = field(default_factory=dict)
    missing_limits: tuple[str, ...] = ()
    linux: Mapping[str, str] = field(default_factory=dict)
    missing_linux: tuple[str, ...] = ()
    redis: Mapping[str, str] = field(default_factory=dict)
    missing_redis: tuple[str, ...] = ()
    domain: str | None = None
    manual: ManualForm | None = None


def lineages(draft: Draft) -> dict[str, tuple[str, ...]]:
    """Return each treatment's line of descent, oldest first; broken lines are left out."""
    found = {name: _ancestors(name, draft.treatments) for name in draft.treatments}
    return {name: line for name, line in found.items() if line}


def _ancestors(name: str, treatments: Mapping[str, TreatmentForm]) -> tuple[str, ...]:
    line: list[str] = []
    step: str | None = name
    while step is not None:
        if step in line or step not in treatments:
            return ()
        line.append(step)
        step = treatments[step].extends
    return tuple(reversed(line))


def extends_issues(draft: Draft) -> Iterator[Issue]:
    """Yield what is wrong with `extends`: unknown names, and rings (once each)."""
    names = draft.treatment_names
    parents = {name: _parent(draft.document.at(("treatments", name))) for name in names}
    for name, parent in parents.items():
        if parent is not None and parent not in names:
            message = f"there is no treatment {shown(parent)}"
            hint = choice(parent, [other for other in names if other != name])
            yield Issue(path=("treatments", name, "extends"), message=message, hint=hint)
    for ring in _rings(parents):
        message = f"treatments extend each other in a ring: {' -> '.join([*ring, ring[0]])}"
        if len(ring) == 1:
            message = f"`{ring[0]}` extends itself"
        hint = "Remove one `extends`."
        yield Issue(path=("treatments", ring[0], "extends"), message=message, hint=hint)


def _parent(raw: Value) -> str | None:
    parent = raw.get("extends") if isinstance(raw, dict) else None
    return parent if isinstance(parent, str) else None


def _rings(parents: Mapping[str, str | None]) -> list[tuple[str, ...]]:
    rings: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for start in parents:
        walk: list[str] = []
        step: str | None = start
        while step in parents and step not in seen:
            assert step is not None  # noqa: S101 - narrows for the type checker
            seen.add(step)
            walk.append(step)
            step = parents[step]
        if step in walk:
            rings.append(tuple(walk[walk.index(step) :]))
    return rings


def merge(forms: Sequence[LevelForm], facts: MachineFacts) -> Merged:
    """Return what forms come down to, one over the other: later ones win, layer by layer.

    They are a treatment's line of descent, or a treatment and the levels of its factors. Within
    one its profiles come first and its explicit settings after them, so a
    child's profile also replaces what the parent set.
    """
    settings = _Settings()
    profiles: list[str] = []
    target: dict[str, object] = {}
    protocol: str | None = None
    limits: dict[str, str] = {}
    without: list[str] = []
    linux: dict[str, str] = {}
    without_linux: list[str] = []
    redis: dict[str, str] = {}
    without_redis: list[str] = []
    domain: str | None = None
    manual: ManualForm | None = None
    for form in forms:
        target = _inherited(target, form.target.model_dump(exclude_none=True))
        protocol = form.protocol or protocol
        profiles += [profile for profile in form.profile if profile not in profiles]
        settings.apply(form, facts)
        without = _overlaid(limits, form.cgroup.model_dump(include=form.cgroup.model_fields_set))
        without_linux = _overlaid(linux, form.linux)
        folded = {name.lower(): value for name, value in form.redis.items()}
        without_redis = _overlaid(redis, folded)
        domain = form.kvm.domain or domain
        manual = form.manual if form.manual.model_fields_set else manual
    return Merged(
        target=TargetForm.model_validate(target),
        protocol=protocol,
        settings=dict(settings.by_folded.values()),
        profiles=tuple(profiles),
        missing=tuple(settings.missing),
        limits=limits,
        missing_limits=tuple(without),
        linux=linux,
        missing_linux=tuple(without_linux),
        redis=redis,
        missing_redis=tuple(without_redis),
        domain=domain,
        manual=manual,
    )


def _inherited(target: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Return a target with keys put over it; the keys of some sections are inherited one by one."""
    whole = {**target, **given}
    for key in NESTED:
        before, after = target.get(key), given.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            whole[key] = _inherited(before, after)
    return whole


def _overlaid(values: dict[str, str], given: Mapping[str, str | None]) -> list[str]:
    """Put one treatment's values over those before it; return what it removes in vain."""
    missing = [key for key, value in given.items() if value is None and key not in values]
    for key, value in given.items():
        values.pop(key, None)
        if value is not None:
            values[key] = value
    return missing


class _Settings:
    """Settings under construction; PostgreSQL's names do not differ by case."""

    def __init__(self) -> None:
        self.by_folded: dict[str, tuple[str, str]] = {}
        self.missing: list[str] = []

    def apply(self, form: LevelForm, facts: MachineFacts) -> None:
        """Put one treatment's settings over the ones before it."""
        for profile in form.profile:
            for profiled in profiled_settings(profile, facts):
                setting = profiled.setting
                self.by_folded[setting.name.lower()] = (setting.name, setting.value)
        self.missing = []
        for name, value in form.postgres.items():
            if value is not None:
                self.by_folded[name.lower()] = (name, value)
            elif self.by_folded.pop(name.lower(), None) is None:
                self.missing.append(name)


def merged_treatments(draft: Draft, facts: MachineFacts) -> dict[str, Merged]:
    """Return every treatment whose line is sound, merged."""
    return {
        name: merge([draft.treatments[ancestor] for ancestor in line], facts)
        for name, line in lineages(draft).items()
    }


def merged_issues(draft: Draft, merged: Mapping[str, Merged]) -> Iterator[Issue]:
    """Yield what only inheritance shows: nothing to remove, different initdb options."""
    for name, treatment in merged.items():
        for missing in treatment.missing:
            yield Issue(
                path=("treatments", name, "postgres", missing),
                message=f"there is no inherited `{missing}` to remove",
                hint=did_you_mean(missing, treatment.settings) or "Remove the line.",
            )
        for layer, names in (
            ("cgroup", treatment.missing_limits),
            ("linux", treatment.missing_linux),
            ("redis", treatment.missing_redis),
        ):
            for missing in names:
                yield Issue(
                    path=("treatments", name, layer, missing),
                    message=f"there is no inherited `{missing}` to remove",
                    hint="Remove the line.",
                )
    yield from target_issues(draft, merged)
    yield from host_issues(draft, merged)
    yield from _unequal_initdb(draft, merged)


def _unequal_initdb(draft: Draft, merged: Mapping[str, Merged]) -> Iterator[Issue]:
    if not merged:
        return
    first, *others = merged
    options = merged[first].target.initdb or []
    for name in others:
        if sorted(merged[name].target.initdb or []) != sorted(options):
            yield Issue(
                path=_where_given(draft, name, first),
                message=f"the initdb options of `{name}` differ from those of `{first}`",
                hint="They must be equal in all treatments; put them into one that all extend.",
            )


def _where_given(draft: Draft, name: str, other: str) -> tuple[str, ...]:
    for owner in (name, other):
        path = ("treatments", owner, "target", "initdb")
        if draft.document.at(path) is not None:
            return path
    return ("treatments", name)
