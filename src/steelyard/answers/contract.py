"""The contract: on what terms the servers of a campaign were compared, side by side.

What is not known is said to be so, and nothing is guessed. It is told before the first run, stands
in the report, and whoever is not on equal terms with the baseline is marked in all tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Final

from steelyard.answers.cells import differing_settings, shown_settings
from steelyard.answers.durability.compute import survivals_of
from steelyard.answers.durability.rules import Fate, Loss
from steelyard.answers.results import CampaignAnalysis, Grounds, SettingDifference
from steelyard.answers.validity.work_rules import trips_differ
from steelyard.core.experiment import Experiment, ServerTerms
from steelyard.core.findings import Finding, Severity
from steelyard.core.measurement import Environment, ServerEnvironment
from steelyard.core.places import Provision
from steelyard.core.quantities import Computed, Named
from steelyard.core.schedule import Ceiling, CeilingKind, MachineLimits
from steelyard.core.wording import MS_PER_S, PreflightError, format_bytes
from steelyard.report import document as doc

NOT_KNOWN: Final = "not known"
ANCHOR: Final = "contract"
_MARK: Final = " \N{DAGGER}"
_FLUSH: Final = ("fsync", "synchronous_commit", "full_page_writes", "appendonly", "appendfsync")
_STANDBYS: Final = "synchronous_standby_names"
_METHOD: Final = "wal_sync_method"
_NAMED: Final = 6  # settings that differ, by name; more are counted
_NOTE: Final = (
    "As it was before the first run. CPUs and memory are what the place gives at most, of this"
    " machine shared with the load generator. A round trip is the median of an empty statement on"
    " one connection, with its 95 % interval."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One line of a contract.

    Attributes:
        values: ``NOT_KNOWN`` or more of why.
        unequal: Configurations that are known to differ from the baseline in this.
        is_of_terms: A difference makes terms unequal; else it is only told.
    """

    name: Annotated[
        str,
        Named("item"),
        "Subject: CPUs, memory, version, flush, round trip and so on.",
    ]
    values: Annotated[
        Mapping[str, str],
        "Its value by configuration, in words, or `not known`.",
    ]
    unequal: frozenset[str]
    is_of_terms: bool = True

    @property
    def is_known(self) -> bool:
        """Return whether the value of every configuration is known."""
        return not any(value.startswith(NOT_KNOWN) for value in self.values.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """All lines.

    Attributes:
        configurations: In file order.
    """

    baseline: str
    configurations: tuple[str, ...]
    terms: Annotated[
        ServerTerms | None, "as-shipped, matched, or null if the file has no terms."
    ] = None
    unequal: ClassVar = Computed(
        lambda contract: {name: contract.apart(name) for name in contract.marked},
        Annotated[
            Mapping[str, tuple[str, ...]],
            "Terms in which a configuration is known to differ from the baseline, by its name;"
            " without those that are equal in all.",
        ],
    )
    unknown: ClassVar = Computed(
        lambda contract: tuple(
            term.name for term in contract.items if term.is_of_terms and not term.is_known
        ),
        Annotated[
            tuple[str, ...],
            Named("not_known"),
            "Terms that are not known of every configuration.",
        ],
    )
    items: Annotated[tuple[Term, ...], "The lines of the contract."]

    def apart(self, configuration: str) -> tuple[str, ...]:
        """Return the names of the terms in which one is known to differ from the baseline."""
        return tuple(t.name for t in self.items if t.is_of_terms and configuration in t.unequal)

    @property
    def marked(self) -> tuple[str, ...]:
        """Return the configurations that are not on equal terms with the baseline."""
        return tuple(name for name in self.configurations if self.apart(name))


def contract_of(grounds: Grounds) -> Contract | None:
    """Return the contract of a campaign; None where all servers come from one place."""
    return contract(grounds.record.experiment, grounds.record.environment)


def contract(experiment: Experiment, environment: Environment | None) -> Contract | None:
    """Return the contract by what was found; None where it is beside the question.

    It is where all servers are started on this machine, and where they share one place; a file
    that has `terms` has one in any case.
    """
    places = {each.target.identity for each in experiment.configurations}
    several = len(places) > 1 and not experiment.is_all_here
    if environment is None or not (several or experiment.terms):
        return None
    names = tuple(each.name for each in experiment.configurations)
    found = {server.configuration: server for server in environment.servers}
    if not set(names) <= found.keys():
        return None
    terms = _Terms(experiment=experiment, environment=environment, servers=found)
    return Contract(
        baseline=experiment.baseline,
        configurations=names,
        items=tuple(terms.all()),
        terms=experiment.terms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What the lines are made from."""

    experiment: Experiment
    environment: Environment
    servers: dict[str, ServerEnvironment]

    def all(self) -> Iterator[Term]:
        """Yield the lines in the order of reading."""
        servers = [self.servers[name] for name in self.names]
        given = [server.provision or Provision() for server in servers]
        settings = [shown_settings(server) for server in servers]
        sizes = [each.memory_bytes for each in given]
        yield self._plain("CPUs", [None if p.cpus is None else f"{p.cpus:g}" for p in given])
        yield self._plain("memory", [None if n is None else format_bytes(n) for n in sizes])
        yield self._plain("version", [server.version for server in servers])
        flushes = [", ".join(f"{n} {s[n]}" for n in _FLUSH if n in s) for s in settings]
        yield self._plain("flush", [text or None for text in flushes])
        if any(_METHOD in each for each in settings):
            methods = [each.get(_METHOD) for each in settings]
            yield self._plain("flush method", methods, is_of_terms=False)
        if any(_STANDBYS in each for each in settings):
            waits = [each.get(_STANDBYS) for each in settings]
            yield self._plain("commits wait for", [w if w != "" else "no standby" for w in waits])
        yield self._losses()
        yield self._plain("storage", [p.storage or None for p in given], is_of_terms=False)
        yield self._plain("its limits", [p.limits or None for p in given], is_of_terms=False)
        yield self._round_trips()
        yield self._plain("load generator", [self._generator()] * len(self.names))
        yield self._settings()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the configurations in file order."""
        return tuple(each.name for each in self.experiment.configurations)

    def _plain(self, name: str, values: Sequence[str | None], *, is_of_terms: bool = True) -> Term:
        by_name = dict(zip(self.names, values, strict=True))
        base = by_name[self.experiment.baseline]
        return Term(
            name=name,
            values={n: NOT_KNOWN if value is None else value for n, value in by_name.items()},
            unequal=frozenset(n for n, v in by_name.items() if None not in (v, base) and v != base),
            is_of_terms=is_of_terms,
        )

    def _losses(self) -> Term:
        """Return what acknowledged commits do not survive; compared where both sides know it."""
        fates = {name: self._fates(name) for name in self.names}
        base = fates[self.experiment.baseline]
        return Term(
            name="may be lost",
            values={name: _fate_words(each) for name, each in fates.items()},
            unequal=frozenset(
                name
                for name, each in fates.items()
                for loss, fate in each.items()
                if Fate.UNKNOWN not in (fate, base[loss]) and fate is not base[loss]
            ),
        )

    def _fates(self, configuration: str) -> dict[Loss, Fate]:
        found = survivals_of(self.experiment.configuration(configuration), self.environment)
        return {each.loss: each.fate for each in found}

    def _round_trips(self) -> Term:
        trips = {name: self._trip(name) for name in self.names}
        known = {n: t.latency_s for n, t in trips.items() if t and t.latency_s is not None}
        base = known.get(self.experiment.baseline)
        return Term(
            name="round trip",
            values={name: self._trip_words(trip) for name, trip in trips.items()},
            unequal=frozenset(
                name for name, s in known.items() if base is not None and trips_differ(s, base)
            ),
        )

    def _trip(self, configuration: str) -> Ceiling | None:
        trips = (c for c in self.environment.ceilings if c.kind is CeilingKind.ROUND_TRIP)
        return next((c for c in trips if configuration in c.configurations), None)

    def _trip_words(self, trip: Ceiling | None) -> str:
        """Return a round trip in milliseconds, with the interval of its median; or why not."""
        if trip is None or trip.latency_s is None:
            off = self.experiment.measure.machine_limits is MachineLimits.OFF
            why = "`measure.machine_limits: off`" if off else "" if trip is None else trip.unknown
            return f"{NOT_KNOWN}: {why}" if why else NOT_KNOWN
        ms = f"{trip.latency_s * MS_PER_S:.3f} ms"
        if trip.low_s is not None and trip.high_s is not None:
            ms += f" [{trip.low_s * MS_PER_S:.3f}, {trip.high_s * MS_PER_S:.3f}]"
        return f"{ms}, of {trip.samples}"

    def _generator(self) -> str:
        # A Job knows no context; in records of before, pods carried the load from anywhere.
        facts = {fact.name: fact.value for fact in self.environment.facts}
        targets = [each.target for each in self.experiment.configurations]
        pods = all(target.home is not None for target in targets) and (
            facts.get("context") == "in-cluster" or "generators' image" in facts
        )
        return "pods of the cluster" if pods else self.experiment.generator_host or "this machine"

    def _settings(self) -> Term:
        apart = differing_settings(self.environment, self.experiment)
        own = [each for each in apart if not each.name.startswith("target: ")]
        base = self.experiment.baseline
        unequal = {n: [d for d in own if d.values[n] != d.values[base]] for n in self.names}
        return Term(
            name="settings that differ",
            values={name: _listed(settings) for name, settings in unequal.items()},
            unequal=frozenset(name for name, settings in unequal.items() if settings),
            is_of_terms=False,
        )


def _fate_words(fates: Mapping[Loss, Fate]) -> str:
    """Return what may be lost, with the failures by which: ``nothing: server killed``."""
    by_fate: dict[Fate, list[str]] = {}
    for loss, fate in fates.items():
        by_fate.setdefault(fate, []).append(loss.value)
    if by_fate.keys() <= {Fate.UNKNOWN}:
        return NOT_KNOWN
    return "; ".join(f"{fate.value}: {', '.join(losses)}" for fate, losses in by_fate.items())


def _listed(found: Sequence[SettingDifference]) -> str:
    if len(found) > _NAMED:
        return f"{len(found)}, see the settings"
    return ", ".join(each.name for each in found) or "none"


def contract_table(found: Contract) -> doc.Table:
    """Return the contract as a table, a column for each configuration."""
    return doc.table_of(
        found.items,
        ("term", lambda term: term.name),
        *(
            (doc.Column(name=name), partial(lambda name, term: term.values[name], name))
            for name in found.configurations
        ),
        title="Contract",
        note=_note(found),
    )


def contract_in_brief(found: Contract) -> doc.Table:
    """Return what a run is told of it before it begins: the terms that differ, and which do not."""
    apart = tuple(term for term in found.items if term.unequal)
    rest = [term for term in found.items if not term.unequal]
    equal = tuple(term.name for term in rest if term.is_known)
    unknown = tuple(term.name for term in rest if not term.is_known)
    told = (
        f"Equal: {doc.enumeration(equal)}." if equal else "",
        f"Not known of all: {doc.enumeration(unknown)}." if unknown else "",
        "" if apart else "Nothing is known to differ.",
        "The report has all of it.",
    )
    table = contract_table(replace(found, items=apart))
    return replace(table, note=" ".join(filter(None, told)))


def _note(found: Contract) -> str:
    told = {
        ServerTerms.AS_SHIPPED: "Terms: as the vendor ships it; differences are part of the offer.",
        ServerTerms.MATCHED: "Terms: matched, so CPUs, memory, version and durability are equal as"
        " far as they are known.",
    }
    return " ".join(filter(None, (_NOTE, "" if found.terms is None else told[found.terms])))


def contract_section(_: CampaignAnalysis, found: Contract) -> tuple[doc.Section, ...]:
    """Return the contract as a section."""
    return (doc.Section(anchor=ANCHOR, title="Contract", blocks=(contract_table(found),)),)


def contract_findings(grounds: Grounds) -> Iterator[Finding]:
    """Yield a finding for each configuration that is not on equal terms with the baseline."""
    found = contract_of(grounds)
    if found is None:
        return
    severity = Severity.INFO if found.terms is ServerTerms.AS_SHIPPED else Severity.WARNING
    for name in found.marked:
        yield Finding(
            code="unequal-terms",
            severity=severity,
            message=f"{name} and {found.baseline} are not on equal terms:"
            f" {'; '.join(_apart_words(found, name))}",
            remedy="Read the difference as that of the whole offer (`terms: as-shipped`), or give"
            " both the same (`terms: matched`).",
            source="the contract",
            subject=name,
        )
    if found.terms is ServerTerms.MATCHED and found.unknown:
        yield Finding(
            code="terms-not-known",
            severity=Severity.WARNING,
            message=f"whether the servers are matched in {doc.enumeration(found.unknown)} is not"
            " known",
            remedy="Look it up where the servers come from: nothing here can ask for it.",
            source="the contract",
            subject="campaign",
        )


def _apart_words(found: Contract, name: str) -> Iterator[str]:
    for term in found.items:
        if term.is_of_terms and name in term.unequal:
            yield f"{term.name} {term.values[name]} against {term.values[found.baseline]}"


# Where the load comes from and how far away it is are no terms that a server can be matched in.
_MATCHED: Final = ("CPUs", "memory", "version", "flush", "commits wait for", "may be lost")


def require_matched(found: Contract | None) -> None:
    """Refuse servers that differ where the file asks for matched ones.

    Raises:
        PreflightError: With all that differs.
    """
    if found is None or found.terms is not ServerTerms.MATCHED:
        return
    matched = replace(found, items=tuple(t for t in found.items if t.name in _MATCHED))
    told = [
        f"`{name}` and `{found.baseline}` differ in {', '.join(_apart_words(matched, name))}"
        for name in matched.marked
    ]
    if told:
        raise PreflightError(
            f"the servers are not matched (`terms: matched`): {'; '.join(told)}",
            hint="Make them equal, or compare them as they are shipped (`terms: as-shipped`).",
        )


def with_marks(
    sections: Iterable[doc.Section], analysis: CampaignAnalysis
) -> Iterator[doc.Section]:
    """Yield sections whose tables mark who is not on equal terms with the baseline."""
    found = analysis.answer(contract_of)
    if found is None or not found.marked:
        yield from sections
        return
    for section in sections:
        blocks = tuple(_marked(block, found) for block in section.blocks)
        brief = tuple(_marked(block, found) for block in section.brief)
        more = tuple(_marked(block, found) for block in section.more)
        marked = replace(section, blocks=blocks, brief=brief, more=more)
        yield section if section.anchor == ANCHOR else marked


def _marked(block: doc.Block, found: Contract) -> doc.Block:
    if isinstance(block, doc.VerdictCards):
        cards = (
            replace(card, notes=(*card.notes, *_detail(card.configuration, found)))
            for card in block.cards
        )
        rankings = tuple(_marked_table(table, found) for table in block.rankings)
        return replace(block, cards=tuple(cards), rankings=rankings)
    return _marked_table(block, found) if isinstance(block, doc.Table) else block


def _detail(name: str, found: Contract) -> Iterator[str]:
    """Yield in what the configuration of a card is not on equal terms."""
    if name in found.marked:
        yield f"not on equal terms: {', '.join(found.apart(name))}"


def _marked_table(table: doc.Table, found: Contract) -> doc.Table:
    """Return a table with a sign at each name of who is not on equal terms; its data stay."""
    keys = [column.key or column.name for column in table.columns]
    place = keys.index("configuration") if "configuration" in keys else None
    # Rows that are made by hand do not say whose they are.
    whose = [row.configuration or (place is not None and row.cells[place]) for row in table.rows]
    marked = [name for name in found.marked if name in whose]
    if place is None or not marked:
        return table
    rows = (
        replace(row, marks=((place, _MARK),)) if name in marked else row
        for row, name in zip(table.rows, whose, strict=True)
    )
    apart = "; ".join(f"{name}: {', '.join(found.apart(name))}" for name in marked)
    foot = f"\N{DAGGER} not on equal terms with {found.baseline} ({apart}), see the contract."
    return replace(
        table,
        rows=tuple(rows),
        note=" ".join(filter(None, (table.note, foot))),
        brief=" ".join(filter(None, (table.brief, foot))),
        gist=f"{table.gist} {foot}" if table.gist else "",
    )
