"""Every configuration in every cell described on its own, without effects against the baseline.

Here are also the stalled slices of the configurations against the baseline's, and what a report
says of a single unrepeated pass at every place where it could mislead.

Effective settings that differ between servers, asked for or not, follow: of combinations by the
factors that move them. From the noise between newly made servers follows how many runs in each
would have been best.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np

from steelyard.answers import results
from steelyard.answers.latency.compute import percentile_name
from steelyard.answers.observations import (
    Observations,
    ResultContrast,
    estimate_of,
    median_latency_s,
    result_contrasts,
)
from steelyard.core.campaign import CampaignPlan
from steelyard.core.experiment import (
    Attribution,
    Configuration,
    EffectiveSetting,
    Experiment,
    SwitchCost,
)
from steelyard.core.findings import Estimate, Finding, Validity
from steelyard.core.measurement import Environment, Run, ServerEnvironment
from steelyard.core.quantities import INLINE, PERCENT, Computed, Named
from steelyard.core.schedule import ConfigurationName, WorkloadName
from steelyard.core.target import (
    CloudNativePgTarget,
    EndpointTarget,
    Here,
    RedisKubernetesTarget,
    Target,
)
from steelyard.report import document as doc
from steelyard.stats.drift import stalled_slices, stalls_p_value
from steelyard.stats.intervals import BoolArray, median_interval
from steelyard.stats.noise import Components, optimal_runs, pair_components

# Where a server lives and how it is called differs always, and says nothing about its speed.
_IDENTITY = frozenset(
    {
        "cluster_name",
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "listen_addresses",
        "log_directory",
        "log_filename",
        "port",
        "primary_conninfo",
        "primary_slot_name",
        "unix_socket_directories",
    }
)
_UNIT = re.compile(r"^([0-9]*)([A-Za-z]+)$")
_KIB_PER = {"TB": 1024**3, "GB": 1024**2, "MB": 1024, "kB": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNoise:
    """The two levels of noise where every start made its server anew.

    Attributes:
        configuration: The contender; the parts are those of one side, from both.
        parts: Of ln(tps), over the workload's loads.
        best_rounds: They give the narrowest interval in a given time.
    """

    configuration: ConfigurationName
    workload: WorkloadName
    parts: Components
    instance_sd: ClassVar = Computed(
        lambda noise: Estimate(
            value=noise.parts.instance_sd,
            low=noise.parts.instance_low,
            high=noise.parts.instance_high,
        ),
        Annotated[Estimate, PERCENT, INLINE, "Deviation from server to server, %."],
    )
    run_sd: ClassVar = Computed(
        lambda noise: noise.parts.run_sd,
        Annotated[float, PERCENT, "Deviation from run to run, %."],
    )
    instances: ClassVar = Computed(
        lambda noise: noise.parts.instances,
        Annotated[int, Named("instances_per_side"), "Servers of each side, if they differ."],
    )
    rounds: ClassVar = Computed(
        lambda noise: noise.parts.runs,
        Annotated[int, Named("runs_per_instance"), "Runs of each server."],
    )
    best_rounds: Annotated[int, Named("best_runs_per_instance"), "Runs that would be best."]


def differing_settings(
    environment: Environment | None, experiment: Experiment
) -> tuple[results.SettingDifference, ...]:
    """Return what differs, requested settings first, then by name.

    A value is None where the configuration's server was never seen or lacks the setting.
    """
    asked_for = _outside_the_server(experiment)
    if environment is None or len(environment.servers) < 2:
        return asked_for
    asked = {
        s.label.lower()
        for configuration in experiment.configurations
        for s in configuration.settings
    }
    seen = {server.configuration: shown_settings(server) for server in environment.servers}
    names = sorted({name for settings in seen.values() for name in settings})
    differences = [
        results.SettingDifference(
            name=name,
            values={t.name: seen.get(t.name, {}).get(name) for t in experiment.configurations},
            requested=name.lower() in asked,
        )
        for name in names
        if len({settings.get(name) for settings in seen.values()}) > 1
    ]
    ordered = sorted(differences, key=lambda difference: not difference.requested)
    return (*asked_for, *ordered)


def differing_sides(
    settings: Sequence[results.SettingDifference], asked: ResultContrast
) -> tuple[str, ...]:
    """Return the names of what separates the two sides of a comparison.

    What was asked for, if anything was; else what the servers say: two versions differ unasked.
    """
    apart = [
        each
        for each in settings
        for values in [[*each.values.values()]]
        if not {values[place] for place in asked.negative}
        & {values[place] for place in asked.positive}
    ]
    requested = tuple(each.name for each in apart if each.requested)
    return requested or tuple(each.name for each in apart)


def without_forecasts(
    comparisons: Sequence[results.Comparison],
    experiment: Experiment,
    environment: Environment | None,
) -> tuple[results.Comparison, ...]:
    """Return the comparisons; those of a configuration with its like have nothing to decide.

    More blocks only narrow them: no time decides a difference that does not exist.
    """
    alike = {
        (asked.baseline, asked.configuration)
        for asked in result_contrasts(experiment)
        if _are_alike(asked, experiment, environment)
    }
    return tuple(
        replace(each, minutes_to_decide=None)
        if (each.baseline, each.configuration) in alike
        else each
        for each in comparisons
    )


def _are_alike(
    asked: ResultContrast, experiment: Experiment, environment: Environment | None
) -> bool:
    """Return whether the two sides are one configuration, by what is asked or what is in force."""
    if len(asked.negative) > 1 or len(asked.positive) > 1:
        return False
    one, other = (experiment.configurations[p] for p in (*asked.negative, *asked.positive))
    if _beside_the_server(one) != _beside_the_server(other):
        return False
    names = one.asked_folded().keys() | other.asked_folded().keys()
    seen = {s.configuration: shown_settings(s) for s in environment.servers} if environment else {}
    both = {one.name, other.name} <= seen.keys()
    mine, theirs = (t.asked_folded() | (seen[t.name] if both else {}) for t in (one, other))
    return all(mine.get(name) == theirs.get(name) for name in names)


def _beside_the_server(configuration: Configuration) -> Configuration:
    """Return a configuration without its names and what it asks of its server."""
    others = tuple(s for s in configuration.settings if s.layer is not configuration.server_layer)
    return replace(configuration, name="", profiles=(), settings=others)


def shown_settings(server: ServerEnvironment) -> dict[str, str]:
    """Return a server's effective settings by name, without those of its place and name."""
    return {s.name: _shown(s) for s in server.settings if s.name not in _IDENTITY}


