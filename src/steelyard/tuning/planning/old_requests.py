"""Older requests for huge pages that would outlive a plan: at the next boot they come back."""

import re
from collections.abc import Iterator
from typing import Final

from steelyard.model.linux_facts import LinuxFacts
from steelyard.model.stack import PlannedSetting, PoolDesign, Scope
from steelyard.model.stack_facts import Origin, StackFacts, Visibility
from steelyard.tuning.rendering.machine import UNIT_PATH

_SOURCE: Final = "Linux documentation, 'HugeTLB Pages'; sysctl.d(5)"
_PATH: Final = re.compile(r"(/[\w./@+-]+)$")
_COMMAND_LINE: Final = "/proc/cmdline"


def old_requests(
    linux: LinuxFacts, pools: tuple[PoolDesign, ...], facts: StackFacts, layer: str
) -> Iterator[PlannedSetting]:
    """Yield the step that ends an older request for pages of the kernel's default size.

    Args:
        linux: The machine that the pools are planned for.
        pools: All of them.
        facts: With the origins, which name the file.
        layer: ``hypervisor`` or ``linux``.
    """
    asked, size = linux.requested_huge_pages, linux.huge_page_bytes
    planned = [pool.pages for pool in pools if pool.page_bytes == size]
    if asked is None or not planned or (asked == sum(planned) and len(planned) == 1):
        return
    path = _path_of(facts, layer)
    if path == UNIT_PATH or (path is None and not asked):
        return
    told = f"{asked} huge pages are asked for"
    what = "whatever asks for them" if path is None else f"vm.nr_hugepages in {path}"
    if path == _COMMAND_LINE:
        what = "hugepages= on the kernel's command line"
    yield PlannedSetting(
        name=f"Take away {what}",
        value="" if path is None else _check(path),
        reason=f"{told} beside this plan's {sum(planned)}: the next boot would allocate them, over"
        " all nodes, or take the plan's away",
        source=_SOURCE,
        scope=Scope.REBOOT,
    )


def _path_of(facts: StackFacts, layer: str) -> str | None:
    """Return the file that the request is in; None where nobody knows it."""
    origin = facts.origin(f"{layer}.requested_huge_pages")
    if origin.visibility is not Visibility.YES and facts.hypervisor == facts.linux:
        origin = facts.origin("linux.requested_huge_pages")
    return _named_in(origin)


def _named_in(origin: Origin) -> str | None:
    found = _PATH.search(origin.source)
    return found[1] if found is not None and origin.visibility is Visibility.YES else None


def _check(path: str) -> str:
    if path == _COMMAND_LINE:
        return f"! grep -Eq '(^| )hugepages=' {path}"
    return f"! grep -Eqs '^[[:space:]]*-?[[:space:]]*vm[./]nr_hugepages' {path}"
