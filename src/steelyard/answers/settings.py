"""Effective settings that differ between servers, asked for or not, and the noise of new servers.

From the noise between newly made servers follows how many runs in each would have been best.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard.answers.observations import Observations, ResultContrast, result_contrasts
from steelyard.answers.results import CampaignAnalysis, Comparison, Grounds, SettingDifference
from steelyard.core.campaign import CampaignPlan
from steelyard.core.experiment import Configuration, Experiment, SwitchCost
from steelyard.core.measurement import EffectiveSetting, Environment, ServerEnvironment
from steelyard.core.target import CloudNativePgTarget, RedisKubernetesTarget, Target
from steelyard.report.document import Json, percent
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
        best_rounds: Runs per server that would give the narrowest interval in a given time.
    """

    configuration: str
    workload: str
    parts: Components
    best_rounds: int


def differing_settings(
    environment: Environment | None, experiment: Experiment
) -> tuple[SettingDifference, ...]:
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
        SettingDifference(
            name=name,
            values=tuple(seen.get(t.name, {}).get(name) for t in experiment.configurations),
            requested=name.lower() in asked,
        )
        for name in names
        if len({settings.get(name) for settings in seen.values()}) > 1
    ]
    ordered = sorted(differences, key=lambda difference: not difference.requested)
    return (*asked_for, *ordered)


def differing_sides(
    settings: Sequence[SettingDifference], asked: ResultContrast
) -> tuple[str, ...]:
    """Return the names of what separates the two sides of a comparison.

    What was asked for, if anything was; else what the servers say: two versions differ unasked.
    """
    apart = [
        each
        for each in settings
        if not {each.values[place] for place in asked.negative}
        & {each.values[place] for place in asked.positive}
    ]
    requested = tuple(each.name for each in apart if each.requested)
    return requested or tuple(each.name for each in apart)


def without_forecasts(
    comparisons: Sequence[Comparison], experiment: Experiment, environment: Environment | None
) -> tuple[Comparison, ...]:
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


def _outside_the_server(experiment: Experiment) -> tuple[SettingDifference, ...]:
    """Return what the configurations ask of the generator and the target differently."""
    asked: dict[str, list[str | None]] = {
        "generator: protocol": [
            t.protocol or experiment.protocol for t in experiment.configurations
        ],
        **_targets(experiment),
    }
    return tuple(
        SettingDifference(name=name, values=tuple(values), requested=True)
        for name, values in asked.items()
        if len(set(values)) > 1
    )


def _targets(experiment: Experiment) -> dict[str, list[str | None]]:
    local = [experiment.places_here.get(t.name) for t in experiment.configurations]
    remote = [experiment.endpoint_targets.get(t.name) for t in experiment.configurations]
    return {
        "target: kind": [t.target.kind for t in experiment.configurations],
        "target: programs": [target.bin if target else None for target in local],
        "target: connection": [target.connection if target else None for target in local],
        "target: directory": [target.directory if target else None for target in local],
        "target: store": [
            target.store.label if target and target.store else None for target in local
        ],
        "target: server": [target.label if target else None for target in remote],
        **_clusters(experiment),
    }


def _clusters(experiment: Experiment) -> dict[str, list[str | None]]:
    """Return what configurations ask of their servers in a cluster, in the words of the file."""
    shown = [_in_cluster(configuration.target) for configuration in experiment.configurations]
    names = dict.fromkeys(name for each in shown for name in each)
    return {f"target: {name}": [each.get(name) for each in shown] for name in names}


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


def instance_noise(grounds: Grounds) -> tuple[InstanceNoise, ...]:
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
    cells = len(experiment.workloads) * len(experiment.loads)
    round_s = cells * (experiment.measure.slice_s + experiment.measure.ramp_s)
    start_s = plan.block_s / len(seen.configurations)
    return max(start_s - plan.rounds * round_s, 0.0), round_s


def instance_noise_json(analysis: CampaignAnalysis) -> dict[str, Json]:
    """Return the two levels of noise of newly made servers, where they are known."""
    found = analysis.answer(instance_noise)
    if not found:
        return {}
    return {
        "instance_noise": [
            {
                "configuration": noise.configuration,
                "workload": noise.workload,
                "instance_sd_percent": percent(noise.parts.instance_sd),
                "low_percent": percent(noise.parts.instance_low),
                "high_percent": percent(noise.parts.instance_high),
                "run_sd_percent": percent(noise.parts.run_sd),
                "instances_per_side": noise.parts.instances,
                "runs_per_instance": noise.parts.runs,
                "best_runs_per_instance": noise.best_rounds,
            }
            for noise in found
        ]
    }
