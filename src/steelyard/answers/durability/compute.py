"""What each configuration may lose, and what its writes take: the price of losing less.

The unit of replication is told here in words: what the interval may be generalised to. The lag of
replicas behind their primaries while load was on is what a death would have cost.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from types import MappingProxyType
from typing import Final

from steelyard.answers import observations as obs
from steelyard.answers.durability import rules
from steelyard.answers.results import CellSummary, Comparison, Grounds
from steelyard.core.campaign import ANEW, CampaignPlan
from steelyard.core.experiment import Configuration, Experiment, Reset, SwitchCost, Workload
from steelyard.core.findings import Fact
from steelyard.core.kubernetes import class_in
from steelyard.core.measurement import Environment, Quantity, Run
from steelyard.core.redis import changes_keys, folded_switch, touches_no_key
from steelyard.core.schedule import CellKey, Mode
from steelyard.core.stack import StorageClassFacts
from steelyard.core.target import (
    CloudNativePgTarget,
    EngineName,
    LocalTarget,
)
from steelyard.report.document import count

_READ_ONLY = "select-only"  # the script of pgbench that changes nothing
_WITH_THE_MACHINE: Final = "when the power fails or the system crashes"
GIVEN_UP: Final = {
    "fsync": ("the whole database", _WITH_THE_MACHINE),
    "full_page_writes": ("the whole database", _WITH_THE_MACHINE),
    "synchronous_commit": ("committed transactions", "after a crash"),
}
"""Settings of PostgreSQL that give up durability: what may be lost, and when."""
OF_SETTINGS: Final = (rules.Loss.SERVER, rules.Loss.POWER)
WHEN: Final = {
    rules.Loss.SERVER: "the server is killed",
    rules.Loss.POWER: "the power fails",
    rules.Loss.NODE: "its node is lost",
    rules.Loss.DISK: "its disk is lost",
    rules.Loss.SITE: "the site is lost",
}


def write_rates(seen: obs.Observations, experiment: Experiment) -> dict[str, float]:
    """Return the most writes per second of each configuration, as the table of cells has them."""
    runs = [run for runs in seen.runs.values() for run in runs]
    return seen.largest_rates(writing(experiment.workloads, runs))


def campaign_durability(grounds: Grounds) -> tuple[rules.ConfigurationDurability, ...]:
    """Return what every configuration of a campaign may lose."""
    record = grounds.record
    return durability_of(
        record.experiment,
        record.environment,
        grounds.analysis.cells,
        write_rates(grounds.seen, record.experiment),
        record.counted_runs,
    )


def durability_of(
    experiment: Experiment,
    environment: Environment | None,
    cells: Sequence[CellSummary],
    rates: Mapping[str, float] = MappingProxyType({}),
    runs: Sequence[Run] = (),
) -> tuple[rules.ConfigurationDurability, ...]:
    """Return what every configuration may lose; nothing where that is beside the question.

    It is not where servers run in Kubernetes, where configurations differ in it, where settings
    give up what PostgreSQL keeps by default, and where the server is a Redis.
    """
    writers = writing(experiment.workloads, runs)
    found = tuple(
        rules.ConfigurationDurability(
            configuration=configuration.name,
            survivals=survivals_of(configuration, environment, rates.get(configuration.name)),
            latencies=_latencies(configuration.name, experiment, writers, cells),
        )
        for configuration in experiment.configurations
    )
    always = experiment.is_in_kubernetes or experiment.engine is EngineName.REDIS
    return found if always or _is_at_stake(found) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side of a comparison: its name, and the configurations that it is made of."""

    name: str
    configurations: tuple[Configuration, ...]


def with_trades(
    comparisons: Sequence[Comparison],
    experiment: Experiment,
    environment: Environment | None,
    rates: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Comparison, ...]:
    """Return the comparisons, each with what one side may lose and the other keeps."""
    found = {
        (asked.baseline, asked.configuration): _trades(asked, experiment, environment, rates)
        for asked in obs.result_contrasts(experiment)
    }
    return tuple(replace(c, trades=found[c.baseline, c.configuration]) for c in comparisons)


