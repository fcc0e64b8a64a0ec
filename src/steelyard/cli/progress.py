"""Live progress: a closing table on a terminal, plain lines elsewhere."""

from contextlib import suppress
from typing import Self, TextIO

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from steelyard.answers.results import CampaignAnalysis, Comparison, durability_word
from steelyard.core.campaign import BlockOutcome, CampaignPlan
from steelyard.core.schedule import Mode
from steelyard.core.units import format_duration, format_percent
from steelyard.report.document import Table as Report
from steelyard.report.terminal import render_table

_BAR_WIDTH = 30


def _say(line: str) -> None:
    """Print to standard error; that nobody reads it any more must not end a campaign."""
    with suppress(OSError):
        click.echo(line, err=True)


class PlainProgress:
    """One line per step, for logs and pipes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

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
            f" about {format_duration(plan.block_s)}{_design(plan)}",
        )

    def run_started(self, *, block: int, label: str) -> None:
        """Say nothing: a line per run is too much for a log."""

    def block_ended(self, outcome: BlockOutcome) -> None:
        """Say why a block is redone."""
        if not outcome.complete:
            _say(f"  block {outcome.index + 1} is redone: {outcome.reason}")

    def looked(self, analysis: CampaignAnalysis, *, elapsed_s: float) -> None:
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
    if plan.mode is not Mode.ALTERNATING:
        return f", warm-up {warm_up}"
    lengths = sorted({each.times.turn_s for each in plan.turns})
    turns = " or ".join(f"{length:g} s" for length in lengths)
    return f", in turns of {turns}, warm-up {warm_up} under load"


class LiveProgress:
    """A table of results and cells whose intervals close in, and a bar to the budget."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._stage = ""
        self._analysis: CampaignAnalysis | None = None
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
            self._live.console.print(
                f"block {outcome.index + 1} is redone: {outcome.reason}", highlight=False
            )

    def looked(self, analysis: CampaignAnalysis, *, elapsed_s: float) -> None:
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


def _standings(analysis: CampaignAnalysis) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("workload", "configuration", "load", "effect", "95 % interval", "so far"):
        table.add_column(heading, justify="right" if heading == "effect" else "left")
    single = len(analysis.experiment.closed_loads) == 1
    for comparison in analysis.comparisons:
        if comparison.load is not None and single:
            continue  # the cell is the result
        table.add_row(*_row(comparison), style="bold" if comparison.load is None else "")
    return table


def _row(comparison: Comparison) -> tuple[str, ...]:
    effect = comparison.effect
    return (
        comparison.workload,
        comparison.configuration,
        "pooled" if comparison.load is None else comparison.load.label,
        "-" if effect is None else format_percent(effect.value),
        interval_text(comparison),
        _word(comparison) if comparison.level is not None else "no verdict yet",
    )


def interval_text(comparison: Comparison) -> str:
    """Return ``[-1.1 %, +2.4 %]``, or why there is none yet."""
    effect = comparison.effect
    if effect is None or effect.low is None or effect.high is None:
        return "no interval yet"
    return f"[{format_percent(effect.low)}, {format_percent(effect.high)}]"


def standing(comparison: Comparison) -> str:
    """Return where one result stands, in one phrase."""
    effect = comparison.effect
    value = "-" if effect is None else format_percent(effect.value)
    verdict = f" {_word(comparison)}" if comparison.level is not None else ""
    subject = f"{comparison.workload}, {comparison.configuration}"
    return f"{subject}: {value} {interval_text(comparison)}{verdict}"


def _word(comparison: Comparison) -> str:
    """Return the verdict of a look, called what it is: more blocks may still change it."""
    return f"interim: {comparison.verdict}{durability_word(comparison)}"


def _bar(analysis: CampaignAnalysis, elapsed_s: float) -> RenderableType:
    budget_s = analysis.experiment.stop.budget_s
    total = analysis.plan.stopping.max_blocks if analysis.plan else 0
    left = format_duration(max(budget_s - elapsed_s, 0.0))
    row = Table.grid(padding=(0, 1))
    row.add_row(
        ProgressBar(total=budget_s, completed=min(elapsed_s, budget_s), width=_BAR_WIDTH),
        Text(f"{analysis.blocks} of at most {total} blocks, at most {left} left", style="dim"),
    )
    return row


def progress_for(stream: TextIO) -> PlainProgress | LiveProgress:
    """Return live progress for a terminal, plain lines for anything else."""
    console = Console(file=stream)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveProgress(console)
    return PlainProgress()
