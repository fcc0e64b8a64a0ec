"""Treatments that extend one another, what each comes down to, and what only whole targets show.

Whole targets show keys of another kind, and targets of two kinds in one file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from steelyard.campaign.file.document import Issue, Value
from steelyard.campaign.file.form import LevelForm, TreatmentForm
from steelyard.campaign.file.form_parts import ManualForm
from steelyard.campaign.file.form_target import CLUSTER_KEYS, NESTED, REDIS_TARGETS, TargetForm
from steelyard.campaign.file.form_values import shown
from steelyard.campaign.file.target_checks import (
    CLUSTER,
    REDIS_CLUSTER,
    REDIS_CLUSTER_KEYS,
    host_issues,
    is_here,
    is_in_kubernetes,
    is_provisioned,
    kubernetes_problems,
    pair_problems,
)
from steelyard.campaign.file.target_resolution import redis_target_problems
from steelyard.campaign.file.validation import Draft
from steelyard.core.experiment import SwitchCost
from steelyard.core.spelling import choice, did_you_mean, listed
from steelyard.tuning.profiles import MachineFacts, follows_the_machine, profiled_settings

_LOCAL: Final = frozenset({"bin", "directory", "port", "connection", "run_as", "initdb", "restore"})
_ENDPOINT: Final = frozenset(
    {
        *("uri", "host", "port", "user", "dbname", "service", "allow_existing"),
        *("restart_command", "restore", "kubernetes"),
    }
)
_HOMES: Final = {
    "local": _LOCAL,
    "endpoint": _ENDPOINT,
    CLUSTER: CLUSTER_KEYS | {"allow_existing"},
    "redis-local": (_LOCAL - {"initdb"}) | {"replica"},
    "redis-endpoint": frozenset(
        {
            *("uri", "host", "port", "user", "db", "tls", "cacert", "cert", "key"),
            *("allow_existing", "restart_command"),
        }
    ),
    REDIS_CLUSTER: REDIS_CLUSTER_KEYS,
}
_OF_ALL: Final = frozenset({"kind", "burst_lasts"})
_SEPARATE: Final = ("host", "port", "user", "dbname", "service", "db", "tls")
_RESTORES: Final = {
    "local": ("reflink", "copy", "template"),
    "endpoint": ("template", "vacuum"),
    "redis-local": ("reflink", "copy"),
}


class HasTarget(Protocol):
    """A treatment with everything it inherits."""

    @property
    def target(self) -> TargetForm:
        """Return the keys of its target that were given anywhere in its line."""
        ...

    @property
    def profiles(self) -> tuple[str, ...]:
        """Return the names of its profiles."""
        ...

    @property
    def limits(self) -> Mapping[str, str]:
        """Return its limits by key of ``cgroup``."""
        ...


def target_issues(draft: Draft, merged: Mapping[str, HasTarget]) -> Iterator[Issue]:
    """Yield what is wrong with targets once everything is inherited."""
    for name, treatment in merged.items():
        for key, message, hint in _problems(treatment.target):
            path = ("treatments", name, "target", key)
            written = draft.document.at(path) is not None
            yield Issue(path=path if written else path[:2], message=message, hint=hint)
        yield from _unfit(draft, name, treatment)
    kinds = {name: each.target.kind or "local" for name, each in merged.items()}
    mixed = sorted(set(kinds.values()))
    if len(mixed) > 1:
        other = next(name for name in kinds if kinds[name] != next(iter(kinds.values())))
        yield Issue(
            path=("treatments", other),
            message=f"the treatments have targets of different kinds: {listed(mixed)}",
            hint="Use one kind in an experiment: this version cannot mix them.",
            at_key=True,
        )
        return
    targets = {name: each.target for name, each in merged.items()}
    for name, message, hint in pair_problems(targets):
        yield Issue(path=("treatments", name), message=message, hint=hint, at_key=True)
    yield from _kept_data(draft, list(targets.values()))


def _kept_data(draft: Draft, targets: Sequence[TargetForm]) -> Iterator[Issue]:
    """Yield that data are to be kept on Clusters that every visit makes anew."""
    reset = None if draft.measure is None else draft.measure.reset
    several = any(target != targets[0] for target in targets)
    if reset in ("block", "campaign") and several and all(map(is_provisioned, targets)):
        yield Issue(
            path=("measure", "reset"),
            message=f"data cannot be kept for a {reset}: the Clusters differ, so that every visit"
            " makes its own",
            hint="Leave `reset` out.",
        )


def _unfit(draft: Draft, name: str, treatment: HasTarget) -> Iterator[Issue]:
    """Yield what does not go together with how the treatment's server comes about."""
    switch = None if draft.measure is None else draft.measure.switch
    target = treatment.target
    if is_here(target):
        if switch == SwitchCost.REPROVISION and target.restore is not None:
            yield Issue(
                path=("measure", "switch"),
                message=f"`{name}` restores by {target.restore}, and where every visit"
                " makes its server anew nothing is restored",
                hint="Remove `restore` from its target, or `switch`.",
            )
        return
    yield from _of_this_machine(name, treatment)
    if not is_provisioned(target):
        yield from _switched(name, target, switch)