def _trades(
    asked: obs.ResultContrast,
    experiment: Experiment,
    environment: Environment | None,
    rates: Mapping[str, float],
) -> tuple[rules.DurabilityTrade, ...]:
    """Return what is traded by settings, then what else differs, by failure."""
    mine, theirs = (
        _Side(name=name, configurations=tuple(experiment.configurations[place] for place in places))
        for name, places in (
            (asked.configuration, asked.positive),
            (asked.baseline, asked.negative),
        )
    )
    postgres = experiment.engine is EngineName.POSTGRES
    by_setting = tuple(_by_setting(mine, theirs, environment)) if postgres else ()
    names = [name for trade in by_setting for name in GIVEN_UP if name in trade.because]
    by_failure = [
        trade
        for trade in _by_failure(mine, theirs, environment, rates)
        if not any(name in trade.because for name in names)
    ]
    return (*by_setting, *by_failure)


def keeps_commits(name: str, in_force: Mapping[str, str]) -> bool | None:
    """Return whether a setting keeps what was committed; None where it is not known."""
    value = in_force.get(name)
    if value is None:
        return None
    weak = {"off"}
    if name == "synchronous_commit" and in_force.get("synchronous_standby_names"):
        weak |= {"local", "remote_write"}  # of a standby that commits wait for elsewhere
    return value not in weak


def _by_setting(
    mine: _Side, theirs: _Side, environment: Environment | None
) -> Iterator[rules.DurabilityTrade]:
    """Yield one trade for each loss that settings allow on one side only."""
    causes: dict[tuple[str, str, str, str], list[str]] = {}
    for name, loss in GIVEN_UP.items():
        for weak, strong in ((mine, theirs), (theirs, mine)):
            value = _given_up(name, weak, environment)
            if value and _given_up(name, strong, environment) == "":
                because = causes.setdefault((weak.name, strong.name, *loss), [])
                because.append(f"{name} = {value}")
    for (weaker, stronger, what, when), settings in causes.items():
        yield rules.DurabilityTrade(
            weaker=weaker, stronger=stronger, what=what, when=when, because=", ".join(settings)
        )


def _given_up(name: str, side: _Side, environment: Environment | None) -> str | None:
    """Return the value by which a side gives up commits: empty if it keeps them, as far as known.

    None where factors put both into a side: then another one decides it.
    """
    settings = [_in_force(configuration, environment) for configuration in side.configurations]
    weak = [each[name] for each in settings if keeps_commits(name, each) is False]
    if not weak:
        return ""
    return weak[0] if len(weak) == len(settings) else None


def _by_failure(
    mine: _Side, theirs: _Side, environment: Environment | None, rates: Mapping[str, float]
) -> Iterator[rules.DurabilityTrade]:
    """Yield one trade for each loss that a side is exposed to more, with all its failures."""
    failures: dict[rules.DurabilityTrade, list[str]] = {}
    for loss in rules.Loss:
        ours, other = (_fate_of(side, loss, environment, rates) for side in (mine, theirs))
        if ours is None or other is None or ours.rank == other.rank:
            continue
        sides = ((mine, ours), (theirs, other))
        (strong, less), (weak, more) = sorted(sides, key=lambda pair: pair[1].rank)
        one = weak.configurations[0]
        trade = rules.DurabilityTrade(
            weaker=weak.name,
            stronger=strong.name,
            what=what_is_lost(more, one),
            when="",
            because=_cause(more, one, environment),
            instead=what_is_lost(less, one),
        )
        failures.setdefault(trade, []).append(WHEN[loss])
    for trade, when in failures.items():
        yield replace(trade, when=f"when {' or '.join(when)}")


def _fate_of(
    side: _Side, loss: rules.Loss, environment: Environment | None, rates: Mapping[str, float]
) -> rules.Survival | None:
    """Return what a side's commits survive; None where it is not known or not one answer."""
    found = [
        survival
        for configuration in side.configurations
        for survival in survivals_of(configuration, environment, rates.get(configuration.name))
        if survival.loss is loss
    ]
    unknown = any(survival.fate is rules.Fate.UNKNOWN for survival in found)
    return found[0] if not unknown and len({each.rank for each in found}) == 1 else None


