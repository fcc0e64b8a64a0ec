"""Whole configurations: what each inherits, and the checks that need all of it.

Mappings are put over those that they extend as they are written: nothing is validated before. A
whole configuration is read like one that was written out in full, and every key in it is known by
where it was written. Whole targets show keys of another kind, and targets of two kinds in one file.

Factors have a short form, and what they become is one configuration per combination, with its name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Final

from steelyard.campaign.file.document import Document, Issue, KeyPath, Place, Value
from steelyard.campaign.file.form import (
    WHAT_IS_COMPARED,
    ConfigurationForm,
    Draft,
    LevelForm,
    as_meant,
    missing_key,
    setting_keys,
)
from steelyard.campaign.file.kinds import TOLD, keys_of, target_problems
from steelyard.campaign.file.systems import SYSTEMS
from steelyard.core.experiment import (
    Attribution,
    AttributionKind,
    Combination,
    Design,
    Factor,
    SwitchCost,
)
from steelyard.core.quantities import (
    CPUS,
    MEMORY,
    SETTING,
    as_key,
    shown,
    split_words,
    text_of,
)
from steelyard.core.target import TARGETS, Server, kind_here, systems
from steelyard.core.wording import (
    LONGEST_NAME,
    InputError,
    choice,
    did_you_mean,
    is_label,
    listed,
)
from steelyard.stats import factorial
from steelyard.stats.factorial import MOST_FACTORS
from steelyard.tuning.profiles import (
    MachineFacts,
    follows_the_machine,
    profile_names,
    profiled_settings,
)


def target_issues(draft: Draft, merged: Mapping[str, ConfigurationForm]) -> Iterator[Issue]:
    """Yield what is wrong with targets once everything is inherited."""
    switch = None if draft.measure is None else draft.measure.switch
    for name, configuration in merged.items():
        own: KeyPath = ("configurations", name)
        for key, message, hint in target_problems(configuration.target):
            # A key that is missing is told of the target, once for all that inherit it.
            paths = [(*own, "target", key), (*own, "target")]
            path = next((path for path in paths if draft.document.at(path) is not None), own)
            yield Issue(path=path, message=message, hint=hint)
        is_here = configuration.target.model.is_here
        for path, message, hint in () if is_here else _of_this_machine(name, configuration):
            yield Issue(path=(*own, *path), message=message, hint=hint, at_key=True)
        target = configuration.target.model
        is_copied = any(each.copied for each in draft.workloads.values())
        if is_copied and not _parts_data(target):
            yield Issue(
                path=(*own, "target"),
                message="`copy_tables` copies tables into databases that Steelyard makes on an"
                f" existing server, and the target of `{name}` is another",
                hint="Use `kind: existing` without `allow_existing`, or remove `copy_tables`.",
            )
        for message, hint in _switch_problems(name, configuration.target.model, switch):
            yield Issue(path=("measure", "switch"), message=message, hint=hint)
    if mixed := _mixed(merged):
        yield mixed
        return
    targets = {name: each.target.model for name, each in merged.items()}
    for name, message, hint in _pair_problems(targets):
        yield Issue(path=("configurations", name), message=message, hint=hint, at_key=True)
    yield from _kept_data(draft, list(targets.values()))


def _mixed(merged: Mapping[str, ConfigurationForm]) -> Issue | None:
    """Return that targets cannot be in one experiment; None where they can."""
    kinds = {name: type(each.target.model) for name, each in merged.items()}
    first = next(iter(kinds.values()), None)
    other = next((name for name, kind in kinds.items() if kind is not first), None)
    if first is None or other is None or first.system.mixes_kinds:
        return None
    words = {each.target.model.kind for each in merged.values()}
    mixing = " and ".join(each.words.server for each in systems() if each.mixes_kinds)
    return Issue(
        path=("configurations", other),
        message=f"the configurations have targets of different kinds: {listed(sorted(words))}",
        hint=f"Use one kind in an experiment: only those of {mixing} can be mixed.",
        at_key=True,
    )


def _kept_data(draft: Draft, targets: Sequence[Server]) -> Iterator[Issue]:
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


def _of_this_machine(
    name: str, configuration: ConfigurationForm
) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield what is of this machine, on which the server is not."""
    target, told = configuration.target.model, configuration.target.entries.keys()
    place, local = "an endpoint" if target.home is None else "a pod", kind_here(target.system.name)
    if configuration.settings["cgroup"]:
        hint = f"Remove `cgroup`, or use `kind: {local}`."
        if _is_provisioned(target):
            hint = "Write its limits below `resources` of the target."
        message = f"the server of `{name}` is {place}, whose processes Steelyard did not"
        yield ("cgroup",), f"{message} start and cannot limit", hint
    if configuration.settings["linux"]:
        message = f"the server of `{name}` is {place}, and `linux` turns knobs of this machine"
        hint = "Remove `linux`, use `kind: local`, or turn them by `manual` with a command."
        yield ("linux",), message, hint
    own = [key for key in ("prepare", "ddl") if getattr(configuration, key)]
    if own and not _parts_data(target):
        message = "scripts of one configuration need data of its own, which Steelyard makes"
        hint = (
            "Use `kind: local`, or `kind: existing` without `allow_existing` and `kubernetes`; or"
        )
        hint += " put them into the `prepare` of the workload, which all configurations have."
        yield (own[0],), message, hint
    hint = "Write the settings below `postgres:`."
    if set(TOLD) <= keys_of(type(target)):
        hint = (
            "Say what the server has, by `memory: 64GiB` and `cpus: 16` in its target or by"
            " --server-memory and --server-cpus; or write the settings below `postgres:`."
        )
    for profile in filter(follows_the_machine, configuration.profile):
        if not set(TOLD) <= told:
            message = f"the profile `{profile}` fits this machine, not the one of {place}"
            yield (), message, hint