def _of_this_machine(name: str, treatment: HasTarget) -> Iterator[Issue]:
    """Yield what is of this machine, on which the server is not."""
    pod = is_in_kubernetes(treatment.target)
    if treatment.limits:
        whose = "a pod" if pod else "an endpoint"
        yield Issue(
            path=("treatments", name, "cgroup"),
            message=f"the server of `{name}` is {whose}, whose processes Steelyard did not"
            " start and cannot limit",
            hint="Write its limits below `resources` of the target."
            if is_provisioned(treatment.target)
            else f"Remove `cgroup`, or use `kind: {_here(treatment.target)}`.",
            at_key=True,
        )
    for profile in filter(follows_the_machine, treatment.profiles):
        yield Issue(
            path=("treatments", name),
            message=f"the profile `{profile}` fits this machine, not the one of"
            f" {'a pod' if pod else 'an endpoint'}",
            hint="Write the settings below `postgres:`.",
            at_key=True,
        )


def _switched(name: str, target: TargetForm, switch: str | None) -> Iterator[Issue]:
    """Yield that a server cannot be switched as asked, because it is there already."""
    what = {CLUSTER: "Cluster", REDIS_CLUSTER: "server"}.get(target.kind or "", "endpoint")
    if switch == SwitchCost.REPROVISION:
        yield Issue(
            path=("measure", "switch"),
            message=f"Steelyard did not make the {what} of `{name}` and cannot make it anew",
            hint=f"Use a target that Steelyard makes ({_makers(target)}), or leave `switch` out.",
        )
    may = target.allow_existing if target.kind == CLUSTER else target.restart_command
    if switch == SwitchCost.RESTART and not may:
        yield Issue(
            path=("measure", "switch"),
            message=f"the {what} of `{name}` cannot be restarted",
            hint="Allow its change with `allow_existing: true`, or leave `switch` out."
            if target.kind == CLUSTER
            else "Give its target a `restart_command`, or leave `switch` out."
            if target.kind != REDIS_CLUSTER
            else "Leave `switch` out.",
        )


def _here(target: TargetForm) -> str:
    """Return the kind of the same database system on this machine."""
    return "redis-local" if target.kind in REDIS_TARGETS else "local"


def _makers(target: TargetForm) -> str:
    if target.kind in REDIS_TARGETS:
        return "`kind: redis-local`, or `kind: redis-kubernetes` without `service`"
    return "`kind: local`, or `kind: cloudnative-pg` without `cluster`"


def _problems(target: TargetForm) -> Iterator[tuple[str, str, str]]:
    kind = target.kind or "local"
    given = target.model_dump(exclude_none=True)
    for key in sorted(given.keys() - _HOMES[kind] - _OF_ALL):
        homes = [home for home, keys in _HOMES.items() if key in keys]
        near = [home for home in homes if (home in REDIS_TARGETS) == (kind in REDIS_TARGETS)]
        message = f"`{key}` belongs to the target {listed(near or homes)}, and this is `{kind}`"
        yield key, message, "Remove it."
    yield from redis_target_problems(target)
    yield from kubernetes_problems(target)
    if target.uri is not None:
        for key in _SEPARATE:
            if key in given:
                hint = "Write it into the URI, or use separate keys only."
                yield key, f"`uri` and `{key}` exclude each other", hint
    if kind not in _RESTORES:
        return
    if target.restore is not None and target.restore not in _RESTORES[kind]:
        hint = f"Use {listed(_RESTORES[kind])}."
        yield "restore", f"the target `{kind}` cannot restore by {target.restore}", hint
    if target.allow_existing and target.restore == "template":
        hint = "Remove `restore`: nothing is copied in a database that is not Steelyard's."
        yield "restore", "an existing database cannot be restored by template", hint


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
