"""What extends another, what each comes down to, and what only whole targets show.

Whole targets show keys of another kind, and targets of two kinds in one file.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.campaign.file.document import Issue, KeyPath, Value
from steelyard.campaign.file.form import ConfigurationForm, Draft, LevelForm
from steelyard.campaign.file.form_parts import ManualForm
from steelyard.campaign.file.form_target import NESTED, TargetForm
from steelyard.campaign.file.form_values import shown
from steelyard.campaign.file.kinds import TOLD, keys_of, kind_of, model_of, target_problems
from steelyard.core.experiment import SwitchCost
from steelyard.core.target import EngineName, kind_here
from steelyard.core.wording import choice, did_you_mean, listed, parse_bytes
from steelyard.tuning.profiles import MachineFacts, follows_the_machine, profiled_settings

# Which kinds are made, by the system whose servers cannot be.
_MAKERS: Final = {
    EngineName.POSTGRES: "`kind: local`, or `kind: cloudnative-pg` without `cluster`",
    EngineName.REDIS: "`kind: redis-local`, or `kind: redis-kubernetes` without `service`",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One configuration with everything it inherits.

    Attributes:
        target: Keys of its target that were given anywhere in its line.
        settings: By layer, value by name: as spelled where it was last given, of Redis in small
            letters.
        missing: By layer, what it removes without inheriting it.
        manual: What is done by hand.
        prepare: Files of its own scripts.
    """

    target: TargetForm
    protocol: str | None
    settings: Mapping[str, Mapping[str, str]]
    missing: Mapping[str, Sequence[str]]
    profiles: tuple[str, ...]
    manual: ManualForm | None
    prepare: Sequence[str]


def target_issues(draft: Draft, merged: Mapping[str, Merged]) -> Iterator[Issue]:
    """Yield what is wrong with targets once everything is inherited."""
    for name, configuration in merged.items():
        for key, message, hint in target_problems(configuration.target):
            path = ("configurations", name, "target", key)
            written = draft.document.at(path) is not None
            yield Issue(path=path if written else path[:2], message=message, hint=hint)
        yield from _unfit(draft, name, configuration)
    if mixed := _mixed(merged):
        yield mixed
        return
    targets = {name: each.target for name, each in merged.items()}
    for name, message, hint in _pair_problems(targets):
        yield Issue(path=("configurations", name), message=message, hint=hint, at_key=True)
    yield from _kept_data(draft, list(targets.values()))


def _mixed(merged: Mapping[str, Merged]) -> Issue | None:
    """Return that targets cannot be in one experiment; None where they can."""
    kinds = {name: kind_of(each.target) for name, each in merged.items()}
    first = next(iter(kinds.values()), None)
    other = next((name for name, kind in kinds.items() if kind is not first), None)
    systems = {kind.system.name: kind.system for kind in kinds.values()}
    if other is None or (len(systems) == 1 and next(iter(systems.values())).mixes_kinds):
        return None
    named = listed(sorted({each.target.kind or "local" for each in merged.values()}))
    return Issue(
        path=("configurations", other),
        message=f"the configurations have targets of different kinds: {named}",
        hint="Compare servers of one database system."
        if len(systems) > 1
        else "Use one kind in an experiment: only PostgreSQL's can be mixed.",
        at_key=True,
    )


def _kept_data(draft: Draft, targets: Sequence[TargetForm]) -> Iterator[Issue]:
    """Yield that data are to be kept on Clusters that every start makes anew."""
    reset = None if draft.measure is None else draft.measure.reset
    several = any(target != targets[0] for target in targets)
    if reset in ("block", "campaign") and several and all(map(_is_provisioned, targets)):
        yield Issue(
            path=("measure", "reset"),
            message=f"data cannot be kept for a {reset}: the Clusters differ, so that every start"
            " makes its own",
            hint="Leave `reset` out.",
        )