def _parts_data(target: Server) -> bool:
    """Return whether Steelyard makes a database for each configuration there."""
    named = getattr(target, "allow_existing", False)
    return target.parts_data and target.home is None and not named


def _switch_problems(name: str, target: Server, switch: str | None) -> Iterator[tuple[str, str]]:
    """Yield that a server cannot be switched as asked."""
    if switch == SwitchCost.REPROVISION and target.is_here and target.restore is not None:
        message = f"`{name}` restores by {target.restore}, and where every start makes its server"
        yield (
            f"{message} anew nothing is restored",
            "Remove `restore` from its target, or `switch`.",
        )
    if target.is_here or _is_provisioned(target):
        return
    makers = ", or ".join(
        f"`kind: {word}`" + (f" without `{each.existing_key}`" if each.existing_key else "")
        for word, each in TARGETS[target.system.name].items()
        if each.is_here or each.existing_key
    )
    if switch == SwitchCost.REPROVISION:
        message = f"Steelyard did not make the {target.noun} of `{name}` and cannot make it anew"
        yield message, f"Use a target that Steelyard makes ({makers}), or leave `switch` out."
    if switch == SwitchCost.RESTART and not target.is_restarted:
        way = f"{target.restarted_by}, or leave" if target.restarted_by else "Leave"
        yield f"the {target.noun} of `{name}` cannot be restarted", f"{way} `switch` out."


def _is_provisioned(target: Server) -> bool:
    """Return whether Steelyard makes the server in a cluster."""
    return target.is_made and target.home is not None


def _pair_problems(targets: Mapping[str, Server]) -> Iterator[tuple[str, str, str]]:
    """Yield what keeps those in Kubernetes apart: the configuration, the fact, the way out."""
    inside = {n: each for n, each in targets.items() if each.home is not None}
    if not inside:
        return
    first = next(iter(inside))
    for name, target in inside.items():
        for what, message, hint in _differing(targets[first], target):
            yield name, f"`{first}` and `{name}` {message}", f"{hint} ({what})."
            return
    yield from _unnamed_image(inside)


def _differing(one: Server, other: Server) -> Iterator[tuple[str, str, str]]:
    """Yield what two configurations of one experiment must share."""
    if _is_provisioned(one) != _is_provisioned(other):
        key = one.existing_key or other.existing_key
        hint = "Let Steelyard make both, or name an existing one in both"
        yield key, f"are a {one.noun} that is made and one that is there", hint
    for what in ("context", "namespace", "generators"):
        if getattr(one.home, what) != getattr(other.home, what):
            hint = "Write it once, in a configuration that the others extend"
            yield what, f"differ in `{what}`, which all configurations share", hint