def _outside_the_server(experiment: Experiment) -> tuple[results.SettingDifference, ...]:
    """Return what the configurations ask of the generator and the target differently."""
    asked: dict[str, list[str | None]] = {
        "generator: protocol": [
            t.protocol or experiment.protocol for t in experiment.configurations
        ],
        "data: prepare": [
            ", ".join(script.name for script in t.prepare) or None
            for t in experiment.configurations
        ],
        "generator: scripts": [
            ", ".join(f"{each.rewritten_in} for {each.name}" for each in t.scripts) or None
            for t in experiment.configurations
        ],
        **_targets(experiment),
    }
    names = [each.name for each in experiment.configurations]
    return tuple(
        results.SettingDifference(
            name=name, values=dict(zip(names, values, strict=True)), requested=True
        )
        for name, values in asked.items()
        if len(set(values)) > 1
    )


def _targets(experiment: Experiment) -> dict[str, list[str | None]]:
    local = [experiment.targets_of(Here).get(t.name) for t in experiment.configurations]
    remote = [experiment.targets_of(EndpointTarget).get(t.name) for t in experiment.configurations]
    shown = [_in_cluster(configuration.target) for configuration in experiment.configurations]
    names = dict.fromkeys(name for each in shown for name in each)
    return {
        "target: kind": [t.target.kind for t in experiment.configurations],
        "target: programs": [target.server if target else None for target in local],
        "target: connection": [target.connection if target else None for target in local],
        "target: directory": [target.directory if target else None for target in local],
        "target: store": [
            target.store.label if target and target.store else None for target in local
        ],
        "target: server": [target.label if target else None for target in remote],
        **{f"target: {name}": [each.get(name) for each in shown] for name in names},
    }


def _in_cluster(target: Target) -> dict[str, str]:
    if not isinstance(target, CloudNativePgTarget | RedisKubernetesTarget):
        return {}
    if not target.is_made:
        return {"server": target.label}
    return _cluster(target) if isinstance(target, CloudNativePgTarget) else _redis(target)


def _redis(target: RedisKubernetesTarget) -> dict[str, str]:
    return {
        "image": target.image,
        "storage": target.storage,
        "storage_class": target.storage_class or "the default",
        "requests": _listed(target.resources.requests),
        "limits": _listed(target.resources.limits),
        "node_selector": _listed(target.node_selector),
        "tolerations": target.tolerations,
    }


