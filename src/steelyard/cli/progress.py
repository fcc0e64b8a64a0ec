"""What a terminal is told of a campaign: what is to come, and how it goes on while it runs.

One line that is drawn anew on a terminal, a line per block elsewhere. Whoever sits there is asked
in words, too, and answers with Enter.
"""

import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import indent
from typing import Final, Self, TextIO

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from steelyard.answers import results
from steelyard.answers.attribution import design_limits, design_words
from steelyard.answers.findings import negative_controls
from steelyard.answers.money import burst_words, cost_words
from steelyard.answers.outlook.compute import Forecast
from steelyard.answers.outlook.section import block_pairs, disk_words, forecast_json
from steelyard.answers.result.cards import work_line
from steelyard.answers.turns import (
    block_parts,
)
from steelyard.campaign.design.schedule import (
    GUESSED_CLUSTER_S,
    GUESSED_POD_START_S,
    GUESSED_REDIS_SET_S,
    GUESSED_ROLLOUT_S,
)
from steelyard.campaign.run.beside_blocks import asked_capacity, sustained_runs, sustained_s
from steelyard.campaign.run.runner import Progress
from steelyard.core.campaign import BlockOutcome, CampaignPlan
from steelyard.core.experiment import Configuration, Experiment
from steelyard.core.schedule import LONGEST_LATENCY_S, Mode
from steelyard.core.target import CloudNativePgTarget, RedisKubernetesTarget
from steelyard.core.wording import format_duration, format_percent
from steelyard.gateways.host import Clock
from steelyard.gateways.process import Operator
from steelyard.report.document import Table as Report
from steelyard.report.document import count
from steelyard.report.terminal import render_table

_TERMINAL: Final = "/dev/tty"


def _say(line: str) -> None:
    """Print to standard error; that nobody reads it any more must not end a campaign."""
    with suppress(OSError):
        click.echo(line, err=True)


class PlainProgress(Progress):
    """One line per step and block, for logs and pipes; a line per run would be too much."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose

    def say(self, text: str) -> None:
        """Leave lines."""
        _say(indent(text, "  "))

    def stage(self, what: str) -> None:
        """Say which step before the first block begins."""
        self.say(f"{what} ...")

    def agreed(self, contract: Report) -> None:
        """Say on what terms servers are compared."""
        self.say(render_table(contract))

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Say how many blocks follow."""
        self.say("\n".join(ready_lines(plan, elapsed_s, verbose=self._verbose)))

    def block_ended(self, outcome: BlockOutcome) -> None:
        """Say why a block is redone."""
        if not outcome.complete:
            self.say(f"block {outcome.index + 1} is redone: {outcome.reason}")

    def looked(self, analysis: results.CampaignAnalysis, *, elapsed_s: float) -> None:
        """Say where every result stands."""
        if not analysis.experiment.is_single_pass and analysis.plan is not None:
            parts = block_parts_of(analysis.plan, analysis.blocks, elapsed_s)
            self.say(_DOT.join([*parts, *map(standing, analysis.results)]))


_DOT: Final = " · "


def ready_lines(plan: CampaignPlan, elapsed_s: float, *, verbose: bool) -> Iterator[str]:
    """Yield what is frozen before the first block; how blocks are taken for who asks for it."""
    ready, block = format_duration(elapsed_s), format_duration(plan.block_s)
    blocks = f"up to {count(plan.stopping.max_blocks, 'block')} of about {block}"
    yield f"ready after {ready}: {blocks}{_design(plan) if verbose else ''}"
    for name, text in block_parts(plan.short, plan.block_s, plan.copying_s) if verbose else ():
        yield f"{name}: {text}"


def _design(plan: CampaignPlan) -> str:
    """Return how blocks are taken and what is thrown away, as the end of a line."""
    warm_up = f"{format_duration(plan.warm_up.warm_up_s)} ({plan.warm_up.how})"
    in_order = ", scripts in a given order" if plan.in_order else ""
    if plan.mode is not Mode.ALTERNATING:
        return f"{in_order}, warm-up {warm_up}"
    lengths = sorted({each.times.turn_s for each in plan.turns})
    turns = " or ".join(f"{length:g} s" for length in lengths)
    turns = f", in turns of {turns}" if turns else ""
    return f"{turns}{in_order}, warm-up {warm_up} under load"