def _unnamed_image(targets: Mapping[str, Server]) -> Iterator[tuple[str, str, str]]:
    """Yield that the generators have no image of their own where the databases' differ."""
    made = {n: t for n, t in targets.items() if t.is_made and "instances" in keys_of(type(t))}
    images = {getattr(target, "image", None) for target in made.values()}
    if len(images) < 2:
        return
    name, target = next(iter(made.items()))
    if target.home is not None and target.home.generators.image is None:
        shown = listed(sorted(image or "the operator's default" for image in images))
        yield (
            name,
            f"the Clusters have different images ({shown}), and one pgbench drives them all",
            "Name the newest with `generators: {image: ...}` in the target.",
        )


def extends_issues(draft: Draft) -> Iterator[Issue]:
    """Yield what is wrong with `extends`: unknown names, and rings (once each)."""
    names = draft.configuration_names
    parents = parents_in(draft.document)
    for name, parent in parents.items():
        if parent is not None and parent not in names:
            message = f"there is no configuration {shown(parent)}"
            hint = choice(parent, [other for other in names if other != name])
            yield Issue(path=("configurations", name, "extends"), message=message, hint=hint)
    rings = _rings(parents)
    if not rings and (far := next((n for n in parents if _is_far(n, parents)), None)):
        message = f"`{far}` extends one after another, more than {_LONGEST_LINE} configurations"
        hint = "Write out what it has, and extend that."
        yield Issue(path=("configurations", far, "extends"), message=message, hint=hint)
    for ring in rings:
        message = f"configurations extend each other in a ring: {' -> '.join([*ring, ring[0]])}"
        if len(ring) == 1:
            message = f"`{ring[0]}` extends itself"
        hint = "Remove one `extends`."
        yield Issue(path=("configurations", ring[0], "extends"), message=message, hint=hint)


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


def merged_issues(draft: Draft) -> Iterator[Issue]:
    """Yield what only inheritance shows: nothing to remove, different initdb options."""
    sound = lineages(draft.document)
    merged = {name: form for name, form in draft.configurations.items() if name in sound}
    for name, configuration in merged.items():
        for layer, settings in configuration.settings.items():
            known = [each for each, value in settings.items() if value is not None]
            for missing in (each for each, value in settings.items() if value is None):
                yield Issue(
                    path=("configurations", name, layer, missing),
                    message=f"there is no inherited `{missing}` to remove",
                    hint=did_you_mean(missing, known) or "Remove the line.",
                )
    yield from target_issues(draft, merged)
    yield from _no_way_back(merged)
    yield from _unequal_initdb(draft, merged)
    yield from _strange_scripts(draft, merged)


def _no_way_back(merged: Mapping[str, ConfigurationForm]) -> Iterator[Issue]:
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


def _unequal_initdb(draft: Draft, merged: Mapping[str, ConfigurationForm]) -> Iterator[Issue]:
    if not merged:
        return
    first, *others = merged
    options = {name: sorted(each.target.entries.get("initdb", ())) for name, each in merged.items()}
    for name in others:
        place: KeyPath = ("configurations", name)
        paths = [("configurations", owner, "target", "initdb") for owner in (name, first)]
        if options[name] != options[first]:
            yield Issue(
                path=next((path for path in paths if draft.document.at(path) is not None), place),
                message=f"the initdb options of `{name}` differ from those of `{first}`",
                hint="They must be equal in all configurations; put them into one that all extend.",
            )


def _strange_scripts(draft: Draft, merged: Mapping[str, ConfigurationForm]) -> Iterator[Issue]:
    """Yield rewritten scripts of configurations that no workload has."""
    known = [script.name for each in draft.workloads.values() for script in each.scripts]
    for name, configuration in merged.items():
        for script in configuration.scripts:
            if script not in known:
                yield Issue(
                    path=("configurations", name, "scripts", script),
                    message=f"no workload has a script {shown(script)}",
                    hint=did_you_mean(script, known) or "Name a script as its workload does.",
                    at_key=True,
                )


