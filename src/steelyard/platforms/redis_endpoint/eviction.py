"""What may drive keys of others out of a server's memory: settings, and the workload's own keys.

Invariant: beside keys of others nothing is loaded or set where the server may evict.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard.model.errors import PreflightError
from steelyard.model.redis_size import in_bytes
from steelyard.model.units import format_bytes
from steelyard.platforms.redis_endpoint.readiness import ServerState

_LIMIT: Final = "maxmemory"
_POLICY: Final = "maxmemory-policy"
_KEEPS: Final = "noeviction"
_WAY_OUT: Final = "name a server of your own"
Asked = Sequence[tuple[str, str]]


def require_kept(state: ServerState, asked: Asked, where: str) -> None:
    """Raise when a server may evict keys of others, as it is or as treatments want it.

    Limit and policy are set one after the other and go back likewise, so every limit is looked at
    together with every policy.

    Args:
        state: What the server holds of others, and how it is set.
        asked: Names, in small letters, and values of all settings of all treatments.
        where: The server.

    Raises:
        PreflightError: With what would be in force.
    """
    if not state.keys:
        return
    limits = {state.limit_bytes, *(in_bytes(value) for value in _values(asked, _LIMIT))}
    policies = {state.policy, *(value.lower() for value in _values(asked, _POLICY))}
    if limits == {0} or policies == {_KEEPS}:
        return
    if len(limits) == len(policies) == 1:
        raise PreflightError(
            f"the server at {where} holds keys of others and evicts keys when its memory is full"
            f" ({state.policy}, maxmemory {format_bytes(state.limit_bytes)}): those of the"
            " workloads would drive them out",
            hint=f"Give it the policy {_KEEPS} for as long as the campaign lasts, or {_WAY_OUT}.",
        )
    wanted = ", ".join(dict.fromkeys(f"{n} {v}" for n, v in asked if n in (_LIMIT, _POLICY)))
    raise PreflightError(
        f"the server at {where} holds keys of others, and with what the treatments ask for"
        f" ({wanted}) it may evict them: it has maxmemory {format_bytes(state.limit_bytes)} and"
        f" the policy {state.policy or 'unknown'}",
        hint=f"Remove them from the treatments, or {_WAY_OUT}.",
    )


def require_fitting(state: ServerState, asked: Asked, needed_bytes: int, where: str) -> None:
    """Raise when a limit that a treatment sets has no room for keys of others and the own.

    Raises:
        PreflightError: Their writes would be refused.
    """
    limits = [in_bytes(value) or 0 for value in _values(asked, _LIMIT)]
    least = min((limit for limit in limits if limit), default=None)
    if not state.keys or least is None or state.used_bytes + needed_bytes <= least:
        return
    raise PreflightError(
        f"a treatment limits the server at {where} to {format_bytes(least)}, where others have"
        f" keys: it uses {format_bytes(state.used_bytes)}, the workloads make about"
        f" {format_bytes(needed_bytes)}, and then it would refuse what others write",
        hint=f"Raise `maxmemory` in the treatment, load fewer or smaller keys, or {_WAY_OUT}.",
    )


def require_bounded(state: ServerState, growing: Sequence[str], where: str) -> None:
    """Raise when workloads that grow without bound would fill a server of others.

    Raises:
        PreflightError: With the first of them.
    """
    if state.keys and growing:
        raise PreflightError(
            f"the workload {growing[0]} makes data that grow without bound, and the server at"
            f" {where} holds keys of others: it may run out of memory",
            hint=f"Take a workload that overwrites its keys (set, hset, zadd), or {_WAY_OUT}.",
        )


def _values(asked: Asked, name: str) -> Iterator[str]:
    return (value for asked_name, value in asked if asked_name == name)