def block_parts_of(plan: CampaignPlan, block: int, elapsed_s: float) -> list[str]:
    """Return the place of a block, and the time since the start as ``2:34``."""
    minutes, seconds = divmod(int(elapsed_s), 60)
    return [f"block {block} of up to {plan.stopping.max_blocks}", f"{minutes}:{seconds:02}"]


def standing(comparison: results.Comparison) -> str:
    """Return where one result stands: ``reads large +24.1 % so far``.

    The verdict of a look is called what it is: more blocks may still change it.
    """
    effect = comparison.effect
    value = "-" if effect is None else format_percent(effect.value)
    word = f"{comparison.verdict}{results.durability_word(comparison)}"
    interim = f", interim: {word}" if comparison.level is not None else ""
    return f"{comparison.workload} {comparison.configuration} {value} so far{interim}"


class LiveProgress(PlainProgress):
    """One line: the block, the time, all results so far, and what goes on."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        super().__init__(verbose=verbose)
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._stage = ""
        self._block = 0
        self._plan: CampaignPlan | None = None
        self._standings: list[str] = []
        self._clock = Clock()
        self._begun_s = 0.0  # monotonic

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._live.stop()

    def say(self, text: str) -> None:
        """Leave lines above."""
        with suppress(OSError):
            self._live.console.print(text, highlight=False, markup=False)

    def stage(self, what: str) -> None:
        """Show which step before or after the blocks goes on."""
        self._draw(what)

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Show that the blocks begin."""
        self._plan, self._begun_s = plan, self._clock.monotonic() - elapsed_s
        if self._verbose:
            super().planned(plan, elapsed_s=elapsed_s)

    def run_started(self, *, block: int, label: str) -> None:
        """Show the run that goes on."""
        self._block = block + 1
        self._draw(label)

    def looked(self, analysis: results.CampaignAnalysis, *, elapsed_s: float) -> None:
        """Show the estimates after a complete block."""
        self._begun_s = self._clock.monotonic() - elapsed_s
        self._standings = [*map(standing, analysis.results)]
        self._draw(self._stage)

    def _draw(self, stage: str) -> None:
        self._stage = stage
        with suppress(OSError):
            self._live.update(self._line(), refresh=True)

    def _line(self) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        if self._plan is not None and self._block:
            parts = block_parts_of(self._plan, self._block, self._clock.monotonic() - self._begun_s)
            line.append(_DOT.join([*parts, *self._standings]))
            fits = line.cell_len + len(_DOT + self._stage) <= self._live.console.width
            line.append(_DOT if fits else "\n")
        return line.append(self._stage, style="dim")


def progress_for(stream: TextIO, *, quiet: bool = False, verbose: bool = False) -> Progress:
    """Return live progress for a terminal, plain lines for anything else; silence on request."""
    if quiet:
        return Progress()
    console = Console(file=stream)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveProgress(console, verbose=verbose)
    return PlainProgress(verbose=verbose)


class TerminalOperator(Operator):
    """Whoever sits at the terminal that Steelyard was started from.

    The terminal itself is opened, because standard input and output may be files.
    """

    @property
    def is_there(self) -> bool:
        """Return whether there is a terminal."""
        with suppress(OSError), _opened():
            return True
        return False

    def confirms(self, request: str, *, timeout_s: float, then: str = "when it is done") -> bool:
        """Show the request; return whether Enter was pressed in time."""
        with suppress(OSError, termios.error), _opened() as terminal:
            limit = format_duration(timeout_s)
            # What was typed before the question is no answer to it.
            termios.tcflush(terminal, termios.TCIFLUSH)
            text = f"\n{request}\nPress Enter {then} (within {limit}): "
            os.write(terminal, text.encode())
            ready, _, _ = select.select([terminal], [], [], timeout_s)
            return bool(ready and os.read(terminal, 1024))
        return False


@contextmanager
def _opened() -> Iterator[int]:
    terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        yield terminal
    finally:
        os.close(terminal)