# Mappings of a target whose keys are inherited one by one; others are inherited whole.
_NESTED: Final = ("kubernetes", "generators", "synchronous")
_FOLDED: Final = ("postgres", "redis")  # names of their settings do not differ by case


def inherited(document: Document, facts: MachineFacts | None) -> Document:
    """Return the document with every configuration whole; one whose line breaks has its own keys.

    With ``facts``, profiles are spelled out on a machine.
    """
    names = document.at(("configurations",))
    lines = lineages(document)
    sources = {
        name: [("configurations", each) for each in lines.get(name, (name,))]
        for name in (names if isinstance(names, dict) else ())
    }
    return with_wholes(document, sources, facts) if sources else document


def with_wholes(
    document: Document, sources: Mapping[str, Sequence[KeyPath]], facts: MachineFacts | None
) -> Document:
    """Return the document with these configurations, each from what lies over what, by name."""
    written = dict(document.written)
    wholes: dict[str, Value] = {}
    for name, line in sources.items():
        own = document.at(line[-1])
        if own is not None and not isinstance(own, dict):
            wholes[name] = own  # no mapping, as its form tells
            continue
        whole = put_over(document, line, facts)
        extends = {"extends": own["extends"]} if own and "extends" in own else {}
        wholes[name] = extends | whole.value
        written[("configurations", name)] = line[-1]
        written |= {("configurations", name, *key): at for key, at in whole.written.items()}
    root = document.value if isinstance(document.value, dict) else {}
    return replace(document, value={**root, "configurations": wholes}, written=written)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """Mappings put over each other.

    Attributes:
        written: Where each key stands in the file, by its path in the whole.
    """

    value: dict[str, Value] = field(default_factory=dict)
    written: dict[KeyPath, KeyPath] = field(default_factory=dict)

    def put(self, given: Mapping[str, Value], at: KeyPath, path: KeyPath = ()) -> None:
        """Put one mapping over what is there; null deletes, and stays if there was no value."""
        holder = self._holder(path)
        fold = str.lower if path and path[-1] in _FOLDED else str
        before = {fold(key): key for key, value in holder.items() if value is not None}
        for vain in holder.keys() - before.values():
            del holder[vain]
        for key, value in given.items():
            where, written = (*path, key), (*at, key)
            if _is_keyed(where) and (isinstance(value, dict) or (value is None and not path)):
                self.written[where] = written
                self.put(value or {}, written, where)
                continue
            old = before.pop(fold(key), None)
            if old is not None:
                del holder[old]
                self._forget((*path, old))
            if value is not None or old is None:
                holder[key] = value
                self.written[where] = written

    def put_profiles(self, given: Value, at: KeyPath, facts: MachineFacts | None) -> None:
        """Add named sets of settings, and what they set over what is there."""
        named: Sequence[object] = split_words(given)
        there = self.value.get("profile")
        profiles: list[Any] = there if isinstance(there, list) else []
        for place, name in enumerate(named):
            written = (*at, "profile", *((place,) if isinstance(given, list) else ()))
            if name not in profiles:
                self.written["profile", len(profiles)] = written
                profiles = [*profiles, name]
            if facts is not None and name in profile_names():
                self.written["postgres",] = self.written.get(("postgres",), written)
                settings = profiled_settings(str(name), facts)
                self.put({s.setting.name: s.setting.value for s in settings}, at, ("postgres",))
                self.written.update({("postgres", s.setting.name): written for s in settings})
        self.value["profile"] = profiles
        self.written["profile",] = (*at, "profile")

    def _holder(self, path: KeyPath) -> dict[str, Value]:
        holder = self.value
        for key in path:
            below = holder.get(str(key))
            holder[str(key)] = below = below if isinstance(below, dict) else {}
            holder = below
        return holder

    def _forget(self, path: KeyPath) -> None:
        """Forget where a key was written, and what is below one whose keys are inherited."""
        self.written.pop(path, None)
        if _is_keyed(path):
            for known in [known for known in self.written if known[: len(path)] == path]:
                del self.written[known]


def _is_keyed(path: KeyPath) -> bool:
    """Return whether the keys of a mapping are inherited one by one."""
    if path[0] == "target":
        return all(step in _NESTED for step in path[1:])
    return len(path) == 1 and path[0] in (*setting_keys(), "scripts")


