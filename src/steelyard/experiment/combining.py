"""From factors to treatments: which combinations are measured, and what each is called."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steelyard.experiment.document import Issue, KeyPath
from steelyard.experiment.factors import baseline_name
from steelyard.experiment.lineage import Merged, merge
from steelyard.experiment.validation import Draft
from steelyard.model.attribution import Attribution, AttributionKind, Combination, Factor
from steelyard.stats import factorial
from steelyard.tuning.profiles import MachineFacts

LONGEST_NAME: Final = 40  # as of names in the file: tables and legends are made for that


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """The treatments that factors make.

    Attributes:
        baseline: Name of the combination that the others stand against.
        merged: Every treatment with all it has, in the order of the combinations.
        written_in: Where a treatment's keys may be written, what counts most first.
    """

    attribution: Attribution
    baseline: str
    merged: Mapping[str, Merged]
    written_in: Mapping[str, tuple[KeyPath, ...]]


def combined(draft: Draft, facts: MachineFacts) -> Combined | None:
    """Return the treatments of a draft without issues of its factors; None without factors."""
    if not draft.factor_kinds:
        return None
    kind = AttributionKind(draft.factor_kinds[0])
    attribution = _designed(kind, _factors(draft, kind))
    baseline = baseline_name(draft, kind)
    names = combination_names(attribution, baseline)
    base = tuple(("treatments", name) for name in draft.treatment_names)
    levels = {
        name: _levels(attribution, combination)
        for name, combination in zip(names, attribution.combinations, strict=True)
    }
    forms = [draft.treatments[name] for name in draft.treatment_names]
    return Combined(
        attribution=attribution,
        baseline=baseline,
        merged={
            name: merge([*forms, *(draft.levels[path] for path in paths)], facts)
            for name, paths in levels.items()
        },
        written_in={name: (*reversed(paths), *base) for name, paths in levels.items()},
    )


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


def _levels(attribution: Attribution, combination: Combination) -> tuple[KeyPath, ...]:
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


def relocated(issues: Iterable[Issue], plan: Combined, draft: Draft) -> list[Issue]:
    """Return issues of combinations at the places where they are written, each once."""
    return list(dict.fromkeys(_relocated(issue, plan, draft) for issue in issues))


def _relocated(issue: Issue, plan: Combined, draft: Draft) -> Issue:
    name = str(issue.path[1]) if len(issue.path) > 1 else ""
    sources = plan.written_in.get(name, ())
    if issue.path[:1] != ("treatments",) or not sources:
        return issue
    below = issue.path[2:]
    found = (path for source in sources if (path := (*source, *below)) in draft.document.places)
    path = next(found, (plan.attribution.kind.value,)) if below else sources[0]
    return Issue(path=path, message=issue.message, hint=issue.hint, at_key=issue.at_key)
