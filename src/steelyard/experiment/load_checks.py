"""What takes two places of the file to see about loads: rates, goals, generators, the capacity."""

from collections import Counter
from collections.abc import Iterator, Sequence

from steelyard.experiment.document import Issue, KeyPath
from steelyard.experiment.form_loads import CLOSED, LoadsForm, Rate, asked_rates
from steelyard.experiment.validation import Draft
from steelyard.model.experiment import Design
from steelyard.model.latency import LogPolicy

_ONCE = "Give each once."


def load_issues(draft: Draft) -> Iterator[Issue]:
    """Yield everything that is wrong between the loads of a file and what goes with them."""
    if draft.loads is not None:
        yield from _repeated(draft.loads)
        yield from _threads(draft.loads)
        yield from _generators(draft.loads)
        yield from _rates(draft, draft.loads)
        yield from _capacity(draft, draft.loads)
        yield from _precision(draft)
    yield from _goal(draft)
    yield from _log(draft)


def compares(draft: Draft) -> bool:
    """Return whether throughput is compared: several treatments, and a closed loop among the loads.

    Loads that are not sound are taken to be closed unless a rate stands there.
    """
    several = bool(draft.factor_kinds) or len(draft.treatment_names) > 1
    return several and not measures_open_loops_only(draft)


def measures_open_loops_only(draft: Draft) -> bool:
    """Return whether every load has a rate, as far as the file can be understood."""
    if draft.loads is None:
        return draft.document.at(("loads", "rate")) is not None
    return not any(rate.is_closed for rate in asked_rates(draft.loads, draft.goal))


def _repeated(loads: LoadsForm) -> Iterator[Issue]:
    counted = (("clients", loads.clients), ("threads", loads.threads or ()))
    for key, numbers in counted:
        yield from _twice(("loads", key), numbers, "Give each number once.")
    yield from _twice(("loads", "rate"), [str(rate) for rate in loads.rate or ()], _ONCE)


def _twice(path: KeyPath, given: Sequence[object], hint: str) -> Iterator[Issue]:
    for each, times in Counter(given).items():
        if times > 1:
            yield Issue(path=path, message=f"{each} is given {times} times", hint=hint)


def _threads(loads: LoadsForm) -> Iterator[Issue]:
    threads = loads.threads
    if not threads:
        return
    path = ("loads", "threads")
    hint = "The generator needs at least one client per thread; `threads: auto` always fits."
    if idle := [clients for clients in loads.clients if clients < min(threads)]:
        message = f"no thread count fits clients {', '.join(map(str, idle))}"
        yield Issue(path=path, message=message, hint=hint)
    if excess := [count for count in threads if count > max(loads.clients)]:
        message = f"threads {', '.join(map(str, excess))} exceed every number of clients"
        yield Issue(path=path, message=message, hint=hint)


def _generators(loads: LoadsForm) -> Iterator[Issue]:
    path = ("loads", "generators")
    if loads.generators > min(loads.clients):
        message = (
            f"{loads.generators} generators need as many clients, and the smallest load has"
            f" {min(loads.clients)}"
        )
        hint = "Lower `generators`, or remove the loads with fewer clients."
        yield Issue(path=path, message=message, hint=hint)
    if few := [count for count in loads.threads or () if count < loads.generators]:
        message = (
            f"threads {', '.join(map(str, few))} are fewer than the {loads.generators} generators"
        )
        hint = "Each generator needs a thread of its own; `threads: auto` always fits."
        yield Issue(path=("loads", "threads"), message=message, hint=hint)


def _rates(draft: Draft, loads: LoadsForm) -> Iterator[Issue]:
    rates = asked_rates(loads, draft.goal)
    if loads.latency_limit is not None:
        yield from _latency_limit(draft, loads.latency_limit, rates)
    shares = [str(rate) for rate in loads.rate or () if rate.share is not None]
    if shares and draft.document.at(("design",)) == Design.ONCE:
        message = f"a single pass measures no capacity, so {', '.join(shares)} of it is not known"
        hint = "Write rates as transactions per second, or remove `design`."
        yield Issue(path=("loads", "rate"), message=message, hint=hint)


def _latency_limit(draft: Draft, limit_s: float, rates: Sequence[Rate]) -> Iterator[Issue]:
    path = ("loads", "latency_limit")
    if all(rate.is_closed for rate in rates):
        message = "`latency_limit` needs a rate: a closed loop is never late"
        hint = "Add `rate`, or remove it."
        yield Issue(path=path, message=message, hint=hint, at_key=True)
    elif draft.goal is not None and limit_s < draft.goal.limit_s:
        message = (
            f"transactions are skipped when they are {limit_s:g} s late, and `slo` asks about"
            f" {draft.goal.limit_s:g} s"
        )
        hint = f"Write at least {draft.goal.limit_s * 1e3:g}ms, or leave it out."
        yield Issue(path=path, message=message, hint=hint)


def _capacity(draft: Draft, loads: LoadsForm) -> Iterator[Issue]:
    if draft.document.at(("capacity",)) is None:
        return
    if not any(rate.share is not None for rate in asked_rates(loads, draft.goal)):
        message = "no load is a share of the capacity, so it is not measured"
        hint = "Write a share as in `rate: 70%`, or remove it."
        yield Issue(path=("capacity",), message=message, hint=hint, at_key=True)
    clients = draft.capacity.clients if draft.capacity else None
    path = ("capacity", "clients")
    yield from _twice(path, clients or (), "Give each number once.")
    if excess := [count for count in clients or () if count > max(loads.clients)]:
        message = f"clients {', '.join(map(str, excess))} exceed every number in `loads.clients`"
        hint = "Shares of the capacity are offered with those; a load must be able to reach it."
        yield Issue(path=path, message=message, hint=hint)


def _precision(draft: Draft) -> Iterator[Issue]:
    """Yield that a width is asked of an interval that there will not be."""
    single = draft.document.at(("design",)) == Design.ONCE
    if draft.stop is None or draft.stop.precision is None or single or compares(draft):
        return
    why = "there is one treatment"
    if measures_open_loops_only(draft):
        why = "the throughput of an open loop is what was asked for"
    elif not draft.goal:
        return  # one treatment in closed loops is refused as such
    message = f"`precision` is the width of a comparison of throughput, and {why}"
    hint = "Remove it: the campaign then ends at its budget."
    yield Issue(path=("stop", "precision"), message=message, hint=hint, at_key=True)


def _goal(draft: Draft) -> Iterator[Issue]:
    if draft.goal is None:
        return
    rates = draft.loads.rate if draft.loads else None
    if rates and all(rate.is_closed for rate in rates):
        message = f"`slo` asks for a rate, and all loads are {CLOSED}"
        hint = "Remove `rate`: the loads then become shares of the capacity."
        yield Issue(path=("slo",), message=message, hint=hint, at_key=True)
    if draft.document.at(("design",)) == Design.ONCE:
        message = "a single pass has no interval, so `slo` has no answer"
        hint = "Remove one of the two."
        yield Issue(path=("slo",), message=message, hint=hint, at_key=True)


def _log(draft: Draft) -> Iterator[Issue]:
    measure = draft.measure
    if measure is None or measure.log != LogPolicy.OFF:
        return
    if draft.goal is not None:
        message = "`slo` is about percentiles, which come from the log, and it is off"
        hint = "Remove `log: off`."
        yield Issue(path=("measure", "log"), message=message, hint=hint)
    if measure.log_sampling < 1.0:
        message = "`log_sampling` says how much is logged, and the log is off"
        hint = "Remove one of the two."
        yield Issue(path=("measure", "log_sampling"), message=message, hint=hint, at_key=True)