def put_over(document: Document, line: Sequence[KeyPath], facts: MachineFacts | None) -> Whole:
    """Return what the mappings at some paths come down to: later ones win, key by key.

    They are a configuration's line of descent, or a configuration and the levels of its factors.
    Within one its profiles come first and its explicit settings after them, so a child's profile
    also replaces what the parent set.
    """
    parts = [(at, part) for at in line if isinstance(part := document.at(at), dict)]
    whole = Whole()
    for at, part in parts:
        if "target" in part:
            whole.put({"target": part["target"]}, at)
    machine = None if facts is None else _told(whole.value.get("target")) or facts
    for at, part in parts:
        if "profile" in part:
            whole.put_profiles(part["profile"], at, machine)
        rest = {k: v for k, v in part.items() if k not in ("extends", "profile", "target")}
        whole.put(rest, at)
    return whole


def _told(target: Value) -> MachineFacts | None:
    """Return what the user says of the server's machine; None where that is not all of it.

    Its disks are not said: profiles have their guesses for that.
    """
    said = target if isinstance(target, dict) else {}
    try:
        cpus, memory = CPUS.read(said.get("cpus")), MEMORY.read(said.get("memory"))
    except InputError:
        return None
    return MachineFacts(cpus=cpus, memory_bytes=memory)


_LONGEST_LINE: Final = 32  # a guess: no experiment comes near it, and what is made stays small


def _is_far(name: str, parents: Mapping[str, str | None]) -> bool:
    """Return whether a line of descent is too long; there are no rings."""
    step: str | None = name
    for _ in range(_LONGEST_LINE):
        step = parents.get(step or "")
    return step is not None


def lineages(document: Document) -> dict[str, tuple[str, ...]]:
    """Return each configuration's line of descent, oldest first; broken lines are left out."""
    parents = parents_in(document)
    found = {name: _ancestors(name, parents) for name in parents}
    return {name: line for name, line in found.items() if line}


def parents_in(document: Document) -> dict[str, str | None]:
    """Return what each configuration extends, as far as that is a name."""
    forms = document.at(("configurations",))
    named = forms.items() if isinstance(forms, dict) else ()
    given = {name: as_meant(form, "extends", ConfigurationForm) for name, form in named}
    return {name: text_of(each) for name, each in given.items()}  # a name may be a number


def _ancestors(name: str, parents: Mapping[str, str | None]) -> tuple[str, ...]:
    line: list[str] = []
    step: str | None = name
    while step is not None:
        if step in line or step not in parents or len(line) == _LONGEST_LINE:
            return ()
        line.append(step)
        step = parents[step]
    return tuple(reversed(line))


SettingKeys = Mapping[KeyPath, KeyPath]  # what a level sets, and where it is written


def spelled_out(document: Document) -> Document:
    """Return the document with every factor in its long form: two levels by name.

    ``buffers: {postgres: {shared_buffers: [128MB, 2GB]}}`` stands for two levels that are called
    by the values.
    """
    for kind in AttributionKind:
        factors = document.at((kind.value,))
        for name, factor in factors.items() if isinstance(factors, dict) else ():
            if _is_short(factor):
                document = _lengthened(document, (kind.value, name))
    return document


def _is_short(factor: Value) -> bool:
    if not isinstance(factor, dict) or list(factor) not in [[key] for key in setting_keys()]:
        return False
    (settings,) = factor.values()
    # With one key it is no pair of levels either: the short form is what was meant.
    return (
        isinstance(settings, dict)
        and bool(settings)
        and not any(isinstance(value, dict) for value in settings.values())
    )