def _unfit(draft: Draft, name: str, configuration: Merged) -> Iterator[Issue]:
    """Yield what does not go together with how the configuration's server comes about."""
    switch = None if draft.measure is None else draft.measure.switch
    target = configuration.target
    if model_of(target).is_here:
        if switch == SwitchCost.REPROVISION and target.restore is not None:
            yield Issue(
                path=("measure", "switch"),
                message=f"`{name}` restores by {target.restore}, and where every start"
                " makes its server anew nothing is restored",
                hint="Remove `restore` from its target, or `switch`.",
            )
        return
    yield from _of_this_machine(name, configuration)
    if not _is_provisioned(target):
        yield from _switched(name, target, switch)


def _of_this_machine(name: str, configuration: Merged) -> Iterator[Issue]:
    """Yield what is of this machine, on which the server is not."""
    kind = kind_of(configuration.target)
    pod = model_of(configuration.target).home is not None
    if configuration.settings["cgroup"]:
        whose = "a pod" if pod else "an endpoint"
        yield Issue(
            path=("configurations", name, "cgroup"),
            message=f"the server of `{name}` is {whose}, whose processes Steelyard did not"
            " start and cannot limit",
            hint="Write its limits below `resources` of the target."
            if _is_provisioned(configuration.target)
            else f"Remove `cgroup`, or use `kind: {kind_here(kind.system)}`.",
            at_key=True,
        )
    if _told(configuration.target) is not None:
        return
    hint = "Write the settings below `postgres:`."
    if set(TOLD) <= keys_of(kind):
        hint = (
            "Say what the server has, by `memory: 64GiB` and `cpus: 16` in its target or by"
            " --memory and --cpus; or write the settings below `postgres:`."
        )
    for profile in filter(follows_the_machine, configuration.profiles):
        yield Issue(
            path=("configurations", name),
            message=f"the profile `{profile}` fits this machine, not the one of"
            f" {'a pod' if pod else 'an endpoint'}",
            hint=hint,
            at_key=True,
        )


def _told(target: TargetForm) -> MachineFacts | None:
    """Return what the user says of the server's machine; None where that is not all of it.

    Its disks are not said: profiles have their guesses for that.
    """
    if target.memory is None or target.cpus is None:
        return None
    return MachineFacts(cpus=float(target.cpus), memory_bytes=parse_bytes(target.memory))


def _switched(name: str, target: TargetForm, switch: str | None) -> Iterator[Issue]:
    """Yield that a server cannot be switched as asked, because it is there already."""
    kind = kind_of(target)
    makers = _MAKERS.get(kind.system.name, f"`kind: {kind_here(kind.system)}`")
    if switch == SwitchCost.REPROVISION:
        yield Issue(
            path=("measure", "switch"),
            message=f"Steelyard did not make the {kind.noun} of `{name}` and cannot make it anew",
            hint=f"Use a target that Steelyard makes ({makers}), or leave `switch` out.",
        )
    if switch == SwitchCost.RESTART and not model_of(target).is_restarted:
        way = f"{kind.restarted_by}, or leave" if kind.restarted_by else "Leave"
        yield Issue(
            path=("measure", "switch"),
            message=f"the {kind.noun} of `{name}` cannot be restarted",
            hint=f"{way} `switch` out.",
        )


def _is_provisioned(form: TargetForm) -> bool:
    """Return whether Steelyard makes the server in a cluster."""
    target = model_of(form)
    return target.is_made and target.home is not None


def _pair_problems(targets: Mapping[str, TargetForm]) -> Iterator[tuple[str, str, str]]:
    """Yield what keeps those in Kubernetes apart: the configuration, the fact, the way out."""
    inside = {n: each for n, each in targets.items() if model_of(each).home is not None}
    if not inside:
        return
    first = next(iter(inside))
    for name, target in inside.items():
        for what, message, hint in _differing(targets[first], target):
            yield name, f"`{first}` and `{name}` {message}", f"{hint} ({what})."
            return
    yield from _unnamed_image(inside)


