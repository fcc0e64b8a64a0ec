"""What differs between the treatments, and what it costs to switch."""

from dataclasses import replace
from itertools import combinations

from steelyard.engines.engine import Engine
from steelyard.experiment.files import LoadedExperiment
from steelyard.model.errors import InputError
from steelyard.model.experiment import EngineName, Experiment, Layer, Treatment
from steelyard.model.host_settings import switch_cost_of
from steelyard.model.measure import Reset, SwitchCost
from steelyard.model.schedule import Mode
from steelyard.model.target import CloudNativePgTarget, RedisKubernetesTarget, Target


def differing_settings(one: Treatment, other: Treatment) -> tuple[str, ...]:
    """Return the names of the server's own settings that the two ask for differently."""
    return _differing(one, other, one.server_layer)


def same_twice(loaded: LoadedExperiment, engine: Engine) -> tuple[tuple[str, str], ...]:
    """Return the pairs of treatments that do not differ, though the file does not say so.

    One that only extends another is meant to be the same. A pair whose step for the operator or
    target differs is none: what it does is not known.
    """
    if loaded.experiment.twin_of is not None:
        return ()  # it is there to be the same
    pairs = combinations(loaded.experiment.treatments, 2)
    return tuple(
        (one.name, other.name)
        for one, other in pairs
        if not (_only_extends(loaded, one) or _only_extends(loaded, other))
        and _is_same(one, other, engine)
    )


def _only_extends(loaded: LoadedExperiment, treatment: Treatment) -> bool:
    written = loaded.document.at(("treatments", treatment.name))
    return isinstance(written, dict) and list(written) == ["extends"]


def _is_same(one: Treatment, other: Treatment, engine: Engine) -> bool:
    layer = one.server_layer
    beside = [
        replace(
            each,
            name="",
            profiles=(),
            settings=tuple(s for s in each.settings if s.layer is not layer),
        )
        for each in (one, other)
    ]
    if beside[0] != beside[1] or one.manual:
        return False
    names = differing_settings(one, other)
    return not names or engine.asks_the_same(one.name, other.name, names)


def switch_cost(experiment: Experiment, engine: Engine) -> SwitchCost:
    """Return the dearest switch between any two treatments, or what the file asks for if dearer.

    Raises:
        InputError: The file asks for a cheaper switch than the differences need.
    """
    costs = [
        _pair_cost(one, other, engine) for one, other in combinations(experiment.treatments, 2)
    ]
    needed = max(costs, key=lambda cost: cost.rank, default=SwitchCost.SESSION)
    asked = experiment.measure.switch
    if asked is None:
        return needed
    if asked.rank < needed.rank:
        raise InputError(
            f"measure.switch is {asked}, but the treatments differ in something that needs a"
            f" {needed}",
            hint="Leave `switch` out, or ask for a dearer one.",
        )
    return asked


def _pair_cost(one: Treatment, other: Treatment, engine: Engine) -> SwitchCost:
    if one.target != other.target:
        return _target_cost(one.target, other.target)
    names = differing_settings(one, other)
    costs = [engine.switch_cost(one.name, names) if names else SwitchCost.SESSION]
    costs += [switch_cost_of(name) for name in _differing(one, other, Layer.LINUX)]
    if _differing(one, other, Layer.KVM) or one.domain_xml != other.domain_xml:
        costs.append(SwitchCost.RESTART)  # a definition is taken at a power cycle
    if one.manual or other.manual:  # equal steps too: one command may serve all treatments
        costs.append(SwitchCost.RESTART)  # nobody knows what it does to a running server
    return max(costs, key=lambda cost: cost.rank)


def _require_kept_data(experiment: Experiment) -> None:
    """Raise where a restart would not keep what was written.

    Raises:
        InputError: It is a Redis server, which keeps what its treatment persists.
    """
    if experiment.engine is EngineName.REDIS:
        raise InputError(
            "a Redis server that is restarted keeps what its treatment persists, so without a reset"
            " for each visit the treatments would run on different keys",
            hint="Leave `measure.reset` out.",
        )


def _target_cost(one: Target, other: Target) -> SwitchCost:
    """Return what it takes to go to another target: servers in clusters are made for each visit."""
    pods = CloudNativePgTarget | RedisKubernetesTarget
    made = all(isinstance(each, pods) and each.is_made for each in (one, other))
    return SwitchCost.REPROVISION if made else SwitchCost.RESTART


def _differing(one: Treatment, other: Treatment, layer: Layer) -> tuple[str, ...]:
    """Return the names of settings of a layer that the two ask for differently."""
    pairs = set(one.asked(layer).items()) ^ set(other.asked(layer).items())
    return tuple(sorted({name for name, _ in pairs}))


def reset_for(experiment: Experiment, mode: Mode, *, writes: bool) -> Reset:
    """Return when the data are restored: as asked, else as often as the state can be copied.

    A server that is made for each visit has data that were made for it.
    Back to back on data that no workload changes, there is nothing to reset, and a reset would
    cost a restart and a warm-up in every block; nor where sessions of one server read the same
    data.
    """
    if experiment.is_made_anew:
        return Reset.VISIT
    asked = experiment.measure.reset
    if asked is not None:
        if asked is not Reset.VISIT and writes and mode is Mode.VISITS:
            _require_kept_data(experiment)
        return asked
    on_one_server = mode is Mode.ALTERNATING and bool(experiment.shared_servers)
    if (mode is Mode.BACK_TO_BACK or on_one_server) and not writes:
        return Reset.CAMPAIGN
    return Reset.VISIT
