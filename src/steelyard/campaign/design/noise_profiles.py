"""What campaigns measured, in the cache, for the plans of later ones: noise, and latencies.

One file per A/A campaign in ``noise/``, and one per timed workload in ``noise/timed/``. A file that
is damaged, or of another place or work, is no obstacle: a plan then goes by an older one, or by the
assumed noise, and a run times its transactions itself.
"""

import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from steelyard.answers.noise.compute import analyse_noise
from steelyard.answers.results import CampaignAnalysis
from steelyard.core.campaign import ASSUMED_NOISE, NoiseOrigin, NoiseProfile, WorkloadNoise
from steelyard.core.experiment import Experiment, Workload
from steelyard.core.outside import stored_key
from steelyard.core.target import Target
from steelyard.gateways.doors import system_doors
from steelyard.gateways.files import cache_directory, make_directory, read_text, write_text
from steelyard.gateways.host import Host
from steelyard.places.local.machine import capacity, machine_facts
from steelyard.systems.protocol import Engine

FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A profile as it lies in the cache.

    Attributes:
        place: Machine and target in words: where it holds.
        contents: What each of the profile's workloads does, as a hash, in their order.
    """

    place: str
    contents: tuple[str, ...]
    profile: NoiseProfile
    format: int = FORMAT


def profile_for(
    experiment: Experiment, host: Host | None = None, *, in_turns: bool = False
) -> NoiseProfile:
    """Return the profile to plan an experiment with; its workloads have the experiment's names.

    One that covers more of the workloads comes first, then one of the design that is planned, then
    a newer one. One of the other design comes before none, which is the assumed one.
    """
    place = place_of(experiment, host or system_doors().host)
    stored = [each for path in sorted(_home().glob("*.json")) if (each := _read(path)) is not None]
    here = [_for(experiment, each) for each in stored if each.place == place]
    matching = [candidate for candidate in here if candidate.workloads]
    return max(matching, key=partial(_worth, in_turns=in_turns), default=ASSUMED_NOISE)


def _worth(profile: NoiseProfile, *, in_turns: bool) -> tuple[int, bool, float]:
    of_design = profile.is_of_turns is in_turns
    return len(profile.workloads), of_design, profile.measured_at or 0.0


def keep_profile(analysis: CampaignAnalysis, host: Host | None = None) -> Path | None:
    """Store what an A/A campaign measured and return where; None when it measured no parts.

    Raises:
        PreflightError: The cache cannot be written.
    """
    floor = analysis.answer(analyse_noise)
    workloads = floor.workloads if floor is not None else ()
    noises = tuple(workload.noise for workload in workloads if workload.noise is not None)
    if not noises:
        return None
    experiment = analysis.experiment
    place = place_of(experiment, host or system_doors().host)
    stored = StoredProfile(
        place=place,
        contents=tuple(content_of(experiment.workload(noise.workload)) for noise in noises),
        profile=_profile(analysis, noises, place),
    )
    path = _home() / f"{analysis.campaign_id}.json"
    make_directory(path.parent)
    write_text(path, TypeAdapter(StoredProfile).dump_json(stored, indent=1).decode() + "\n")
    return path


def _profile(
    analysis: CampaignAnalysis, noises: tuple[WorkloadNoise, ...], place: str
) -> NoiseProfile:
    plan, floor = analysis.plan, analysis.answer(analyse_noise)
    return NoiseProfile(
        origin=NoiseOrigin.MEASURED,
        workloads=noises,
        mode=None if plan is None else plan.mode,
        block_s=None if floor is None else floor.block_s,
        switch=None if plan is None else plan.switch,
        start_s=None if plan is None else plan.start_s,
        restore_s=None if plan is None else plan.data_s,
        warm_up_s=None if plan is None else plan.warm_up.warm_up_s,
        blocks=analysis.blocks,
        campaign_id=analysis.campaign_id,
        measured_at=analysis.started_at,
        place=place,
    )


_FRESH_S: Final = 86_400.0  # a guess: after a day data, neighbours or the machine are others


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWorkload:
    """A mean latency under the largest load, in seconds, and when it was timed."""

    mean_s: float
    timed_at: float


def timed_latency_s(
    experiment: Experiment, engine: Engine, workload: Workload, configuration: str, now: float
) -> float | None:
    """Return a workload's mean latency as a campaign timed it here in the last day, in seconds."""
    try:
        text = read_text(_timed_path(experiment, engine, workload, configuration)) or ""
        found = TypeAdapter(TimedWorkload).validate_json(text)
    except ValueError:
        return None
    is_sound = _is_size(found.mean_s) and 0.0 <= now - found.timed_at <= _FRESH_S
    return found.mean_s if is_sound else None