def _differing(one: TargetForm, other: TargetForm) -> Iterator[tuple[str, str, str]]:
    """Yield what two configurations of one experiment must share."""
    if _is_provisioned(one) != _is_provisioned(other):
        noun = kind_of(one).noun
        key = next(key for key in ("cluster", "service") if key in keys_of(kind_of(one)))
        hint = "Let Steelyard make both, or name an existing one in both"
        yield key, f"are a {noun} that is made and one that is there", hint
    shared = (_shared(one), _shared(other))
    for place, what in enumerate(("context", "namespace", "generators")):
        if shared[0][place] != shared[1][place]:
            hint = "Write it once, in a configuration that the others extend"
            yield what, f"differ in `{what}`, which all configurations share", hint


def _shared(target: TargetForm) -> tuple[object, ...]:
    place = target.kubernetes or target
    return place.context, place.namespace, place.generators


def _unnamed_image(targets: Mapping[str, TargetForm]) -> Iterator[tuple[str, str, str]]:
    """Yield that the generators have no image of their own where the databases' differ."""
    with_operator = {n: t for n, t in targets.items() if "instances" in keys_of(kind_of(t))}
    made = {n: t for n, t in with_operator.items() if t.cluster is None}
    images = {name: target.image for name, target in made.items()}
    if len(set(images.values())) < 2:
        return
    name, target = next(iter(made.items()))
    if target.generators is None or target.generators.image is None:
        shown = listed(sorted(image or "the operator's default" for image in set(images.values())))
        yield (
            name,
            f"the Clusters have different images ({shown}), and one pgbench drives them all",
            "Name the newest with `generators: {image: ...}` in the target.",
        )


def lineages(draft: Draft) -> dict[str, tuple[str, ...]]:
    """Return each configuration's line of descent, oldest first; broken lines are left out."""
    found = {name: _ancestors(name, draft.configurations) for name in draft.configurations}
    return {name: line for name, line in found.items() if line}


def _ancestors(name: str, configurations: Mapping[str, ConfigurationForm]) -> tuple[str, ...]:
    line: list[str] = []
    step: str | None = name
    while step is not None:
        if step in line or step not in configurations:
            return ()
        line.append(step)
        step = configurations[step].extends
    return tuple(reversed(line))


def extends_issues(draft: Draft) -> Iterator[Issue]:
    """Yield what is wrong with `extends`: unknown names, and rings (once each)."""
    names = draft.configuration_names
    parents = {name: _parent(draft.document.at(("configurations", name))) for name in names}
    for name, parent in parents.items():
        if parent is not None and parent not in names:
            message = f"there is no configuration {shown(parent)}"
            hint = choice(parent, [other for other in names if other != name])
            yield Issue(path=("configurations", name, "extends"), message=message, hint=hint)
    for ring in _rings(parents):
        message = f"configurations extend each other in a ring: {' -> '.join([*ring, ring[0]])}"
        if len(ring) == 1:
            message = f"`{ring[0]}` extends itself"
        hint = "Remove one `extends`."
        yield Issue(path=("configurations", ring[0], "extends"), message=message, hint=hint)


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

    They are a configuration's line of descent, or a configuration and the levels of its factors.
    Within one its profiles come first and its explicit settings after them, so a child's profile
    also replaces what the parent set.
    """
    profiles: list[str] = []
    target: dict[str, object] = {}
    protocol: str | None = None
    prepare: Sequence[str] = ()
    settings: dict[str, dict[str, str]] = {}
    missing: dict[str, Sequence[str]] = {}
    manual: ManualForm | None = None
    for form in forms:
        target = _inherited(target, form.target.model_dump(exclude_none=True))
        protocol = form.protocol or protocol
        prepare = form.prepare if "prepare" in form.model_fields_set else prepare
        profiles += [profile for profile in form.profile if profile not in profiles]
        for layer, given in _given_around(form).items():
            missing[layer] = _overlaid(settings.setdefault(layer, {}), given)
        manual = form.manual if form.manual.model_fields_set else manual
    whole = TargetForm.model_validate(target)
    postgres = _Settings()
    for form in forms:
        postgres.apply(form, _told(whole) or facts)
    return Merged(
        target=whole,
        protocol=protocol,
        settings={"postgres": dict(postgres.by_folded.values()), **settings},
        missing={"postgres": postgres.missing, **missing},
        profiles=tuple(profiles),
        manual=manual,
        prepare=prepare,
    )


def _given_around(form: LevelForm) -> dict[str, Mapping[str, str | None]]:
    """Return what a form sets in each layer but PostgreSQL's, whose profiles come first."""
    return {
        "cgroup": form.cgroup.model_dump(include=form.cgroup.model_fields_set),
        "linux": form.linux,
        "redis": {name.lower(): value for name, value in form.redis.items()},
        **(form.__pydantic_extra__ or {}),
    }


