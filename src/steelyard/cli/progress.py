"""What a terminal is told of a campaign: what is to come, and how it goes on while it runs.

A closing table on a terminal, plain lines elsewhere. Whoever sits there is asked in words, too, and
answers with Enter.
"""

import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self, TextIO

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from steelyard.answers import results
from steelyard.answers.attribution import design_limits, design_words
from steelyard.answers.findings import negative_controls
from steelyard.answers.money import burst_words, cost_words
from steelyard.answers.outlook.compute import Forecast
from steelyard.answers.outlook.section import condition_words, forecast_json, unmeasured_warm_up
from steelyard.answers.turns import (
    block_parts,
    measured_words,
    shared_pairs,
    taken_words,
    turn_pairs,
    turn_words,
    warm_up_words,
)
from steelyard.campaign.design.schedule import (
    GUESSED_CLUSTER_S,
    GUESSED_POD_START_S,
    GUESSED_REDIS_SET_S,
    GUESSED_ROLLOUT_S,
    cells_of,
    schedule_of,
)
from steelyard.campaign.run.beside_blocks import asked_capacity, sustained_runs, sustained_s
from steelyard.campaign.run.runner import Progress
from steelyard.core.campaign import BlockOutcome, CampaignPlan
from steelyard.core.experiment import Experiment, Reset, SwitchCost
from steelyard.core.schedule import LONGEST_LATENCY_S, Load, Mode, PlannedBlock
from steelyard.core.target import CloudNativePgTarget, EndpointTarget, RedisKubernetesTarget
from steelyard.core.wording import format_bytes, format_duration, format_percent
from steelyard.gateways.process import Operator
from steelyard.report.document import Table as Report
from steelyard.report.document import count
from steelyard.report.terminal import render_table

_BAR_WIDTH = 30
_TERMINAL: Final = "/dev/tty"


def _say(line: str) -> None:
    """Print to standard error; that nobody reads it any more must not end a campaign."""
    with suppress(OSError):
        click.echo(line, err=True)


class PlainProgress(Progress):
    """One line per step, for logs and pipes; a line per run would be too much."""

    def stage(self, what: str) -> None:
        """Say which step before the first block begins."""
        _say(f"  {what} ...")

    def agreed(self, contract: Report) -> None:
        """Say on what terms servers are compared."""
        _say(render_table(contract))

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Say what was frozen."""
        _say(
            f"  after {format_duration(elapsed_s)}: at most {plan.stopping.max_blocks} blocks of"
            f" about {format_duration(plan.block_s)}{_design(plan)}"
        )
        for name, text in block_parts(plan.short, plan.block_s, plan.copying_s):
            _say(f"  {name}: {text}")

    def block_ended(self, outcome: BlockOutcome) -> None:
        """Say why a block is redone."""
        if not outcome.complete:
            _say(f"  block {outcome.index + 1} is redone: {outcome.reason}")

    def looked(self, analysis: results.CampaignAnalysis, *, elapsed_s: float) -> None:
        """Say where every result stands."""
        if analysis.experiment.is_single_pass:
            return  # there is no result to tell about
        total = analysis.plan.stopping.max_blocks if analysis.plan else "?"
        standings = "; ".join(standing(result) for result in analysis.results)
        told = f": {standings}" if standings else ""
        _say(f"  block {analysis.blocks} of {total}, {format_duration(elapsed_s)}{told}")


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


class LiveProgress(Progress):
    """A table of results and cells whose intervals close in, and a bar to the budget."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._stage = ""
        self._analysis: results.CampaignAnalysis | None = None
        self._elapsed_s = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def stage(self, what: str) -> None:
        """Show which step before the first block runs."""
        self._stage = what
        self._draw()

    def say(self, text: str) -> None:
        """Leave a line above the table."""
        self._live.console.print(text, highlight=False, markup=False)

    def agreed(self, contract: Report) -> None:
        """Leave the terms above the table."""
        self.say(render_table(contract))

    def planned(self, plan: CampaignPlan, *, elapsed_s: float) -> None:
        """Show that the blocks begin."""
        self._elapsed_s = elapsed_s
        self._stage = f"block 1 of at most {plan.stopping.max_blocks}"
        self._draw()

    def run_started(self, *, block: int, label: str) -> None:
        """Show the run that goes on."""
        self._stage = f"block {block + 1}: {label}"
        self._draw()

    def block_ended(self, outcome: BlockOutcome) -> None:
        """Leave a line above the table when a block is redone."""
        if not outcome.complete:
            self.say(f"block {outcome.index + 1} is redone: {outcome.reason}")

    def looked(self, analysis: results.CampaignAnalysis, *, elapsed_s: float) -> None:
        """Show the estimates after a complete block."""
        self._analysis, self._elapsed_s = analysis, elapsed_s
        self._draw()

    def _draw(self) -> None:
        with suppress(OSError):
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> RenderableType:
        status = Text(f"{self._stage}", style="dim")
        if self._analysis is None:
            return status
        bar = _bar(self._analysis, self._elapsed_s)
        if not self._analysis.comparisons:
            return Group(bar, status)
        return Group(_standings(self._analysis), bar, status)