def forecast_text(
    experiment: Experiment,
    expected: Forecast,
    *,
    path: Path | None = None,
    warning: str = "",
    brief: bool = False,
) -> str:
    """Return a forecast for people: what is compared, on what, for how long and where.

    Args:
        experiment: To be measured.
        expected: Of it.
        path: Of the record; None: nothing is started.
        warning: What the budget does not decide.
        brief: Without the design: how blocks are made, and what else it rests on.
    """
    lines = [experiment.name, *_head(experiment, expected, path)]
    if not brief:
        lines += _design_lines(experiment, expected)
    if expected.sustained_s:
        lines.append(_sustained_line(experiment, expected))
    most_s = expected.most_s(experiment)
    lines += [f"  burst      {burst}" for burst in burst_words(experiment, most_s)]
    if cost := cost_words(experiment, most_s):
        lines.append(f"  cost       {cost}")
    if warning:
        lines.append(f"  warning    {warning}")
    return "\n".join(lines)


_MOST_NAMED: Final = 4  # configurations, and settings of one, in the first line


def _head(experiment: Experiment, expected: Forecast, path: Path | None) -> Iterator[str]:
    """Yield the four lines that every campaign begins with."""
    yield f"  compares   {_compared(experiment)}"
    loads = _loads(experiment)
    work = (f"{each.name}: {work_line(each, experiment.engine)}" for each in experiment.workloads)
    yield f"  workloads  {'; '.join(work)}; {loads}"
    yield f"  time       {_time(experiment, expected)}"
    places = dict.fromkeys(
        f"{'this machine, ' * each.target.is_here}{each.target.label}"
        for each in experiment.configurations
    )
    record = "" if path is None else f"; the record: {path}"
    yield f"  where      {'; '.join(places)}{record}"


def _loads(experiment: Experiment) -> str:
    """Return ``1, 8 clients``; loads with a rate, a pipeline or threads of their own in full."""
    loads = [results.cell_name(experiment, load) for load in experiment.loads]
    plain = [count(load.clients, "client") for load in experiment.loads]
    if loads != plain or len(loads) == 1:
        return "; ".join(loads)
    return f"{', '.join(str(load.clients) for load in experiment.loads)} clients"


def _compared(experiment: Experiment) -> str:
    """Return what is compared, each configuration with what it differs in."""
    if experiment.attribution is not None:
        return design_words(experiment.attribution)
    base, *others = sorted(
        experiment.configurations, key=lambda each: each.name != experiment.baseline
    )
    if not others:
        return f"{base.name} alone"
    own = _traits(experiment, base)
    differing = [
        {
            name: traits.get(name, _LACKING.get(name, "default"))
            for name in own | traits
            if own.get(name) != traits.get(name)
        }
        for traits in (_traits(experiment, each) for each in others)
    ]
    of_base = {name: value for name, value in own.items() if any(name in it for it in differing)}
    told = [_named(*pair) for pair in zip(others, differing, strict=True)]
    more = f" and {len(told) - _MOST_NAMED} more" if len(told) > _MOST_NAMED else ""
    shown = f"{', '.join(told[:_MOST_NAMED])}{more}"
    return f"{shown} vs {_named(base, of_base, 'baseline')}"


_LACKING: Final = {"scripts": "those of the workloads", "prepared by": "nothing"}


def _traits(experiment: Experiment, configuration: Configuration) -> dict[str, str]:
    """Return what a configuration is made of, for people, by name."""
    scripts = {
        "scripts": ", ".join(each.rewritten_in or each.name for each in configuration.scripts),
        "prepared by": ", ".join(each.name for each in configuration.prepare),
        "protocol": configuration.protocol or experiment.protocol,
    }
    return {
        **{each.label: each.value for each in configuration.settings},
        "server": configuration.target.label,
        **{name: value for name, value in scripts.items() if value},
    }


def _named(configuration: Configuration, traits: dict[str, str], *marks: str) -> str:
    told = [f"{name} = {value}" for name, value in traits.items()]
    more = [f"{len(told) - _MOST_NAMED} more"] if len(told) > _MOST_NAMED else []
    inside = ", ".join([*marks, *told[:_MOST_NAMED], *more])
    return f"{configuration.name} ({inside})" if inside else configuration.name


def _time(experiment: Experiment, expected: Forecast) -> str:
    """Return how long it takes at most, when the first answer comes, and the disk it needs."""
    preparation = f"preparation about {format_duration(expected.preparation_s)}"
    if experiment.is_single_pass:
        time = f"about {format_duration(expected.pass_s)}, {preparation}"
    else:
        time = f"up to {format_duration(experiment.stop.budget_s)}, {preparation}"
    if experiment.compares_throughput and not experiment.is_single_pass:
        time += f", first answer after about {format_duration(expected.first_look_s)}"
    return f"{time}; disk: {disk_words(expected)}"


