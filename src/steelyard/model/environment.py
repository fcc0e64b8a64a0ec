"""Facts of the machine, the tools and every server: what must be known to trust a number."""

from dataclasses import dataclass

from steelyard.model.ceilings import Ceiling
from steelyard.model.experiment import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One fact about the machine, server or tools, ready to print."""

    name: str
    value: str
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSetting:
    """One setting as the running server reports it.

    Attributes:
        name: As the server spells it.
        value: In the server's own unit.
        unit: The server's unit for it, or None.
        source: Where the server took the value from (``default``, ``configuration file``).
    """

    name: str
    value: str
    unit: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnvironment:
    """One treatment's server as it was found running.

    Attributes:
        settings: All of them, as a new session sees them.
        requested: What the experiment asked for.
    """

    treatment: str
    version: str
    settings: tuple[EffectiveSetting, ...]
    requested: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Facts of the campaign's machine, tools and servers.

    Attributes:
        facts: Of the machine and the tools, in the order to print them.
        servers: One per treatment that was activated at least once, in treatment order.
        ceilings: What the place can do at most; empty in old records and where nobody asked.
    """

    facts: tuple[Fact, ...]
    servers: tuple[ServerEnvironment, ...] = ()
    format: int = 1
    ceilings: tuple[Ceiling, ...] = ()
