"""Domains that must be able to run at the same time."""

from collections.abc import Iterator

from steelyard.model.stack_facts import DomainFacts


def groups_at_once(domains: tuple[DomainFacts, ...]) -> Iterator[tuple[DomainFacts, ...]]:
    """Yield the domains that run at once, then each other one alone.

    A domain that is shut off and not started by itself claims nothing as long as it is off; where
    nobody saw whether it starts by itself, it counts as one that does.
    """
    at_once = tuple(each for each in domains if each.running or each.autostart is not False)
    if at_once:
        yield at_once
    yield from ((each,) for each in domains if each not in at_once)