def _cluster(target: CloudNativePgTarget) -> dict[str, str]:
    synchronous = target.synchronous
    return {
        "image": target.image or "the operator's default",
        "instances": str(target.instances),
        "storage": target.storage,
        "storage_class": target.storage_class or "the default",
        "wal_storage": target.wal_storage or "with the data",
        "wal_storage_class": target.wal_storage_class or "that of the data",
        "requests": _listed(target.resources.requests),
        "limits": _listed(target.resources.limits),
        "synchronous": "off"
        if synchronous is None
        else f"{synchronous.method} {synchronous.number}, {synchronous.data_durability}",
        "node_selector": _listed(target.node_selector),
        "tolerations": target.tolerations,
        "affinity": target.affinity,
    }


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {value}" for name, value in pairs) or "none"


def _shown(setting: EffectiveSetting) -> str:
    """Return the value as a DBA writes it: ``128 MB`` for 16384 pages of 8 kB."""
    match = _UNIT.match(setting.unit or "")
    if match and match[2] in _KIB_PER and setting.value.isdigit() and setting.value != "0":
        kib = int(setting.value) * int(match[1] or 1) * _KIB_PER[match[2]]
        unit = next(unit for unit in ("TB", "GB", "MB", "kB") if kib % _KIB_PER[unit] == 0)
        return f"{kib // _KIB_PER[unit]} {unit}"
    return f"{setting.value} {setting.unit}" if setting.unit else setting.value


def instance_noise(grounds: results.Grounds) -> tuple[InstanceNoise, ...]:
    """Return the two levels of noise by contender and workload.

    None where no servers were made anew, below two runs in each, and below six blocks.
    """
    seen, plan, experiment = grounds.closed, grounds.record.plan, grounds.record.experiment
    if plan is None or plan.switch is not SwitchCost.REPROVISION or not seen.cells:
        return ()
    found = []
    for workload in experiment.workloads:
        columns = seen.columns_of(workload.name)
        for contender in experiment.contenders:
            contrasts = seen.slice_contrasts(experiment.baseline, contender)[:, :, columns]
            parts = pair_components(contrasts.mean(axis=2))
            if parts is not None:
                instance_s, round_s = _costs(seen, plan, experiment)
                best = optimal_runs(
                    instance_cost=instance_s,
                    run_cost=round_s,
                    instance_sd=parts.instance_sd,
                    run_sd=parts.run_sd,
                )
                noise = InstanceNoise(
                    configuration=contender, workload=workload.name, parts=parts, best_rounds=best
                )
                found.append(noise)
    return tuple(found)


def _costs(seen: Observations, plan: CampaignPlan, experiment: Experiment) -> tuple[float, float]:
    """Return the seconds to make a server and those of a round, from the plan's own estimate."""
    round_s = len(experiment.loads) * sum(
        experiment.run_time_s(each.name) + experiment.measure.discard_start_s
        for each in experiment.workloads
    )
    start_s = plan.block_s / len(seen.configurations)
    return max(start_s - plan.rounds * round_s, 0.0), round_s


_WORST_LAST = (Validity.VALID, Validity.SUSPECT, Validity.INVALID)


def summarise_cells(
    seen: Observations, stalled: BoolArray, *, in_turns: bool = False
) -> tuple[results.CellSummary, ...]:
    """Return a summary of each configuration in each cell; none before the first block.

    Args:
        seen: The observations.
        stalled: Which of the single runs stalled, same shape as ``seen.by_slice``.
        in_turns: Whether the runs were taken in turns.
    """
    if not seen.blocks:
        return ()
    return tuple(
        results.CellSummary(
            configuration=configuration,
            cell=cell,
            runs=len(runs),
            tps=estimate_of(median_interval(np.exp(seen.log_tps[:, side, column]))),
            latency_mean_s=median_latency_s(runs),
            in_turns=in_turns,
            validity=max((run.validity for run in runs), key=_WORST_LAST.index),
            stalled=int(stalled[:, side, column].sum()),
            findings=_distinct_findings(runs),
            percentiles=_printed_percentiles(runs) or None,
        )
        for column, cell in enumerate(seen.cells)
        for side, configuration in enumerate(seen.configurations)
        for runs in [seen.runs[configuration, cell]]
    )


def _printed_percentiles(runs: Sequence[Run]) -> dict[str, float]:
    """Return the median over the runs of each percentile that the generator prints."""
    printed: dict[float, list[float]] = {}
    for run in runs:
        for share, seconds in run.measurement.percentiles if run.measurement else ():
            printed.setdefault(share, []).append(seconds)
    return {percentile_name(share): float(np.median(printed[share])) for share in sorted(printed)}


def _distinct_findings(runs: Sequence[Run]) -> tuple[Finding, ...]:
    """Return the first finding of each rule."""
    first: dict[str, Finding] = {}
    for run in runs:
        for finding in run.findings:
            first.setdefault(finding.code, finding)
    return tuple(first.values())


