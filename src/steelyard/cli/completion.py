"""``steelyard completion``: completion of the shell, and what it offers for arguments."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

if TYPE_CHECKING:
    from steelyard.core.experiment import Experiment

_VARIABLE = "_STEELYARD_COMPLETE"
_BASH_COLON = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}  # preset:NAME is one word\n"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion of a SHELL: verbs, options, presets, campaigns and their cells.

    For one session: eval "$(steelyard completion bash)". To keep it, write it where the shell
    looks: ~/.local/share/bash-completion/completions/steelyard for bash, a file _steelyard in a
    directory of $fpath for zsh, ~/.config/fish/completions/steelyard.fish for fish.
    """
    from steelyard.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click has all three
    script = ShellComplete.source(found(cli, {}, "steelyard", _VARIABLE))
    click.echo(f"{_BASH_COLON if shell == 'bash' else ''}{script}")


def complete_source(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return presets, and files where the word begins like none."""
    from steelyard.campaign.file.files import (
        bundle_names,
        load_bundle,
        preset_names,
        preset_summary,
    )

    named = {f"preset:{name}": preset_summary(name) for name in preset_names()}
    named |= {f"article:{name}": load_bundle(name).title for name in bundle_names()}
    offered = [
        CompletionItem(name, help=about) for name, about in named.items() if name.startswith(begun)
    ]
    return offered if begun and offered else [*offered, CompletionItem(begun, type="file")]


def complete_campaign(
    _context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the campaigns below campaigns/, or directories where the word begins like none."""
    journals = sorted(Path("campaigns").glob("*/journal.jsonl"))
    names = [str(journal.parent) for journal in journals]
    offered = [CompletionItem(name) for name in names if name.startswith(begun)]
    return offered or [CompletionItem(begun, type="dir")]


def complete_compared(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return the configurations of the campaign that was named, and other campaigns."""
    experiment = _experiment(context)
    names = [each.name for each in experiment.configurations] if experiment else []
    offered = [CompletionItem(name) for name in names if name.startswith(begun)]
    return offered + complete_campaign(context, parameter, begun)


def complete_cell(
    context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Return workloads, and each with its clients, of the campaign that was named."""
    experiment = _experiment(context)
    if experiment is None:
        return []
    clients = dict.fromkeys(load.clients for load in experiment.loads)
    names = [
        name
        for workload in experiment.workloads
        for name in (workload.name, *(f"{workload.name}/{number}" for number in clients))
    ]
    return [CompletionItem(name) for name in names if name.startswith(begun)]


def _experiment(context: click.Context) -> "Experiment | None":
    """Return that of the campaign in the word before; None where there is none: no error."""
    from steelyard.core.wording import SteelyardError
    from steelyard.record.directory import read_campaign

    # Behind an option that lacks its value, click has not told words from arguments yet.
    words = [context.params.get("directory"), *context.args]
    for word in filter(None, words):
        try:
            return read_campaign(Path(word)).experiment
        except SteelyardError:
            continue
    return None