def _lengthened(document: Document, path: KeyPath) -> Document:
    short = document.at(path)
    assert isinstance(short, dict)  # noqa: S101 - it is short
    layer, settings = next(iter(short.items()))
    assert isinstance(settings, dict)  # noqa: S101 - it is short
    name, pair = next(iter(settings.items()))
    written = (*path, layer, name)
    known = {each.about.layer: each.setting for each in SYSTEMS.values()}
    read = known.get(layer, SETTING).read
    if trouble := _not_a_pair(settings, pair, read):
        hint = "Write two values as in `{postgres: {shared_buffers: [128MB, 2GB]}}`, or two levels."
        problem = document.problem(Issue(path=written, message=trouble, hint=hint))
        emptied = _with(document, path, {}, {})
        return replace(emptied, problems=(*document.problems, problem))
    assert isinstance(pair, list)  # noqa: S101 - it is a pair
    levels: dict[str, Value] = {}
    places: dict[KeyPath, Place] = {}
    for index, value in enumerate(pair):
        level = read(value) or ""
        place = document.place((*written, index))
        levels[level] = {layer: {name: value}}
        below = (*path, level)
        places |= {below: place, (*below, layer): place}
        key = document.place(written)
        places[*below, layer, name] = replace(place, key=key.key)
    return _with(document, path, levels, places)


def _not_a_pair(
    settings: Mapping[str, Value], pair: Value, read: Callable[[object], str | None]
) -> str:
    """Return why a short form cannot be read; empty when it can."""
    lists = [value for value in settings.values() if isinstance(value, list)]
    if len(settings) > 1 and lists:
        return f"the short form of a factor is for one setting, and there are {len(settings)}"
    if not isinstance(pair, list) or len(pair) != 2:
        many = len(pair) if isinstance(pair, list) else 1
        return (
            f"a factor has exactly two levels, and there {'is 1' if many == 1 else f'are {many}'}"
        )
    if any(value is None or isinstance(value, list | dict) for value in pair):
        return "the two levels are not values of a setting"
    if read(pair[0]) == read(pair[1]):
        return "the two levels are the same"
    return ""


def _with(
    document: Document, path: KeyPath, levels: Mapping[str, Value], places: Mapping[KeyPath, Place]
) -> Document:
    """Return a document in which one factor has these levels."""
    root = document.value
    kind, name = str(path[0]), str(path[1])
    assert isinstance(root, dict)  # noqa: S101 - it has factors
    factors = root[kind]
    assert isinstance(factors, dict)  # noqa: S101 - it has this one
    value: dict[str, Value] = {**root, kind: {**factors, name: dict(levels)}}
    return replace(document, value=value, places={**document.places, **places})


def factor_issues(draft: Draft, document: Document, facts: MachineFacts) -> Iterator[Issue]:
    """Yield everything that is wrong with factors, or that there is nothing to compare at all.

    ``document`` has the configurations as they are written.
    """
    kinds = draft.factor_kinds
    if not kinds:
        if isinstance(draft.document.value, dict) and not draft.configuration_names:
            is_there = any(draft.meant.at((key,)) is not None for key in WHAT_IS_COMPARED)
            yield from () if is_there else (missing_key(("configurations",)),)
        return
    for kind in kinds[1:]:
        message = f"`{kinds[0]}` and `{kind}` exclude each other"
        hint = f"Keep one; `{kinds[0]}` and `{kind}` make two campaigns."
        yield Issue(path=(kind,), message=message, hint=hint, at_key=True)
    yield from _beside(draft, kinds[0])
    for kind in kinds:
        yield from _each(draft, kind)
        yield from _overlaps(draft, kind, facts)
        yield from _missing(draft, kind, document, facts)


def _beside(draft: Draft, kind: str) -> Iterator[Issue]:
    """Yield what does not go together with factors."""
    names = draft.configuration_names
    if len(names) > 1:
        message = f"beside `{kind}` there is at most one configuration, and there are {len(names)}"
        hint = "Keep what all combinations have in common, and write what varies as factors."
        yield Issue(path=("configurations", names[1]), message=message, hint=hint, at_key=True)
    if draft.design == Design.ONCE:
        message = f"a single pass takes one configuration, and `{kind}` makes several"
        hint = "Remove `design`: blocks are what compares configurations."
        yield Issue(path=("design",), message=message, hint=hint, at_key=True)
    baseline = draft.document.at(("baseline",))
    own = baseline_name(draft, kind)
    if baseline is not None and text_of(baseline) != own:
        message = f"the baseline of `{kind}` is `{own}`, and {shown(baseline)} is given"
        yield Issue(path=("baseline",), message=message, hint="Remove `baseline`.")