def _standings(analysis: results.CampaignAnalysis) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("workload", "configuration", "load", "effect", "95 % interval", "so far"):
        table.add_column(heading, justify="right" if heading == "effect" else "left")
    single = len(analysis.experiment.closed_loads) == 1
    for comparison in analysis.comparisons:
        if comparison.load is not None and single:
            continue  # the cell is the result
        effect = comparison.effect
        table.add_row(
            comparison.workload,
            comparison.configuration,
            "pooled" if comparison.load is None else comparison.load.label,
            "-" if effect is None else format_percent(effect.value),
            interval_text(comparison),
            _word(comparison) if comparison.level is not None else "no verdict yet",
            style="bold" if comparison.load is None else "",
        )
    return table


def interval_text(comparison: results.Comparison) -> str:
    """Return ``[-1.1 %, +2.4 %]``, or why there is none yet."""
    effect = comparison.effect
    if effect is None or effect.low is None or effect.high is None:
        return "no interval yet"
    return f"[{format_percent(effect.low)}, {format_percent(effect.high)}]"


def standing(comparison: results.Comparison) -> str:
    """Return where one result stands, in one phrase."""
    effect = comparison.effect
    value = "-" if effect is None else format_percent(effect.value)
    verdict = f" {_word(comparison)}" if comparison.level is not None else ""
    subject = f"{comparison.workload}, {comparison.configuration}"
    return f"{subject}: {value} {interval_text(comparison)}{verdict}"


def _word(comparison: results.Comparison) -> str:
    """Return the verdict of a look, called what it is: more blocks may still change it."""
    return f"interim: {comparison.verdict}{results.durability_word(comparison)}"


def _bar(analysis: results.CampaignAnalysis, elapsed_s: float) -> RenderableType:
    budget_s = analysis.experiment.stop.budget_s
    total = analysis.plan.stopping.max_blocks if analysis.plan else 0
    left = format_duration(max(budget_s - elapsed_s, 0.0))
    row = Table.grid(padding=(0, 1))
    row.add_row(
        ProgressBar(total=budget_s, completed=min(elapsed_s, budget_s), width=_BAR_WIDTH),
        Text(f"{analysis.blocks} of at most {total} blocks, at most {left} left", style="dim"),
    )
    return row


def progress_for(stream: TextIO, *, quiet: bool = False) -> Progress:
    """Return live progress for a terminal, plain lines for anything else; silence on request."""
    if quiet:
        return Progress()
    console = Console(file=stream)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveProgress(console)
    return PlainProgress()


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


_BLOCKS_SHOWN = 2
_ROUNDS_SHOWN = 2


def forecast_text(
    experiment: Experiment,
    expected: Forecast,
    *,
    path: Path | None = None,
    warning: str = "",
    with_schedule: bool = False,
) -> str:
    """Return a forecast for people, a line per question they would ask."""
    contest = results.contest_of(experiment)
    limits: tuple[str, ...] = ()
    if experiment.attribution is not None:
        contest, limits = (
            design_words(experiment.attribution),
            design_limits(experiment.attribution),
        )
    lines = [
        f"{experiment.name}: {contest}",
        *_facts(experiment, expected),
        *(f"  {name:<10} {text}" for name, text in results.command_pairs(experiment)),
        *(f"  {'' if place else 'factors':<10} {limit}" for place, limit in enumerate(limits)),
    ]
    lines += [*_capacity_lines(experiment, expected), *_cluster_lines(experiment)]
    if expected.sustained_s:
        lines.append(_sustained_line(experiment, expected))
    lines += [*_control_lines(experiment), _disk_line(expected)]
    most_s = expected.most_s(experiment)
    lines += [f"  burst      {burst}" for burst in burst_words(experiment, most_s)]
    if cost := cost_words(experiment, most_s):
        lines.append(f"  cost       {cost}")
    if warning:
        lines.append(f"  warning    {warning}")
    if path is not None:
        lines.append(f"  record     {path}")
    if with_schedule:
        lines += ["", *_schedule(experiment, expected)]
    return "\n".join(lines)