def what_is_lost(survival: rules.Survival, configuration: Configuration) -> str:
    """Return what may be lost as an object of a sentence; empty for nothing."""
    noun = "writes" if configuration.target.system.name is EngineName.REDIS else "commits"
    if survival.fate is rules.Fate.KEPT or survival.known_as:
        return survival.known_as
    if survival.fate is rules.Fate.ALL:
        return "everything"
    return (
        f"the last {noun}"
        if survival.seconds is None
        else (f"the last {survival.seconds:g} s of {noun}")
    )


def _cause(
    survival: rules.Survival, configuration: Configuration, environment: Environment | None
) -> str:
    """Return why: the settings of a Redis that starts again, else what the set-up says."""
    if configuration.target.system.name is not EngineName.REDIS or survival.loss not in OF_SETTINGS:
        return survival.reason
    settings = _in_force(configuration, environment)
    if settings.get("appendonly", "no") != "yes":
        saved = settings.get("save", "").replace('"', "").strip()
        return f"appendonly no, {f'save {saved}' if saved else 'no save points'}"
    held = ", no-appendfsync-on-rewrite yes"
    on_rewrite = held if settings.get("no-appendfsync-on-rewrite") == "yes" else ""
    return f"appendfsync {settings.get('appendfsync', 'everysec')}{on_rewrite}"


def survivals_of(
    configuration: Configuration, environment: Environment | None, per_s: float | None = None
) -> tuple[rules.Survival, ...]:
    """Return what the acknowledged commits of a configuration survive, by failure.

    Args:
        configuration: Of the experiment.
        environment: What was seen of its server; None: nothing.
        per_s: Its writes per second, where they were measured.
    """
    if configuration.target.system.name is EngineName.REDIS:
        facts = () if environment is None else environment.facts
        in_force = _in_force(configuration, environment)
        return rules.redis_survivals(configuration.target, in_force, facts, per_s)
    return rules.survivals(footing(configuration, environment))


def _is_at_stake(found: Sequence[rules.ConfigurationDurability]) -> bool:
    """Return whether they differ in what they lose, or one loses what a restart brings."""
    known = [
        {each.fate(loss) for each in found if each.fate(loss) is not rules.Fate.UNKNOWN}
        for loss in rules.Loss
    ]
    weak = any(
        each.fate(loss) not in (rules.Fate.KEPT, rules.Fate.UNKNOWN)
        for each in found
        for loss in (rules.Loss.SERVER, rules.Loss.POWER)
    )
    return weak or any(len(fates) > 1 for fates in known)


def footing(configuration: Configuration, environment: Environment | None) -> rules.Footing:
    """Return what an acknowledged commit rests on, by settings, target and facts."""
    settings = _in_force(configuration, environment)
    target = configuration.target
    if isinstance(target, LocalTarget):
        return rules.Footing(keeper=rules.Keeper.MACHINE, settings=settings)
    if not isinstance(target, CloudNativePgTarget) or target.cluster is not None:
        return rules.Footing(keeper=rules.Keeper.OTHERS, settings=settings)
    facts = () if environment is None else environment.facts
    waits, why_not = _waiting(target, settings)
    return rules.Footing(
        keeper=rules.Keeper.CLUSTER,
        settings=settings,
        standbys=target.instances - 1,
        waits=waits,
        why_not=why_not,
        apart=json.loads(target.affinity).get("podAntiAffinityType") == "required",
        volumes=_volumes(target, facts),
    )


def _in_force(configuration: Configuration, environment: Environment | None) -> Mapping[str, str]:
    """Return the settings as the server showed them; where none was seen, as they were asked."""
    servers = () if environment is None else environment.servers
    seen = next((each for each in servers if each.configuration == configuration.name), None)
    if seen is not None:
        return {each.name: each.value for each in seen.settings}
    asked = configuration.asked_folded()
    if configuration.target.system.name is EngineName.REDIS:
        return asked
    return {
        name: value if folded_switch(value) != "off" else "off" for name, value in asked.items()
    }


def _waiting(target: CloudNativePgTarget, settings: Mapping[str, str]) -> tuple[str, str]:
    """Return whether commits wait for a standby, and if not why."""
    commit = settings.get("synchronous_commit", "on")
    if target.synchronous is None:
        return "", "no commit waits for it (synchronous: is not asked for)"
    if not settings.get("synchronous_standby_names", "unseen"):
        return "", "synchronous_standby_names is empty on the server"
    if commit in rules.NO_WAIT:
        return "", f"synchronous_commit = {commit} waits for none"
    return target.synchronous.data_durability, ""