def baseline_name(draft: Draft, kind: str) -> str:
    """Return the name of the combination that the others stand against."""
    if kind == AttributionKind.ABLATION:
        return "all"
    return next(iter(draft.configuration_names), "default")


def _each(draft: Draft, kind: str) -> Iterator[Issue]:
    factors = draft.document.at((kind,))
    if not isinstance(factors, dict):
        return
    if kind == AttributionKind.FACTORS and len(factors) > MOST_FACTORS:
        message = f"{len(factors)} factors are more than a design of 16 combinations can carry"
        hint = (
            f"Keep {MOST_FACTORS} at most: weigh the others one by one against the baseline first,"
            " and drop what does nothing."
        )
        yield Issue(path=(kind,), message=message, hint=hint, at_key=True)
    for name, levels in factors.items():
        yield from _named(draft, (kind, name))
        yield from _levels(draft, (kind, name), levels)


def _named(draft: Draft, path: KeyPath) -> Iterator[Issue]:
    try:
        as_key(str(path[-1]))
    except InputError as error:
        hint = "Use up to 40 letters, digits, hyphens and underscores."
        yield Issue(path=path, message=error.message, hint=hint, at_key=True)
    if path[-1] in draft.configuration_names:
        message = f"a configuration and a factor are both called {shown(path[-1])}"
        yield Issue(path=path, message=message, hint="Give each its own name.", at_key=True)


def _levels(draft: Draft, path: KeyPath, levels: Value) -> Iterator[Issue]:
    if not isinstance(levels, dict):
        return  # already refused by the form
    if len(levels) != 2:
        if draft.document.problems and not levels:
            return  # a short form that was refused already
        there = "is 1" if len(levels) == 1 else f"are {len(levels)}"
        message = f"a factor has exactly two levels, and there {there}"
        hint = "Write the level of the baseline first, then the other."
        yield Issue(path=path, message=message, hint=hint, at_key=True)
        return
    for level in levels:
        if not is_label(level):
            message = f"{shown(level)} is no name of a level"
            hint = f"Use up to {LONGEST_NAME} characters on one line."
            yield Issue(path=(*path, level), message=message, hint=hint, at_key=True)
    one, other = (draft.levels.get((*path, level)) for level in levels)
    if one is not None and one == other:
        message = f"the two levels of `{path[-1]}` are the same"
        hint = "Change what one of them sets."
        yield Issue(path=path, message=message, hint=hint, at_key=True)


def _overlaps(draft: Draft, kind: str, facts: MachineFacts) -> Iterator[Issue]:
    """Yield what two factors both set: then a combination would not say whose value holds."""
    sets: dict[str, dict[KeyPath, KeyPath]] = {}
    for path, level in draft.levels.items():
        if path[0] == kind:
            found = sets.setdefault(str(path[1]), {})
            for key, where in _set_by(level, path, facts).items():
                found.setdefault(key, where)
    for (first, ours), (second, theirs) in combinations(sets.items(), 2):
        for key, written in theirs.items():
            if key not in ours:
                continue
            place = draft.document.place(ours[key]).key
            line = f" on line {place[0]}" if place else ""
            message = f"`{key[-1]}` is set by the factor `{second}`, and by `{first}`{line}"
            hint = "Make one factor of the two, or let each set something of its own."
            yield Issue(path=written, message=message, hint=hint, at_key=True)


def _set_by(level: LevelForm, path: KeyPath, facts: MachineFacts) -> SettingKeys:
    """Return what a level sets, profiles spelled out, and where each is written."""
    settings: dict[KeyPath, KeyPath] = {
        (layer, name.lower()): (*path, layer, name)
        for layer, given in (level.settings | {"redis": level.redis}).items()
        for name in given
    }
    for profile in level.profile:
        for profiled in profiled_settings(profile, facts):
            settings.setdefault(("postgres", profiled.setting.name.lower()), (*path, "profile"))
    for key in level.target.entries:
        settings["target", key] = (*path, "target", key)
    settings |= {("scripts", name): (*path, "scripts", name) for name in level.scripts}
    whole = {
        "protocol": level.protocol is not None,
        "prepare": bool(level.prepare),
        "ddl": bool(level.ddl),
        "manual": level.manual is not None,
    }
    return settings | {(key,): (*path, key) for key, is_given in whole.items() if is_given}