def keep_latency(
    experiment: Experiment,
    engine: Engine,
    workload: Workload,
    configuration: str,
    timed: TimedWorkload,
) -> None:
    """Store a mean latency that was timed under ``experiment.largest_load``.

    Raises:
        PreflightError: The cache cannot be written.
    """
    path = _timed_path(experiment, engine, workload, configuration)
    make_directory(path.parent)
    write_text(path, TypeAdapter(TimedWorkload).dump_json(timed).decode() + "\n")


def _timed_path(
    experiment: Experiment, engine: Engine, workload: Workload, configuration: str
) -> Path:
    """Return the file of a workload under a configuration and the load that is timed."""
    timed = experiment.configuration(configuration)
    key = (
        place_of(experiment, system_doors().host),
        engine.program(configuration).version,
        replace(timed, name=""),
        *(experiment.largest_load, experiment.protocol),
        content_of(timed.runs(workload)),
    )
    return _home() / "timed" / f"{stored_key(key)}.json"


def place_of(experiment: Experiment, host: Host) -> str:
    """Return machine and target of an experiment's baseline, in words that tell places apart."""
    target = experiment.configuration(experiment.baseline).target
    place = target.home
    if place is not None:
        context = "the current context" if place.context is None else place.context
        namespace = "" if place.namespace is None else f"/{place.namespace}"
        # Every key counts: another class, node or limit is another place.
        digest = stored_key(target)
        return f"Kubernetes {context}{namespace}; {_target(target)}, {digest}"
    facts = {fact.name: fact.value for fact in machine_facts(host, Path("/"))}
    usable = capacity(host)
    memory_gib = usable.memory_bytes / 1024**3
    machine = f"{facts['cpu model']}, {usable.cpus:g} CPUs, {memory_gib:.1f} GiB"
    return f"{machine}; {_target(target)}"


def _target(target: Target) -> str:
    return f"{target.system.name} {target.kind}, {target.label}"


def content_of(workload: Workload) -> str:
    """Return what a workload does as a hash: its name and the names of its files do not count."""
    said = (
        workload.builtin,
        workload.scale,
        [script.text for script in workload.prepare],
        [(script.text, script.weight) for script in workload.scripts],
        *((workload.variables,) if workload.variables else ()),
        *(() if workload.redis is None else (workload.redis,)),
        *(() if workload.command is None else (workload.command,)),
    )
    return stored_key(said)


def _for(experiment: Experiment, stored: StoredProfile) -> NoiseProfile:
    """Return the part of a profile that is about an experiment's workloads, under their names."""
    by_content = dict(zip(stored.contents, stored.profile.workloads, strict=True))
    found = (
        (workload.name, by_content.get(content_of(workload))) for workload in experiment.workloads
    )
    return replace(
        stored.profile,
        workloads=tuple(
            replace(noise, workload=name) for name, noise in found if noise is not None
        ),
    )


def _home() -> Path:
    return cache_directory() / "noise"


def _read(path: Path) -> StoredProfile | None:
    """Return a stored profile, or None when the file is none."""
    try:
        stored = TypeAdapter(StoredProfile).validate_json(read_text(path) or "")
    except ValueError:
        return None
    return stored if _is_sound(stored) else None


def _is_sound(stored: StoredProfile) -> bool:
    """Return whether every number can be what it says."""
    profile = stored.profile
    known = (FORMAT, ASSUMED_NOISE.format)
    if (stored.format, profile.format) != known or len(stored.contents) != len(profile.workloads):
        return False
    times = (
        *(profile.start_s, profile.restore_s, profile.warm_up_s),
        *(profile.measured_at, profile.block_s),
    )
    return all(_is_size(value) for value in times if value is not None) and all(
        _is_sound_noise(noise) for noise in profile.workloads
    )


def _is_sound_noise(noise: WorkloadNoise) -> bool:
    parts = asdict(noise)
    turns = parts.pop("turns") or {}
    known = {**parts, **{f"turns.{name}": value for name, value in turns.items()}}
    sizes = {name: value for name, value in known.items() if name.endswith("_sd")}
    trend = noise.trend_per_h
    return (
        all(value is None or _is_size(value) for value in sizes.values())
        and -1.0 <= noise.autocorrelation <= 1.0
        and (trend is None or math.isfinite(trend))
        and math.isfinite(noise.unnamed)
        and noise.unnamed >= 1.0
    )


def _is_size(value: float) -> bool:
    return math.isfinite(value) and value >= 0.0
