"""Factors of an experiment file: their short form, what is wrong with them, what they become.

The configurations are the combinations that are measured, each with its name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from steelyard.campaign.file.document import Document, Issue, KeyPath, Place, Value
from steelyard.campaign.file.form import Draft, LevelForm, missing_key, setting_keys
from steelyard.campaign.file.form_target import redis_value
from steelyard.campaign.file.form_values import setting_value, word
from steelyard.campaign.file.inheritance import put_over, with_wholes
from steelyard.core.experiment import Attribution, AttributionKind, Combination, Design, Factor
from steelyard.core.quantities import shown
from steelyard.core.wording import LONGEST_NAME, InputError, is_label
from steelyard.stats import factorial
from steelyard.stats.factorial import MOST_FACTORS
from steelyard.tuning.profiles import MachineFacts, profiled_settings

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
    return isinstance(settings, dict) and any(isinstance(v, list) for v in settings.values())


def _lengthened(document: Document, path: KeyPath) -> Document:
    short = document.at(path)
    assert isinstance(short, dict)  # noqa: S101 - it is short
    layer, settings = next(iter(short.items()))
    assert isinstance(settings, dict)  # noqa: S101 - it is short
    name, pair = next(iter(settings.items()))
    written = (*path, layer, name)
    read = redis_value if layer == "redis" else setting_value
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
    if len(settings) > 1:
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
            empty = draft.document.at(("configurations",)) is not None
            yield from () if empty else (missing_key(("configurations",)),)
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
    if draft.document.at(("design",)) == Design.ONCE:
        message = f"a single pass takes one configuration, and `{kind}` makes several"
        hint = "Remove `design`: blocks are what compares configurations."
        yield Issue(path=("design",), message=message, hint=hint, at_key=True)
    baseline = draft.document.at(("baseline",))
    own = baseline_name(draft, kind)
    if baseline is not None and baseline != own:
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
        word(path[-1])
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
    for key in level.target.model_dump(exclude_none=True):
        settings["target", key] = (*path, "target", key)
    whole = {
        "protocol": level.protocol is not None,
        "prepare": bool(level.prepare),
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
            for setting, value in settings.items() if isinstance(settings, dict) else ():
                if value is None:
                    message = f"there is no inherited `{setting}` to remove"
                    yield Issue(path=(*path, layer, setting), message=message, hint=_IN_VAIN)


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
