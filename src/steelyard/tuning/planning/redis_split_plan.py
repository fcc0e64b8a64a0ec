"""A split pair as a plan: designed, judged by the rules, rendered, written."""

from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from steelyard.gateways.files import make_directory, write_text
from steelyard.model.errors import PreflightError
from steelyard.model.findings import Severity
from steelyard.model.inspection import State
from steelyard.model.redis_split import SplitDesign, SplitPlan, SplitRequest
from steelyard.model.stack import RenderedFile
from steelyard.model.stack_facts import RedisFacts, StackFacts
from steelyard.tuning.planning.making import FILES, PLAN, require_free
from steelyard.tuning.planning.redis_split import design_split
from steelyard.tuning.rendering.redis_split import START, render_split
from steelyard.tuning.rules.judging import judge_by
from steelyard.tuning.rules.redis import RULES

_MARK: Final = 'by start.sh"\n'  # as the script sets the title that RED001 looks for
_ADAPTER: Final = TypeAdapter(SplitPlan)


def make_split(request: SplitRequest) -> SplitPlan:
    """Return a plan, judged by the rules of Redis.

    Raises:
        InputError: A name, an address or a path cannot stand in the files.
        PreflightError: The memory or the volume is too small, or the plan would break a rule.
    """
    design = design_split(request)
    files = render_split(design)
    return SplitPlan(design=design, files=files, left=_left(foreseen_pair(design, files)))


def _left(facts: StackFacts) -> tuple[str, ...]:
    judged = [judge_by(rule, facts) for rule in RULES]
    violated = [rule for rule in judged if rule.state is State.VIOLATED]
    for rule in violated:
        if rule.severity is Severity.ERROR:
            raise PreflightError(
                f"this plan would break rule {rule.code}, {rule.title!r}: {rule.messages[0]}",
                hint=rule.remedy,
            )
    return tuple(f"{rule.code}: {message}" for rule in violated for message in rule.messages)


def foreseen_pair(design: SplitDesign, files: tuple[RenderedFile, ...]) -> StackFacts:
    """Return what the rules will see once a design is in effect.

    The primary does come back by itself, but not empty: its fence stands before it, as far as it
    is started by the rendered script.
    """
    request = design.request
    primary = {each.name: each.value for each in design.primary}
    replica = {each.name: each.value for each in design.replica}
    memory = str(request.memory_bytes)
    return StackFacts(
        redis=(
            RedisFacts(
                name=f"{request.name}-primary",
                role="primary",
                save=primary["save"],
                appendonly=primary["appendonly"] == "yes",
                replicas=1,
                auto_restart=True,
                fenced=any(_MARK in f.content for f in files if f.name == f"redis/{START}"),
                maxmemory=primary["maxmemory"],
                memory_limit=memory,
                min_replicas_to_write=int(primary.get("min-replicas-to-write", "0")),
            ),
            RedisFacts(
                name=f"{request.name}-replica",
                role="replica",
                save=replica["save"],
                appendonly=replica["appendonly"] == "yes",
                appendfsync=replica["appendfsync"],
                no_appendfsync_on_rewrite=replica["no-appendfsync-on-rewrite"] == "yes",
                replicas=0,
                storage=None,
                maxmemory=replica["maxmemory"],
                memory_limit=memory,
            ),
        )
    )


def split_json(plan: SplitPlan) -> str:
    """Return a plan as ``plan.json`` has it."""
    return _ADAPTER.dump_json(plan, indent=2).decode() + "\n"


def write_split(directory: Path, plan: SplitPlan) -> None:
    """Write ``plan.json`` and every rendered file below ``files``.

    Raises:
        InputError: Something else is there.
    """
    require_free(directory)
    for file in plan.files:
        path = directory / FILES / file.name
        make_directory(path.parent)
        write_text(path, file.content)
    make_directory(directory)
    write_text(directory / PLAN, split_json(plan))
