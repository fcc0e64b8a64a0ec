"""Records of campaigns that never ran, with evidence whose parts are known."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from made_records import a_record, an_experiment

from fakes.evidence import UNSEEN, Seen, watched_record
from steelyard.answers.campaign import analyse
from steelyard.answers.reasons.compute import Reasons, campaign_reasons
from steelyard.core.campaign import CampaignRecord
from steelyard.core.experiment import EffectiveSetting, Experiment, Layer, Setting
from steelyard.core.measurement import Environment, Quantity, ServerEnvironment, WaitClass
from steelyard.core.schedule import Load

CLIENTS = 8
DEFAULT = Seen(
    parts_s={WaitClass.CPU: 0.001, WaitClass.WAL: 0.005, WaitClass.CLIENT: 0.0003},
    per_transaction={
        Quantity.SERVER_CPU_S: 0.0008,
        Quantity.SERVER_RUN_QUEUE_S: 0.0001,
        Quantity.GENERATOR_CPU_S: 5e-5,
        Quantity.STEELYARD_CPU_S: 1e-7,
        Quantity.WAL_BYTES: 600.0,
        Quantity.WAL_SYNCS: 0.9,
        Quantity.DEVICE_WRITES: 1.8,
    },
)


def with_parts(seen: Seen, **parts_s: float) -> Seen:
    """Return it with other seconds in some classes."""
    return replace(seen, parts_s=seen.parts_s | {WaitClass(k): v for k, v in parts_s.items()})


def with_totals(seen: Seen, totals: Mapping[Quantity, float]) -> Seen:
    """Return it with other totals of a transaction."""
    return replace(seen, per_transaction=seen.per_transaction | totals)


def latency_s(seen: Seen) -> float:
    """Return the mean latency that its parts make."""
    return sum(seen.parts_s.values()) / (1.0 - UNSEEN)


def the_experiment(**settings: tuple[str, str]) -> Experiment:
    """Return a baseline ``t0`` and ``t1`` under one load; the settings have a value on each."""
    made = an_experiment(loads=1)
    configurations = tuple(
        replace(
            configuration,
            settings=tuple(
                Setting(layer=Layer.POSTGRES, name=name, value=values[place])
                for name, values in settings.items()
            ),
        )
        for place, configuration in enumerate(made.configurations)
    )
    return replace(made, configurations=configurations, loads=(Load(clients=CLIENTS, threads=2),))


def servers_of(experiment: Experiment) -> Environment:
    """Return an environment in which every setting asked for is in force."""
    return Environment(
        facts=(),
        servers=tuple(
            ServerEnvironment(
                configuration=configuration.name,
                version="18.1",
                settings=tuple(
                    EffectiveSetting(name=setting.name, value=setting.value, unit=None)
                    for setting in configuration.settings
                ),
            )
            for configuration in experiment.configurations
        ),
    )


def a_watched_record(
    baseline: Seen, configuration: Seen, *, blocks: int = 12, rounds: int = 1, seed: int = 1
) -> CampaignRecord:
    """Return a record whose throughput is that of the parts, with noise of 2 %."""
    rng = np.random.default_rng(seed)
    levels = np.array([latency_s(baseline), latency_s(configuration)])
    log_tps = np.log(CLIENTS / levels)[:, None] + 0.02 * rng.standard_normal((blocks, rounds, 2, 1))
    if rounds == 1:
        log_tps = log_tps[:, 0]
    record = a_record(log_tps, the_experiment(), rounds=rounds)
    return watched_record(record, {"t0": baseline, "t1": configuration})


def reasons_of(record: CampaignRecord) -> Reasons:
    """Return what the analysis makes of its evidence."""
    reasons = analyse(record).answer(campaign_reasons)
    assert reasons is not None
    return reasons
