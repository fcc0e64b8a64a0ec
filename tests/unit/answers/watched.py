"""Made records whose runs were watched: evidence by configuration."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from made_records import compared

from steelyard.answers.observations import observe
from steelyard.answers.validity.facts import CampaignFacts
from steelyard.answers.validity.work_rules import CAMPAIGN_RULES, judged
from steelyard.core import measurement
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import EffectiveSetting, Experiment, Layer, Setting
from steelyard.core.findings import Finding, Ruling

RUN_S = 7.0
Numbers = Mapping[str, float]


def seen(
    totals: Numbers | None = None,
    levels: Numbers | None = None,
    *,
    client: float | None = None,
    absent: tuple[measurement.Absence, ...] = (),
) -> measurement.Evidence:
    """Return evidence; ``client`` is the mean number of sessions that waited for theirs."""
    event = measurement.WaitEvent(
        kind="Client", name="ClientRead", group=measurement.WaitClass.CLIENT, sessions=client or 0.0
    )
    waits = measurement.Waits(source="made", samples=50, lost=0, events=(event,))
    return measurement.Evidence(
        seconds=RUN_S,
        totals=dict(totals or {}),
        levels=dict(levels or {}),
        waits=None if client is None else waits,
        series=(),
        others=(),
        absent=absent,
    )


def watched(
    by_run: Callable[[measurement.Run], measurement.Evidence | None],
    *,
    blocks: int = 12,
    experiment: Experiment | None = None,
) -> CampaignRecord:
    """Return a record of equal configurations whose runs carry evidence."""
    record = compared(blocks, experiment=experiment)
    return replace(record, runs=tuple(replace(run, evidence=by_run(run)) for run in record.runs))


def both(
    baseline: measurement.Evidence | None, other: measurement.Evidence | None, **how: object
) -> CampaignRecord:
    """Return a record in which all runs of a configuration were seen alike."""
    return watched(lambda run: baseline if run.configuration == "t0" else other, **how)


def with_settings(record: CampaignRecord, **by_configuration: Mapping[str, str]) -> CampaignRecord:
    """Return it with what the configurations' servers report as in force."""
    servers = tuple(
        measurement.ServerEnvironment(
            configuration=name,
            version="18.1",
            settings=tuple(EffectiveSetting(name=n, value=v) for n, v in settings.items()),
        )
        for name, settings in by_configuration.items()
    )
    return replace(record, environment=measurement.Environment(facts=(), servers=servers))


def asking(experiment: Experiment, layer: Layer = Layer.POSTGRES, **asked: str) -> Experiment:
    """Return an experiment whose last configuration asks for settings."""
    *rest, last = experiment.configurations
    settings = tuple(Setting(layer=layer, name=n, value=v) for n, v in sorted(asked.items()))
    return replace(experiment, configurations=(*rest, replace(last, settings=settings)))


def rulings(record: CampaignRecord, code: str) -> list[Ruling]:
    """Return everything that a rule says of a record."""
    facts = CampaignFacts(record=record, seen=observe(record))
    (rule,) = [rule for rule in CAMPAIGN_RULES if rule.code == code]
    return list(rule.judge(facts))


def found(record: CampaignRecord, code: str) -> Finding | None:
    """Return the first finding of a rule in a whole analysis' rules, or None."""
    return next((f for f in judged(record, observe(record)) if f.code == code), None)


def missing(record: CampaignRecord, code: str) -> str:
    """Return what a rule lacked; empty when nothing."""
    return next((ruling.missing for ruling in rulings(record, code) if ruling.missing), "")
