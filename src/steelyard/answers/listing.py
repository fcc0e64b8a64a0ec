"""A list of campaigns, and one of them in full: what was asked, where it stands, what is left."""

from dataclasses import dataclass

from steelyard.answers.attribution import design_words
from steelyard.answers.durability.section import trades_json
from steelyard.answers.report import summary
from steelyard.answers.result.method import design_pairs
from steelyard.answers.results import FORMAT, CampaignAnalysis
from steelyard.answers.tables import fact_section, settings_section
from steelyard.answers.wording import (
    LABEL,
    cell_name,
    is_interim,
    verdict_sentence,
    verdict_word,
    what_it_runs,
)
from steelyard.core.campaign import Status
from steelyard.core.experiment import Configuration, Experiment
from steelyard.core.units import format_bytes, format_duration
from steelyard.report.document import (
    MISSING,
    Align,
    Block,
    Column,
    Command,
    Document,
    Json,
    KeyValues,
    Paragraph,
    Row,
    Section,
    Table,
    Tone,
    count,
    filled,
    number,
    share,
    utc,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One campaign's directory with what is in it.

    Attributes:
        directory: As given or found.
        size_bytes: Of the whole record on disk.
        held: A living Steelyard writes it.
        analysis: None when the record cannot be read.
        problem: Why not; empty otherwise.
        left: Directories and the like outside the record that are not removed.
    """

    directory: str
    size_bytes: int
    held: bool = False
    analysis: CampaignAnalysis | None = None
    problem: str = ""
    left: tuple[str, ...] = ()


def state(listed: Listed) -> str:
    """Return where a campaign stands; one that nobody writes any more has died."""
    if listed.analysis is None:
        return "damaged"
    status = listed.analysis.status
    if status is Status.RUNNING:
        return "running" if listed.held else "died, can be resumed"
    return status.value


def short_verdicts(analysis: CampaignAnalysis) -> str:
    """Return every result in a word or two: ``reads fitted: faster; writes fitted: slower``."""
    if analysis.experiment.is_single_pass:
        return f"none: {LABEL}"
    margin = analysis.experiment.stop.equivalence
    told = (f"{c.workload} {c.configuration}: {verdict_word(c, margin)}" for c in analysis.results)
    when = "interim: " if analysis.results and is_interim(analysis) else ""
    return f"{when}{'; '.join(told) or 'none'}"


def listing_document(campaigns: tuple[Listed, ...], places: str) -> Document:
    """Return the table of campaigns, oldest first."""
    columns = (
        Column(name="started"),
        Column(name="directory"),
        Column(name="name", spare=True),
        Column(name="status"),
        Column(name="blocks", align=Align.RIGHT, spare=True),
        Column(name="size", align=Align.RIGHT, spare=True),
        Column(name="verdicts"),
    )
    block: Block = Paragraph(text=f"No campaign is below {places}.")
    if campaigns:
        rows = tuple(map(_listing_row, campaigns))
        block = Table(title="Campaigns", columns=columns, rows=rows, tone_column=3)
    return Document(
        title=count(len(campaigns), "campaign"),
        subtitle=f"below {places}",
        sections=(Section(anchor="campaigns", title="Campaigns", blocks=(block,)),),
    )


def _listing_row(listed: Listed) -> Row:
    analysis = listed.analysis
    size = format_bytes(listed.size_bytes)
    if analysis is None:
        cells = (MISSING, listed.directory, MISSING, "damaged", MISSING, size, listed.problem)
        return Row(cells=cells, tone=Tone.ERROR)
    most = MISSING if analysis.plan is None else f"{analysis.plan.stopping.max_blocks}"
    cells = (
        utc(analysis.started_at),
        listed.directory,
        analysis.experiment.name,
        state(listed),
        f"{analysis.blocks} of {most}",
        size,
        short_verdicts(analysis),
    )
    return Row(cells=cells)


def listing_json(campaigns: tuple[Listed, ...]) -> dict[str, Json]:
    """Return the list for programs."""
    return {"format": FORMAT, "campaigns": [_listed_json(listed) for listed in campaigns]}


def _listed_json(listed: Listed) -> dict[str, Json]:
    analysis = listed.analysis
    head: dict[str, Json] = {
        "directory": listed.directory,
        "status": state(listed),
        "size_bytes": listed.size_bytes,
        "problem": listed.problem or None,
        "left_behind": list(listed.left),
    }
    if analysis is None:
        return head
    plan = analysis.plan
    return {
        **head,
        "campaign": analysis.campaign_id,
        "name": analysis.experiment.name,
        "started_at": number(analysis.started_at),
        "elapsed_s": number(analysis.elapsed_s),
        "blocks": analysis.blocks,
        "max_blocks": None if plan is None else plan.stopping.max_blocks,
        "verdicts": [
            {
                "workload": c.workload,
                "configuration": c.configuration,
                "verdict": c.verdict.value,
                **({} if c.instances is None else {"claims_cause": not c.is_of_pair}),
                **trades_json(c.trades),
            }
            for c in analysis.results
        ],
    }


def campaign_document(listed: Listed, analysis: CampaignAnalysis) -> Document:
    """Return one campaign in full: experiment, plan, position, environment, what is left."""
    document = Document(
        title=analysis.experiment.name,
        subtitle=f"{analysis.campaign_id} · {state(listed)} · {utc(analysis.started_at)}",
        description=analysis.experiment.description,
        sections=(
            _position(listed, analysis),
            _experiment(analysis.experiment),
            _plan(analysis),
            settings_section(analysis),
            fact_section(analysis),
            _left(listed),
        ),
    )
    return filled(document, analysis.experiment.words)


def _position(listed: Listed, analysis: CampaignAnalysis) -> Section:
    experiment, plan = analysis.experiment, analysis.plan
    most = "not planned yet" if plan is None else f"of at most {plan.stopping.max_blocks}"
    budget = format_duration(experiment.stop.budget_s)
    pairs = [
        ("directory", listed.directory),
        ("size", format_bytes(listed.size_bytes)),
        ("status", state(listed)),
        ("blocks", f"{analysis.blocks} complete, {most}"),
        (_lost(experiment), str(len(analysis.blocks_redone))),
        ("time", f"{format_duration(analysis.elapsed_s)} of {budget}"),
        *(("verdict", verdict_sentence(analysis, result)) for result in analysis.results),
    ]
    blocks: list[Block] = [KeyValues(title="", pairs=tuple(pairs))]
    if analysis.command:
        blocks.append(Command(text=analysis.command))
    return Section(anchor="position", title="Where it stands", blocks=tuple(blocks))


def _lost(experiment: Experiment) -> str:
    return "interruptions" if experiment.is_single_pass else "tries thrown away"


def _experiment(experiment: Experiment) -> Section:
    goal = LABEL if experiment.is_single_pass else _goal(experiment)
    pairs = [
        ("baseline", experiment.baseline),
        *_factors(experiment),
        *((f"configuration {t.name}", _asked(t)) for t in experiment.configurations),
        *((f"workload {w.name}", what_it_runs(w)) for w in experiment.workloads),
        ("loads", "; ".join(cell_name(experiment, load) for load in experiment.loads)),
        ("goal", goal),
        ("seed", str(experiment.seed)),
    ]
    block = KeyValues(title="", pairs=tuple(pairs))
    return Section(anchor="experiment", title="Experiment", blocks=(block,))


def _factors(experiment: Experiment) -> tuple[tuple[str, str], ...]:
    """Return what the configurations stand for, where factors were varied."""
    design = experiment.attribution
    return () if design is None else (("factors", design_words(design)),)


def _goal(experiment: Experiment) -> str:
    stop = experiment.stop
    if experiment.twin_of is not None:
        return f"the noise of {experiment.twin_of.name}, until the budget ends"
    if stop.precision is None:
        return f"a verdict in every workload (worth deciding: {share(stop.decide)})"
    return f"a half-width of {share(stop.precision)}"


def _asked(configuration: Configuration) -> str:
    settings = ", ".join(f"{s.label} = {s.value or '(empty)'}" for s in configuration.settings)
    profiles = f" (profile {', '.join(configuration.profiles)})" if configuration.profiles else ""
    return f"target {configuration.target.kind}; {settings or 'no settings'}{profiles}"


def _plan(analysis: CampaignAnalysis) -> Section:
    if analysis.plan is None:
        text = "Not frozen yet: the first block has not begun."
        return Section(anchor="plan", title="Plan", blocks=(Paragraph(text=text),))
    block = KeyValues(title="", pairs=design_pairs(analysis, analysis.plan))
    return Section(anchor="plan", title="Plan", blocks=(block,))


def _left(listed: Listed) -> Section:
    title = "Left behind outside the record"
    if not listed.left:
        return Section(anchor="left", title=title, blocks=(Paragraph(text="Nothing."),))
    whose = "in use by the running campaign" if listed.held else "`steelyard clean` removes it"
    pairs = KeyValues(title=whose, pairs=tuple(("left", name) for name in listed.left))
    return Section(anchor="left", title=title, blocks=(pairs,))


def campaign_json(listed: Listed, analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return one campaign in full for programs."""
    return {
        **summary(analysis),
        **_listed_json(listed),
        "facts": [{"subject": f.subject, "name": f.name, "value": f.value} for f in analysis.facts],
    }