def _facts(experiment: Experiment, expected: Forecast) -> list[str]:
    if experiment.is_single_pass:
        return _pass_facts(experiment, expected)
    stop = experiment.stop
    goal = " or when every workload is decided"
    if not experiment.compares_throughput or stop.blocks is not None:
        goal = ""
    elif stop.width is not None:
        goal = f" or at a half-width of {format_percent(stop.width, signed=False)}"
    elif experiment.gate:
        goal = " or when every condition of `gate` is decided"
    cells = count(len(cells_of(experiment)), "cell")
    words = taken_words(
        experiment, expected.mode, expected.design_reason, expected.switch, expected.memory
    )
    design = f"{words}; {_data(experiment, expected)}; seed {experiment.seed}"
    rounds = f" x {expected.rounds.number} rounds" if expected.rounds.number > 1 else ""
    block = (
        f"{count(len(experiment.configurations), 'configuration')} x {cells}{rounds},"
        f" about {format_duration(expected.block_s)}"
    )
    parts = block_parts(expected.short, expected.block_s, expected.copying_s)
    first = f"preparation about {format_duration(expected.preparation_s)}"
    if experiment.compares_throughput:
        look_s = format_duration(expected.first_look_s)
        first += (
            f", first interim result after {expected.stopping.first_look} blocks at about {look_s}"
        )
    goal = "" if experiment.twin_of is not None else goal
    why = results.uncompared(experiment)
    aim = [f"  looks for  {results.looked_for(experiment)}. {why}"] if why else []
    end = f"end at {format_duration(stop.budget_s)} (about {expected.max_blocks} blocks){goal}"
    return [
        f"  design     {design}",
        *_turn_lines(experiment, expected),
        f"  block      {block}",
        *(f"  {name:<10} {text}" for name, text in parts),
        *aim,
        *_rounds_lines(expected, stop.detect),
        f"  time       {first}; {end}",
    ]


def _turn_lines(experiment: Experiment, expected: Forecast) -> list[str]:
    """Return how turns are taken, or how servers that take none warm up."""
    pairs = [*unmeasured_warm_up(expected)]
    if expected.mode is Mode.ALTERNATING:
        words = f"{turn_words(experiment.measure.turns)}; {measured_words(experiment)}"
        known = turn_pairs(experiment, expected.turns)
        pairs = [
            *(known if expected.turns else [("turns", words)]),
            ("if slow", condition_words(expected, experiment)),
            ("warm-up", warm_up_words(expected.warm_up_s, experiment)),
            *shared_pairs(expected.pausing, expected.memory),
        ]
    return [f"  {name:<10} {text}" for name, text in pairs if text]


def _data(experiment: Experiment, expected: Forecast) -> str:
    if experiment.uses_found_data:
        return _found_data(experiment, expected)
    if expected.mode is Mode.ALTERNATING and expected.reset is Reset.CAMPAIGN:
        return f"sessions of one server, which read {experiment.data_read_together}"
    if expected.mode is Mode.ALTERNATING:
        return "each configuration from fresh data in every block"
    if expected.switch is SwitchCost.REPROVISION:
        return "every start makes its server and data anew"
    if any(target.allow_existing for target in experiment.targets_of(EndpointTarget).values()):
        return f"pgbench's tables vacuumed per {expected.reset}, in a database that is there"
    return f"data restored per {expected.reset}"


def _found_data(experiment: Experiment, expected: Forecast) -> str:
    """Return what becomes of data that were there before."""
    if {each.name for each in experiment.workloads} <= set(expected.reading):
        return "the data that are there, which the scripts only read"
    if all(target.reset_command for target in experiment.targets_of(EndpointTarget).values()):
        return f"the data that are there, brought back by your command per {expected.reset}"
    return "the data that are there: what the scripts change stays changed"


