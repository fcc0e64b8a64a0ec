"""Several campaigns side by side: a row per workload and load, a column per environment.

An environment is a configuration in a campaign. Those that play one role in different campaigns are
compared, and may have different names there: then names say which is which. Workloads are never
averaged into one number, and campaigns are not interleaved: each pair says what that means.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from steelyard.answers.campaign import analyse
from steelyard.answers.comparison import (
    CONFOUNDED,
    CampaignPair,
    across_document,
    across_summary,
    compare_campaigns,
)
from steelyard.answers.results import CellSummary
from steelyard.core.campaign import CampaignRecord
from steelyard.core.findings import Estimate
from steelyard.core.schedule import CellKey
from steelyard.core.wording import InputError
from steelyard.report import document as doc
from steelyard.report.keys import keys_of, row_of

Names = Mapping[str, str]  # from a configuration's name to that of its role
_NOTE: Final = (
    "Each figure is the median of the runs of its own campaign with its interval over blocks, and"
    " describes that campaign. Whether two differ is for the ratios below to say."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One column.

    Attributes:
        label: Heads the column, no two of which are alike.
        cells: What was measured of it under closed loops.
    """

    campaign: Annotated[str, "Id of the campaign."]
    configuration: Annotated[str, "Its name in its campaign."]
    role: Annotated[str, "The name that it is counted as."]
    label: str
    cells: Mapping[CellKey, CellSummary]

    def tps(self, cell: CellKey) -> Estimate | None:
        """Return the rate of a cell; None where it was not measured."""
        return self.cells[cell].tps if cell in self.cells else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """Several campaigns.

    Attributes:
        cells: What more than one environment measured, in the first one's order.
        pairs: Each other campaign against the first.
    """

    columns: tuple[Environment, ...]
    cells: tuple[CellKey, ...]
    pairs: tuple[CampaignPair, ...]


def compare_environments(records: Sequence[CampaignRecord], names: Names) -> Environments:
    """Return campaigns side by side, and each against the first.

    Args:
        records: At least two.
        names: Of configurations that are counted as those of another name.

    Raises:
        InputError: A name is in no campaign, names make one configuration of two, or a campaign has
            no configuration under the same work in common with the first.
    """
    _require_known(records, names)
    counted = [_counted_as(record, names) for record in records]
    pairs = tuple(compare_campaigns(counted[0], other) for other in counted[1:])
    columns = _labelled(
        [each for pair in zip(records, counted, strict=True) for each in _of(*pair)]
    )
    shared = Counter(
        role for one in counted for role in {c.name for c in one.experiment.configurations}
    )
    kept = tuple(each for each in columns if shared[each.role] > 1)
    cells = dict.fromkeys(cell for each in kept for cell in each.cells)
    return Environments(
        columns=kept,
        cells=tuple(c for c in cells if sum(c in each.cells for each in kept) > 1),
        pairs=pairs,
    )


def _require_known(records: Sequence[CampaignRecord], names: Names) -> None:
    known = {each.name for record in records for each in record.experiment.configurations}
    for name in names:
        if name not in known:
            raise InputError(
                f"--as names `{name}`, which is a configuration of none of the campaigns",
                hint=f"They have: {', '.join(sorted(known))}.",
            )


def _counted_as(record: CampaignRecord, names: Names) -> CampaignRecord:
    """Return a record whose configurations are called by their roles.

    Raises:
        InputError: Two of them have one role.
    """
    experiment, environment = record.experiment, record.environment
    roles = Counter(names.get(each.name, each.name) for each in experiment.configurations)
    twice = [role for role, times in roles.items() if times > 1]
    if twice:
        raise InputError(
            f"--as makes one configuration of two of {record.campaign_id}: {', '.join(twice)}",
            hint="Rename only what no campaign has beside its new name.",
        )

    def role(name: str) -> str:
        return names.get(name, name)

    servers = () if environment is None else environment.servers
    return replace(
        record,
        experiment=replace(
            experiment,
            baseline=role(experiment.baseline),
            configurations=tuple(
                replace(each, name=role(each.name)) for each in experiment.configurations
            ),
        ),
        environment=environment
        and replace(
            environment,
            servers=tuple(replace(s, configuration=role(s.configuration)) for s in servers),
        ),
        runs=tuple(replace(run, configuration=role(run.configuration)) for run in record.runs),
    )