def compare_stalls(seen: Observations, experiment: Experiment) -> tuple[results.StallTest, ...]:
    """Return one test per workload and result contrast; none before the first block.

    Args:
        seen: The observations of closed loops: an open one makes up for a stall within its slice,
            and shows it in its latency.
        experiment: Names the workloads and what is compared under each.
    """
    if not seen.blocks or not seen.cells:
        return ()
    stalled = stalled_slices(seen.by_slice)
    return tuple(
        _test(seen, stalled, asked, workload.name)
        for workload in experiment.workloads
        for asked in result_contrasts(experiment)
    )


def _test(
    seen: Observations, stalled: BoolArray, asked: ResultContrast, workload: str
) -> results.StallTest:
    columns = seen.columns_of(workload)

    def counted(places: Sequence[int]) -> tuple[int, int]:
        slices = stalled[:, list(places)][:, :, columns]
        return int(slices.sum()), slices.size

    (theirs, their_runs), (mine, my_runs) = counted(asked.negative), counted(asked.positive)
    return results.StallTest(
        baseline=asked.baseline,
        configuration=asked.configuration,
        workload=workload,
        baseline_stalled=theirs,
        baseline_runs=their_runs,
        configuration_stalled=mine,
        configuration_runs=my_runs,
        p_value=stalls_p_value((theirs, mine), (their_runs, my_runs)),
    )


STATEMENT = (
    "Single unrepeated pass: no interval, no verdict, order and time confounded. Each cell was run"
    " once, in ascending order; a second pass would give other figures, and nothing here says by"
    " how much."
)
_ORDER = (
    "Whether two of its cells differ: the later one met a server with other caches, more rows and"
    " another phase of checkpoints and vacuum, and a machine with other neighbours."
)


def pass_title(analysis: results.CampaignAnalysis) -> str:
    """Return the title of the report, which says what it is."""
    return f"{analysis.experiment.name} ({results.LABEL})"


def pass_result(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return what stands in the verdicts' place."""
    text = " ".join(filter(None, (STATEMENT, _parts(analysis))))
    if not analysis.blocks:
        text = f"The pass is not complete: {results.ending(analysis)}. {text}"
    remark = doc.Paragraph(text=text, tone=doc.Tone.WARNING)
    return doc.Section(anchor="verdicts", title="No verdict", blocks=(remark,), first=True)


def pass_limits(analysis: results.CampaignAnalysis) -> doc.Section:
    """Return what a single pass shows and does not show."""
    shown = doc.BulletList(
        lead="It shows",
        items=("What this server did once, in this order, at that time.",),
    )
    hidden = doc.BulletList(
        lead="It does not show",
        items=(
            STATEMENT,
            _ORDER,
            "Whether this machine is faster or slower than any other, published or not.",
            f"What a repetition would give: {analysis.unit}.",
        ),
    )
    return doc.Section(anchor="limits", title="Limits", blocks=(shown, hidden))


def _parts(analysis: results.CampaignAnalysis) -> str:
    """Return that the pass was not taken in one go, or nothing."""
    parts = len({run.attempt for run in analysis.runs})
    return f"It was interrupted and taken in {parts} parts, see the findings." if parts > 1 else ""


_NOTE = (
    "As the running servers reported them, not as they were asked for; by factor where one alone"
    " moves a setting."
)


def level_settings(
    analysis: results.CampaignAnalysis, attribution: Attribution, title: str
) -> doc.Section:
    """Return the settings that differ, with their values by level: combinations are too many."""
    table = doc.table_of(
        analysis.settings,
        ("setting", lambda each: each.name),
        ("values", lambda each: _values(attribution, each)),
        ("asked for", lambda each: "yes" if each.requested else "no"),
        title=title,
        note=_NOTE,
    )
    return doc.Section(anchor="settings", title=title, blocks=(table,))


def _values(attribution: Attribution, difference: results.SettingDifference) -> str:
    shown = [doc.MISSING if value is None else value for value in difference.values.values()]
    for place, factor in enumerate(attribution.factors):
        first, second = (
            {
                value
                for value, levels in zip(shown, attribution.combinations, strict=True)
                if levels[place] == level
            }
            for level in (0, 1)
        )
        if len(first) == len(second) == 1 and first != second:
            return f"{factor.off}: {first.pop()}; {factor.on}: {second.pop()}"
    several = {value: shown.count(value) for value in dict.fromkeys(shown)}
    return "; ".join(f"{value} in {doc.count(n, 'combination')}" for value, n in several.items())
