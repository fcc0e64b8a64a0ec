"""What would fit in place of a request that does not: found by planning it, so that it does."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from steelyard.model.stack import StackRequest
from steelyard.model.units import MIB

Fits = Callable[[StackRequest], bool]

_STEPS: Final = 30
_FACTOR: Final = 0.85  # from one size that is tried to the next
_FINE: Final = 64  # a found size is the limit within so many parts of itself
_FEWEST_CONNECTIONS: Final = 4
_MORE_CPUS: Final = 8
_NOTHING: Final = "Nothing of the kind fits there: plan for a larger machine, or free this one."


def what_fits(request: StackRequest, fits: Fits) -> str:
    """Return the changes of a request that make it fit, each alone, as options of the command.

    Args:
        request: One that does not fit.
        fits: Plans another one.
    """
    found = list(_changed_alone(request, fits)) or list(_smaller(request, fits))
    if not found:
        return _NOTHING
    told = [f"`{option}`" for option in found]
    either = f"either of {', '.join(told)}" if len(told) > 1 else told[0]
    return f"With everything else as asked, {either} would fit."


def _changed_alone(request: StackRequest, fits: Fits) -> Iterator[str]:
    """Yield options that make a request fit without any other change."""
    mebibytes, cpus = request.memory_bytes // MIB, request.cpus

    def with_memory(size: int) -> bool:
        return fits(replace(request, memory_bytes=size * MIB))

    def with_cpus(count: int) -> bool:
        return fits(replace(request, cpus=count))

    for sizes in (_below(mebibytes), _above(mebibytes)):
        size = _nearest(mebibytes, sizes, with_memory)
        if size is not None:
            yield f"--memory {size}MiB"
    for counts in (range(cpus - 1, 0, -1), range(cpus + 1, 2 * cpus + _MORE_CPUS)):
        count = next((each for each in counts if with_cpus(each)), None)
        if count is not None:
            yield f"--cpus {count}"
    yield from _what_was_asked_beside(request, fits)


def _what_was_asked_beside(request: StackRequest, fits: Fits) -> Iterator[str]:
    """Yield smaller buffers and fewer connections, where they were asked for at all."""
    if request.shared_buffers_bytes is not None:
        asked = request.shared_buffers_bytes // MIB
        size = _nearest(
            asked,
            _below(asked),
            lambda each: fits(replace(request, shared_buffers_bytes=each * MIB)),
        )
        if size is not None:
            yield f"--shared-buffers {size}MiB"
    if request.max_connections is not None:
        least = (each for each in _below(request.max_connections) if each >= _FEWEST_CONNECTIONS)
        count = _nearest(
            request.max_connections,
            least,
            lambda each: fits(replace(request, max_connections=each)),
        )
        if count is not None:
            yield f"--max-connections {count}"


def _smaller(request: StackRequest, fits: Fits) -> Iterator[str]:
    """Yield the largest request that fits with fewer CPUs and less memory at once."""
    count = request.cpus
    while count > 1:
        count = max(count // 2, 1)
        fewer = replace(request, cpus=count)
        size = _nearest(
            request.memory_bytes // MIB,
            _below(request.memory_bytes // MIB),
            lambda each, fewer=fewer: fits(replace(fewer, memory_bytes=each * MIB)),  # type: ignore[misc]
        )
        if size is not None:
            yield f"--cpus {count} --memory {size}MiB"
            return


def _below(start: int) -> Iterator[int]:
    """Yield ever smaller sizes."""
    size = start
    for _ in range(_STEPS):
        size = min(int(size * _FACTOR), size - 1)
        if size < 1:
            return
        yield size


def _above(start: int) -> Iterator[int]:
    size = start
    for _ in range(_STEPS):
        size = max(int(size / _FACTOR), size + 1)
        yield size


def _nearest(start: int, others: Iterable[int], fits: Callable[[int], bool]) -> int | None:
    """Return a number that fits, near to where numbers towards ``start`` do not any more."""
    beyond = start
    for number in others:
        if fits(number):
            return _refined(number, beyond, fits)
        beyond = number
    return None


def _refined(inside: int, outside: int, fits: Callable[[int], bool]) -> int:
    while abs(outside - inside) > max(inside // _FINE, 1):
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if fits(middle) else (inside, middle)
    return inside
