"""Facts that a rule is judged by: the recommended stack with one thing changed."""

from dataclasses import replace
from typing import Any

from steelyard.core.linux import LinuxFacts
from steelyard.core.stack import DomainFacts, StackFacts
from support.recorded_stacks import recommended


def with_domain(**changes: Any) -> StackFacts:
    """Return the recommended stack with its domain changed."""
    return replace(recommended(), domains=(replace(domain(), **changes),))


def with_domains(*domains: DomainFacts) -> StackFacts:
    """Return the recommended stack with other domains."""
    return replace(recommended(), domains=domains)


def with_hypervisor(**changes: Any) -> StackFacts:
    """Return the recommended stack with its hypervisor changed."""
    return replace(recommended(), hypervisor=replace(_machine("hypervisor"), **changes))


def with_linux(**changes: Any) -> StackFacts:
    """Return the recommended stack with its guest changed."""
    return replace(recommended(), linux=replace(_machine("linux"), **changes))


def domain() -> DomainFacts:
    """Return the recommended domain."""
    [only] = recommended().domains or ()
    return only


def _machine(name: str) -> LinuxFacts:
    machine: LinuxFacts | None = getattr(recommended(), name)
    assert machine is not None
    return machine