def _design_lines(experiment: Experiment, expected: Forecast) -> list[str]:
    """Return how blocks are made, and what else the forecast rests on."""
    design = experiment.attribution
    limits = () if design is None else design_limits(design)
    return [
        *(f"  {name:<10} {text}" for name, text in block_pairs(experiment, expected)),
        f"  seed       {experiment.seed}",
        *(f"  {'' if place else 'factors':<10} {limit}" for place, limit in enumerate(limits)),
        *_capacity_lines(experiment, expected),
        *_cluster_lines(experiment),
        *_control_lines(experiment),
    ]


def _capacity_lines(experiment: Experiment, expected: Forecast) -> list[str]:
    asked = asked_capacity(experiment)
    if asked is None:
        return []
    clients = ", ".join(str(clients) for clients in sorted(asked.clients))
    what = f"{asked.runs} rounds of closed loops with {clients} clients before the first block"
    return [f"  capacity   {what}, about {format_duration(expected.capacity_s)} of the preparation"]


def _cluster_lines(experiment: Experiment) -> list[str]:
    """Return which times are guesses, because nobody knows them before a server is made."""
    if any(target.is_made for target in experiment.targets_of(RedisKubernetesTarget).values()):
        made, start = map(format_duration, (GUESSED_REDIS_SET_S, GUESSED_POD_START_S))
        what = f"{made} to make a Redis server with its volume, {start} for each of its starts"
    elif experiment.targets_of(CloudNativePgTarget):
        cluster, rollout = map(format_duration, (GUESSED_CLUSTER_S, GUESSED_ROLLOUT_S))
        what = f"{cluster} to make a Cluster of one instance, {rollout} for a restart of its server"
    else:
        return []
    return [f"  guesses    {what}; what it takes is measured before the first block"]


def _sustained_line(experiment: Experiment, expected: Forecast) -> str:
    late = (
        f", up to {format_duration(expected.sustained_most_s)} where they fall near their ends"
        if expected.sustained_most_s > expected.sustained_s
        else ""
    )
    return (
        f"  sustained  {len(sustained_runs(experiment))} runs of"
        f" {format_duration(sustained_s(experiment))} after the last block: about"
        f" {format_duration(expected.sustained_s)} on top of the budget{late}"
    )


def _control_lines(experiment: Experiment) -> tuple[str, ...]:
    """Return which workloads nothing of what was asked for can touch, if it is so anywhere."""
    against: dict[str, list[str]] = {}
    for each in negative_controls(experiment, ()):
        against.setdefault(each.workload, []).append(each.configuration)
    told = "; ".join(f"{name} under {', '.join(who)}" for name, who in against.items())
    return (f"  control    what differs cannot touch {told}",) if told else ()


def dry_run_json(experiment: Experiment, expected: Forecast) -> dict[str, object]:
    """Return a forecast and what else a dry run shows, for programs."""
    attribution, other = experiment.attribution, expected.otherwise
    factors = (
        {
            "kind": attribution.kind,
            "factors": [factor.name for factor in attribution.factors],
            "combinations": len(attribution.combinations),
            "resolution": attribution.resolution,
            "limits": list(design_limits(attribution)),
        }
        if attribution is not None
        else None
    )
    # What is taken in place of turns where a transaction is too long for them.
    one_by_one = (
        {
            "above_latency_s": LONGEST_LATENCY_S,
            "block_s": round(other.block_s, 1),
            "max_blocks": other.max_blocks,
            "first_interim_result_blocks": other.stopping.first_look,
            "first_interim_result_s": round(other.first_look_s, 1),
        }
        if other is not None
        else None
    )
    return {
        **({"attribution": factors} if factors else {}),
        **forecast_json(experiment, expected),
        "seed": experiment.seed,
        "reset": expected.reset,
        "runs_per_start_reason": expected.rounds.reason or None,
        **({"one_by_one": one_by_one} if one_by_one else {}),
        **({"commands": [list(it) for it in experiment.commands]} if experiment.commands else {}),
    }