def _inherited(target: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Return a target with keys put over it; the keys of some sections are inherited one by one."""
    whole = {**target, **given}
    for key in NESTED:
        before, after = target.get(key), given.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            whole[key] = _inherited(before, after)
    return whole


def _overlaid(values: dict[str, str], given: Mapping[str, str | None]) -> list[str]:
    """Put one configuration's values over those before it; return what it removes in vain."""
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
        """Put one configuration's settings over the ones before it."""
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


def merged_configurations(draft: Draft, facts: MachineFacts) -> dict[str, Merged]:
    """Return every configuration whose line is sound, merged."""
    return {
        name: merge([draft.configurations[ancestor] for ancestor in line], facts)
        for name, line in lineages(draft).items()
    }


def merged_issues(draft: Draft, merged: Mapping[str, Merged]) -> Iterator[Issue]:
    """Yield what only inheritance shows: nothing to remove, different initdb options."""
    for name, configuration in merged.items():
        for layer, names in configuration.missing.items():
            known = configuration.settings[layer]
            for missing in names:
                yield Issue(
                    path=("configurations", name, layer, missing),
                    message=f"there is no inherited `{missing}` to remove",
                    hint=did_you_mean(missing, known) or "Remove the line.",
                )
    yield from target_issues(draft, merged)
    yield from _host_issues(draft, merged)
    yield from _unequal_initdb(draft, merged)
    yield from _shared_data(merged)


def _host_issues(draft: Draft, merged: Mapping[str, Merged]) -> Iterator[Issue]:
    """Yield what does not go together once everything is inherited."""
    for name, configuration in merged.items():
        target = model_of(configuration.target)
        if configuration.settings["linux"] and not target.is_here:
            what = "an endpoint" if target.home is None else "a pod"
            path: KeyPath = ("configurations", name, "linux")
            yield Issue(
                path=path if draft.document.at(path) is not None else path[:2],
                message=f"the server of `{name}` is {what}, and `linux` turns knobs of this"
                " machine",
                hint="Remove `linux`, use `kind: local`, or turn them by `manual` with a command.",
                at_key=True,
            )
    yield from _no_way_back(merged)


def _no_way_back(merged: Mapping[str, Merged]) -> Iterator[Issue]:
    """Yield that some configurations have a step by hand and others have none."""
    without = [name for name, configuration in merged.items() if configuration.manual is None]
    having = [name for name in merged if name not in without]
    if without and having:
        yield Issue(
            path=("configurations", without[0]),
            message=f"`{having[0]}` has `manual` and `{without[0]}` has none: nothing leads back",
            hint="Give `manual` to every configuration.",
            at_key=True,
        )


def _shared_data(merged: Mapping[str, Merged]) -> Iterator[Issue]:
    """Yield scripts of configurations whose server may hold the data of others, too."""
    for name, configuration in merged.items():
        if configuration.prepare and not kind_of(configuration.target).is_here:
            yield Issue(
                path=("configurations", name, "prepare"),
                message="scripts of one configuration need a server that Steelyard starts on this"
                " machine",
                hint="Use `kind: local`, or put them into the `prepare` of the workload, which all"
                " configurations have.",
                at_key=True,
            )


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
                hint="They must be equal in all configurations; put them into one that all extend.",
            )


def _where_given(draft: Draft, name: str, other: str) -> tuple[str, ...]:
    for owner in (name, other):
        path = ("configurations", owner, "target", "initdb")
        if draft.document.at(path) is not None:
            return path
    return ("configurations", name)