def _volumes(
    target: CloudNativePgTarget, facts: Sequence[Fact]
) -> tuple[StorageClassFacts | None, ...]:
    data = class_in(facts, target.storage_class)
    if target.wal_storage is None or target.wal_storage_class is None:
        return (data,)
    return data, class_in(facts, target.wal_storage_class)


def _latencies(
    configuration: str,
    experiment: Experiment,
    writers: Sequence[str],
    cells: Sequence[CellSummary],
) -> tuple[rules.WriteLatency, ...]:
    redis = experiment.engine is EngineName.REDIS
    load = min(experiment.loads, key=lambda each: (each.is_open, each.size))
    keys = [CellKey(workload=name, load=load) for name in writers]
    seen = {each.cell: each for each in cells if each.configuration == configuration}
    return tuple(
        rules.WriteLatency(cell=key)
        if (cell := seen.get(key)) is None
        else rules.WriteLatency(
            cell=key, mean_s=cell.latency_mean_s, per_s=cell.tps.value if redis else None
        )
        for key in keys
    )


_SELDOM: Final = 0.5  # rows changed per transaction; a guess: below it most transactions read


def writing(
    workloads: Sequence[Workload], runs: Sequence[Run], *, mostly: bool = False
) -> tuple[str, ...]:
    """Return the names of the workloads that may change data.

    Args:
        workloads: By their names, scripts and programs may.
        runs: Where the server counted no changed rows in those of a workload, it does not.
        mostly: Leave out those in which the server counted changed rows in few transactions.
    """
    most = _SELDOM if mostly else obs.READ_ONLY
    return tuple(
        each.name
        for each in workloads
        if (changes_keys(each) if each.redis is not None else each.builtin != _READ_ONLY)
        and not obs.only_read([run for run in runs if run.cell.workload == each.name], most)
    )