def _of(record: CampaignRecord, counted: CampaignRecord) -> Iterator[Environment]:
    """Yield the columns of a campaign."""
    measured = analyse(record, curves=False).cells
    both = zip(record.experiment.configurations, counted.experiment.configurations, strict=True)
    for own, named in both:
        yield Environment(
            campaign=record.campaign_id,
            configuration=own.name,
            role=named.name,
            label=own.name,
            cells={
                each.cell: each
                for each in measured
                if each.configuration == own.name and each.runs and not each.cell.load.is_open
            },
        )


def _labelled(columns: Sequence[Environment]) -> tuple[Environment, ...]:
    """Return the columns with labels of their own: with the campaign where names are alike."""
    times = Counter(each.label for each in columns)
    return tuple(
        replace(each, label=f"{each.label}, {each.campaign}") if times[each.label] > 1 else each
        for each in columns
    )


def environments_document(found: Environments) -> doc.Document:
    """Return the campaigns as a document: side by side, then each against the first."""
    documents = [across_document(pair) for pair in found.pairs]
    if len(documents) == 1:
        confounded, *rest = documents[0].sections
        sections = (confounded, _side_by_side(found), *rest)
        return replace(documents[0], sections=sections)
    first = found.pairs[0]
    moments = [first.started_at[0], *(pair.started_at[1] for pair in found.pairs)]
    return doc.Document(
        title=f"{len(moments)} campaigns against {first.ids[0]}",
        subtitle=f"not interleaved · {', '.join(map(doc.utc, moments))}",
        sections=(
            replace(documents[0].sections[0], title="Several campaigns"),
            _side_by_side(found),
            *(
                replace(
                    section,
                    title=f"{pair.ids[1]}: {section.title}",
                    anchor=f"{section.anchor}-{place}",
                )
                for place, (pair, document) in enumerate(
                    zip(found.pairs, documents, strict=True), 1
                )
                for section in document.sections[1:]
            ),
        ),
    )


def _side_by_side(found: Environments) -> doc.Section:
    title = "Environments side by side"
    table = doc.table_of(
        found.cells,
        ("workload", lambda cell: cell.workload),
        (doc.number_column("clients"), lambda cell: str(cell.load.clients)),
        (doc.number_column("threads", spare=True), lambda cell: str(cell.load.threads)),
        *(doc.column(each.label, each.tps, _RATE, key=each.label) for each in found.columns),
        title=title,
        note=_NOTE,
        data=row_of,
    )
    return doc.Section(anchor="environments", title=title, blocks=(table,))


def _rate(tps: Estimate) -> str:
    interval = "" if doc.bounds(tps) is None else f" ({doc.between(tps, doc.rate)})"
    return f"{doc.rate(tps.value)}{interval}"


_RATE: Final = doc.Form(show=_rate, heading="1/s")


def environments_summary(found: Environments) -> dict[str, doc.Json]:
    """Return the campaigns for programs; of two what they differ in stands at the top, too."""
    side_by_side: doc.Json = [
        {
            **keys_of(cell),
            "environments": [_figure_json(each, cell) for each in found.columns],
        }
        for cell in found.cells
    ]
    pairs = [across_summary(pair) for pair in found.pairs]
    if len(pairs) == 1:
        return {**pairs[0], "side_by_side": side_by_side}
    return {
        "format": doc.FORMAT,
        "kind": "environments",
        "note": CONFOUNDED,
        "interleaved": False,
        "campaigns": [found.pairs[0].ids[0], *(pair.ids[1] for pair in found.pairs)],
        "side_by_side": side_by_side,
        "pairs": [*pairs],
    }


def _figure_json(column: Environment, cell: CellKey) -> dict[str, doc.Json]:
    tps = column.tps(cell)
    low, high = doc.bounds(tps) or (None, None)
    ends = {"tps": None if tps is None else tps.value, "low": low, "high": high}
    return {**keys_of(column), **{key: doc.number(value) for key, value in ends.items()}}