def _rounds_lines(expected: Forecast, decide: float) -> list[str]:
    """Return why a start has several rounds, or what a single one will not see."""
    rounds = expected.rounds
    if rounds.early_only:
        limit = "only the early phase of the checkpoint cycle is measured, and the effect of"
        return [
            f"  rounds     {rounds.number}: {limit} {', '.join(rounds.early_only)} changes over it"
        ]
    if not rounds.reason:
        return []
    lines = [f"  rounds     {rounds.number} per start: {rounds.reason}"]
    if rounds.least_instances is not None:
        effect = format_percent(decide, signed=False)
        lines.append(
            f"  instances  at least {rounds.least_instances} per configuration to find {effect}, at"
            " these deviations"
        )
    return lines


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


def _pass_facts(experiment: Experiment, expected: Forecast) -> list[str]:
    cells = len(cells_of(experiment))
    time = (
        f"preparation about {format_duration(expected.preparation_s)}, end at about"
        f" {format_duration(expected.pass_s)}"
    )
    return [
        "  design     a single unrepeated pass in file order: no interval, no verdict",
        f"  pass       {cells} runs, about {format_duration(expected.block_s)}",
        f"  time       {time}",
    ]


def _control_lines(experiment: Experiment) -> tuple[str, ...]:
    """Return which workloads nothing of what was asked for can touch, if it is so anywhere."""
    against: dict[str, list[str]] = {}
    for each in negative_controls(experiment, ()):
        against.setdefault(each.workload, []).append(each.configuration)
    told = "; ".join(f"{name} under {', '.join(who)}" for name, who in against.items())
    return (f"  control    what differs cannot touch {told}",) if told else ()


def _disk_line(expected: Forecast) -> str:
    if not expected.disk_bytes:
        return "  disk       the servers' own, which is not visible from here"
    parts = [
        f"{format_bytes(needed)} in {directory} ({format_bytes(free)} free)"
        for directory, (needed, free) in expected.disk_bytes.items()
    ]
    return f"  disk       at most {'; '.join(parts)}"


def _schedule(experiment: Experiment, expected: Forecast) -> list[str]:
    blocks = max(min(expected.max_blocks, _BLOCKS_SHOWN), 1)
    schedule = schedule_of(
        experiment,
        mode=expected.mode,
        blocks=blocks,
        rounds=expected.rounds.number,
        reading=expected.reading,
        at_once=expected.at_once,
    )
    more = expected.max_blocks - len(schedule.blocks)
    shown = _ROUNDS_SHOWN * len(schedule.blocks[0].starts[0].runs) // expected.rounds.number
    show = _turns_of_block if expected.mode is Mode.ALTERNATING else _block_lines
    lines = [line for block in schedule.blocks for line in show(block, shown)]
    return [*lines, f"and about {more} more blocks"] if more > 0 else lines


def _block_lines(block: PlannedBlock, first: int) -> list[str]:
    """Return a line per start, with its ``first`` runs."""
    lines = [f"block {block.index + 1}"]
    for start in block.starts:
        runs = ", ".join(
            f"{run.cell.workload} {_short(run.cell.load)} [{run.configuration}]"
            for run in start.runs[:first]
        )
        more = len(start.runs) - first
        rest = f", and {more} more runs" if more > 0 else ""
        lines.append(f"  start of {start.configuration}: {runs}{rest}")
    return lines


def _turns_of_block(block: PlannedBlock, first: int) -> list[str]:
    """Return a line for the slots of each sub-block, and one for the first cells in their order."""
    up = [
        "  " + ", ".join(f"{start.configuration} in slot {n}" for n, start in enumerate(starts, 1))
        for starts in block.sub_blocks
    ]
    runs = block.starts[0].runs
    cells = ", ".join(f"{run.cell.workload} {_short(run.cell.load)}" for run in runs[:first])
    rest = f", and {len(runs) - first} more cells" if len(runs) > first else ""
    return [f"block {block.index + 1}", *up, f"  in turns: {cells}{rest}"]


def _short(load: Load) -> str:
    rated = f" at {load.rate_label}" if load.is_open else ""
    return f"{load.clients}c/{load.threads}t{rated}"


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