def touching_data(workloads: Sequence[Workload], runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the names of the workloads that read or change data, as far as is known.

    PING does not, nor a script under which the server counted no rows.
    """
    return tuple(
        each.name
        for each in workloads
        if not (
            touches_no_key(each)
            if each.redis is not None
            else each.builtin is None
            and obs.counted_no_rows([run for run in runs if run.cell.workload == each.name])
        )
    )


_MADE = {True: "newly made Cluster", False: "newly made server"}
_DATA = {
    Reset.START: "each from the same prepared data",
    Reset.BLOCK: "with the prepared data restored before each block",
    Reset.CAMPAIGN: "on data prepared once and carried along",
}


def replication_unit(
    seen: obs.Observations, plan: CampaignPlan | None, experiment: Experiment
) -> str:
    """Return one sentence that says what was repeated, how often, and what was not."""
    if plan is None or not seen.blocks:
        return "nothing was replicated: there is no complete block"
    if experiment.is_single_pass:
        return (
            f"nothing was replicated: a single unrepeated pass of {count(len(seen.cells), 'run')}"
        )
    if not all(configuration.target.is_made for configuration in experiment.configurations):
        return _at_endpoints(seen, plan, experiment)
    pods = experiment.is_in_kubernetes
    here = any(configuration.target.is_here for configuration in experiment.configurations)
    places = {"on this machine": here, "in the Kubernetes cluster": pods}
    place = f" {' and '.join(place for place, is_used in places.items() if is_used)}"
    starts = _starts(seen)
    if plan.mode is Mode.ALTERNATING:
        what = (
            f"{count(starts, 'start')} of each configuration's server{place}, up together and"
            " under load in turns"
        )
        limits = "not two machines, not two storage products"
    elif plan.mode is Mode.BACK_TO_BACK:
        what = (
            f"{count(starts, 'start')} of one server{place}, in which each cell ran the "
            "configurations back to back"
        )
        again = plan.reset is not Reset.CAMPAIGN
        what += ", each after a restart" if again else ""
        limits = f"{'' if again else 'not restarts of it, '}not two machines"
    elif plan.switch is SwitchCost.REPROVISION:
        made = _MADE[bool(experiment.targets_of(CloudNativePgTarget)) and not here]
        what = f"{count(starts, made)} per configuration{place}"
        limits = "not other nodes and disks than these" if pods else "not other machines than these"
    else:
        what = f"{count(starts, 'restart')} of one server per configuration{place}"
        limits = "not two machines, not two storage products"
        limits = _not_two(experiment) if pods else limits
    data = "each with data loaded anew" if plan.restore == ANEW else _DATA[plan.reset]
    runs = f", {plan.rounds} runs of each cell in each" if plan.rounds > 1 else ""
    return f"{what}{runs}, {data}; {limits}"


def _not_two(experiment: Experiment) -> str:
    """Return what there was one of in a cluster."""
    server = "Clusters" if experiment.targets_of(CloudNativePgTarget) else "servers"
    return f"not two {server}, not two volumes"


def _at_endpoints(seen: obs.Observations, plan: CampaignPlan, experiment: Experiment) -> str:
    """Return the sentence for servers that Steelyard did not start."""
    starts = _starts(seen)
    targets = {configuration.target for configuration in experiment.configurations}
    several = len(targets) > 1
    if any(target.is_made for target in targets):
        turns = ", under load in turns" if plan.mode is Mode.ALTERNATING else ""
        what = f"{count(starts, 'block')} on servers some of which were there already{turns}"
        limits = "not restarts of those, not two machines of a kind"
    elif plan.mode is Mode.ALTERNATING:
        place = "servers that were" if several else "one server that was"
        what = f"{count(starts, 'block')} on {place} there already, under load in turns"
        limits = "not restarts of them, not two machines"
    elif plan.mode is Mode.BACK_TO_BACK:
        what = (
            f"{count(starts, 'start')} of one server that was there already, in which each"
            " cell ran the configurations back to back"
        )
        limits = "not restarts of it, not two machines"
    elif plan.switch is SwitchCost.RESTART and all(target.is_restarted for target in targets):
        what = f"{count(starts, 'start')} per configuration, on servers that were there already"
        limits = "not two machines, not two storage products"
    else:
        what = f"{count(starts, 'start')} per configuration, on servers that were there already"
        limits = "not restarts of them"
    limits += "; a difference belongs to this pair of servers" if several else ""
    vacuums = "vacuum" in plan.means
    data = "on data that were only vacuumed" if vacuums else _DATA[plan.reset]
    return f"{what}, {data}; {limits}"


def _starts(seen: obs.Observations) -> int:
    """Return the starts of each configuration; the baseline of sub-blocks has more."""
    return min(
        len({(run.block, run.attempt, run.start) for run in seen.runs_of(configuration)})
        for configuration in seen.configurations
    )


Runs = Mapping[tuple[str, CellKey], Sequence[Run]]


def measured_lags(grounds: Grounds) -> tuple[rules.ReplicaLag, ...]:
    """Return how far the replicas of a campaign were behind under writes."""
    return replica_lags(grounds.seen.runs)


def replica_lags(runs: Runs) -> tuple[rules.ReplicaLag, ...]:
    """Return the lag by configuration and cell; nothing where no replica was seen under writes.

    Args:
        runs: That count, by configuration and cell.
    """
    return tuple(_lags(runs))


def _lags(all_runs: Runs) -> Iterator[rules.ReplicaLag]:
    for (configuration, cell), runs in all_runs.items():
        for quantity in (Quantity.REPLICA_LAG_BYTES, Quantity.REPLICA_BEHIND_BYTES):
            behind = _behind(runs, quantity)
            if behind:
                yield rules.ReplicaLag(
                    configuration=configuration,
                    cell=cell,
                    runs=len(behind),
                    most_bytes=max(most for most, _ in behind),
                    usual_bytes=median(most for most, _ in behind),
                    usual_s=median(most / rate for most, rate in behind),
                    compared=quantity is Quantity.REPLICA_LAG_BYTES,
                )
                break


def _behind(runs: Sequence[Run], quantity: Quantity) -> list[tuple[float, float]]:
    """Return the most of each run that wrote, with the bytes per second of its stream."""
    found = []
    for run in runs:
        if run.evidence is None:
            continue
        most = run.evidence.level(quantity)
        written = run.evidence.total(Quantity.REPLICATION_BYTES)
        if most is not None and written:
            found.append((most, written / run.evidence.seconds))
    return found
