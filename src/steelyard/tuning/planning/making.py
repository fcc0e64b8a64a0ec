"""A whole plan: its design, files and knobs; and the directory that it is written to."""

from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from steelyard.gateways.files import make_directory, write_text
from steelyard.model.command import quoted
from steelyard.model.errors import InputError
from steelyard.model.stack import StackPlan, StackRequest
from steelyard.model.stack_facts import StackFacts
from steelyard.tuning.planning.designing import design
from steelyard.tuning.planning.foresight import left_violated
from steelyard.tuning.planning.huge_pages import PageCounter
from steelyard.tuning.planning.knobs import knobs_of
from steelyard.tuning.planning.present_domain import design_for, design_without, facts_with
from steelyard.tuning.rendering.files import render

PLAN: Final = "plan.json"
FILES: Final = "files"
_APPLIED: Final = "applied.jsonl"
_ADAPTER: Final = TypeAdapter(StackPlan)


def make_plan(
    request: StackRequest, facts: StackFacts, counter: PageCounter, present: str | None = None
) -> StackPlan:
    """Return a plan.

    Args:
        request: What is asked for.
        facts: Of the machines that it is for.
        counter: Counts the huge pages of the server's settings.
        present: XML of the domain where it is there already; the plan changes that one.

    Raises:
        PreflightError: What is asked for cannot be had, with the constraint and what would fit; or
            the plan itself would break a rule.
        InputError: The domain's XML cannot be used for this plan.
    """
    if present is None:
        made = design_without(design(request, facts, counter), facts)
    else:
        facts = facts_with(facts, present)
        made = design_for(design(request, facts, counter), present)
    left = left_violated(made, facts)
    files = render(made, present)
    return StackPlan(design=made, knobs=knobs_of(made, files), files=files, left=left)


def plan_json(plan: StackPlan) -> str:
    """Return a plan as ``plan.json`` has it."""
    return _ADAPTER.dump_json(plan, indent=2).decode() + "\n"


def require_free(directory: Path) -> None:
    """Check that a plan may be written to a directory.

    Raises:
        InputError: Something else is there, or a plan that was applied.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise InputError(f"{directory} is not a directory", hint="Name a new one with --out.")
    if (directory / _APPLIED).exists():
        raise InputError(
            f"the plan in {directory} was applied, and its record is needed to revert it",
            hint=f"Revert it by `steelyard stack revert {quoted(directory)}`, or name another"
            " directory.",
        )
    if any(directory.iterdir()) and not (directory / PLAN).exists():
        raise InputError(
            f"{directory} has other files in it", hint="Name a new directory with --out."
        )


def write_plan(directory: Path, plan: StackPlan) -> None:
    """Write ``plan.json`` and every rendered file below ``files``.

    Raises:
        InputError: Something else is there, or a plan that was applied.
    """
    require_free(directory)
    for file in plan.files:
        path = directory / FILES / file.name
        make_directory(path.parent)
        write_text(path, file.content)
    make_directory(directory)
    write_text(directory / PLAN, plan_json(plan))