def _missing(draft: Draft, kind: str, document: Document, facts: MachineFacts) -> Iterator[Issue]:
    """Yield settings that a level removes although nothing gives them."""
    base = [("configurations", name) for name in draft.configuration_names[:1]]
    for path in draft.levels:
        if path[0] != kind:
            continue
        whole = put_over(document, [*base, path], facts)
        for layer in setting_keys():
            settings = whole.value.get(layer)
            for name, value in settings.items() if isinstance(settings, dict) else ():
                if value is None:
                    message = f"there is no inherited `{name}` to remove"
                    yield Issue(path=(*path, layer, name), message=message, hint=_IN_VAIN)


_IN_VAIN = "Remove the line, or give it in the configuration that all combinations share."


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """The configurations that factors make.

    Attributes:
        baseline: Name of the combination that the others stand against.
        document: With the combinations as its configurations, in their order.
    """

    attribution: Attribution
    baseline: str
    document: Document


def combined(draft: Draft, document: Document, facts: MachineFacts | None) -> Combined | None:
    """Return the configurations of a draft without issues of its factors; None without factors."""
    if not draft.factor_kinds:
        return None
    kind = AttributionKind(draft.factor_kinds[0])
    attribution = _designed(kind, _factors(draft, kind))
    baseline = baseline_name(draft, kind)
    names = combination_names(attribution, baseline)
    base = [("configurations", name) for name in draft.configuration_names]
    sources = {
        name: [*base, *_levels_of_combination(attribution, combination)]
        for name, combination in zip(names, attribution.combinations, strict=True)
    }
    whole = with_wholes(document, sources, facts)
    return Combined(attribution=attribution, baseline=baseline, document=whole)


def _factors(draft: Draft, kind: AttributionKind) -> tuple[Factor, ...]:
    factors = draft.document.at((kind.value,))
    assert isinstance(factors, dict)  # noqa: S101 - the draft is sound
    pairs = {name: list(levels) for name, levels in factors.items() if isinstance(levels, dict)}
    return tuple(
        Factor(name=name, first=first, second=second) for name, (first, second) in pairs.items()
    )


def _designed(kind: AttributionKind, factors: tuple[Factor, ...]) -> Attribution:
    many = len(factors)
    if kind is AttributionKind.LADDER:
        return Attribution(kind=kind, factors=factors, combinations=factorial.ladder(many))
    if kind is AttributionKind.ABLATION:
        return Attribution(kind=kind, factors=factors, combinations=factorial.ablation(many))
    design = factorial.factorial_design(many)
    return Attribution(
        kind=kind,
        factors=factors,
        combinations=design.combinations,
        resolution=design.resolution,
        words=design.words,
    )


def _levels_of_combination(
    attribution: Attribution, combination: Combination
) -> tuple[KeyPath, ...]:
    return tuple(
        (attribution.kind.value, factor.name, factor.second if level else factor.first)
        for factor, level in zip(attribution.factors, combination, strict=True)
    )


def combination_names(attribution: Attribution, baseline: str) -> tuple[str, ...]:
    """Return a name per combination: the baseline's, or its factors' joined by ``+``.

    Names of factors are cut, all to one length, where the longest would exceed what tables and
    legends can show; where cut names would be alike, the factors are numbered.
    """
    names = [factor.name for factor in attribution.factors]
    if attribution.kind is AttributionKind.ABLATION:
        return (baseline, *(f"without-{name}" for name in names))
    short = _shortened(names, taken=baseline)
    return tuple(
        "+".join(name for name, level in zip(short, combination, strict=True) if level) or baseline
        for combination in attribution.combinations
    )


def _shortened(names: Sequence[str], *, taken: str) -> list[str]:
    for length in range(LONGEST_NAME, 0, -1):
        cut = [name[:length].rstrip("-_") or name[:length] for name in names]
        unique = len({*cut, taken}) == len(names) + 1
        if unique and len("+".join(cut)) <= LONGEST_NAME:
            return cut
    return [f"f{number}" for number in range(1, len(names) + 1)]
