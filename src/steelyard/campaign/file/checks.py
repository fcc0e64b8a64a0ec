"""What takes two places of the file to see: names, pairs of loads, rules that exclude each other.

Of loads that is rates, goals, generators and the capacity; of the machine settings of the kernel
and steps by hand. Each check yields issues and none raises; together they are all that stands
between a sound form and an experiment, besides ``inheritance`` and ``files`` (scripts).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from steelyard.campaign.file.document import Issue, KeyPath, Value
from steelyard.campaign.file.form import WHAT_IS_COMPARED, Draft, LevelForm, level_paths
from steelyard.campaign.file.systems import (
    SYSTEMS,
    builtin_issues,
    generator_issues,
    stray_keys,
    system_issues,
)
from steelyard.core import linux as host_settings
from steelyard.core.experiment import Design, LogPolicy, Measure, SwitchCost
from steelyard.core.places import WorkersAsked
from steelyard.core.quantities import SETTING, as_key, shown, text_of
from steelyard.core.schedule import CLOSED, LoadsAsked, Rate
from steelyard.core.wording import (
    InputError,
    choice,
    command_holds_secret,
    did_you_mean,
    value_holds_secret,
)

_ONCE = "Give each once."


def load_issues(draft: Draft) -> Iterator[Issue]:
    """Yield everything that is wrong between the loads of a file and what goes with them."""
    if draft.load is not None:
        clients = [each.written for each in draft.load.clients]
        counted = (("clients", clients), ("threads", draft.load.threads or ()))
        for key, numbers in counted:
            yield from _twice(("load", key), numbers, "Give each number once.")
        yield from _twice(("load", "rate"), [str(rate) for rate in draft.load.rate or ()], _ONCE)
        yield from _threads(draft.load)
        yield from _generators(
            draft.load, None if draft.generator is None else draft.generator.workers
        )
        yield from _rates(draft, draft.load)
        yield from _capacity(draft, draft.load)
        yield from _uncompared(draft)
    yield from _goal(draft)
    yield from _log(draft)


def compares(draft: Draft) -> bool:
    """Whether throughput is compared: several configurations, and a closed loop among the loads.

    Loads that are not sound are taken to be closed unless a rate stands there.
    """
    several = bool(draft.factor_kinds) or len(draft.configuration_names) > 1
    return several and not measures_open_loops_only(draft)


def measures_open_loops_only(draft: Draft) -> bool:
    """Return whether every load has a rate, as far as the file can be understood."""
    if draft.load is None:
        return draft.document.at(("load", "rate")) is not None
    return not any(rate.is_closed for rate in draft.load.rates(draft.goal))


def _twice(path: KeyPath, given: Sequence[object], hint: str) -> Iterator[Issue]:
    for each, times in Counter(given).items():
        if times > 1:
            yield Issue(path=path, message=f"{each} is given {times} times", hint=hint)


def _threads(loads: LoadsAsked) -> Iterator[Issue]:
    threads = loads.threads
    if not threads:
        return
    path = ("load", "threads")
    if paired := [each.written for each in loads.clients if each.threads is not None]:
        message = f"clients {', '.join(paired)} have threads of their own"
        yield Issue(path=path, message=message, hint="Remove `threads`, or write clients alone.")
        return
    hint = "The generator needs at least one client per thread; `threads: auto` always fits."
    if idle := [clients for clients in loads.clients if clients < min(threads)]:
        message = f"no thread count fits clients {', '.join(map(str, idle))}"
        yield Issue(path=path, message=message, hint=hint)
    if excess := [count for count in threads if count > max(loads.clients)]:
        message = f"threads {', '.join(map(str, excess))} exceed every number of clients"
        yield Issue(path=path, message=message, hint=hint)


def _generators(loads: LoadsAsked, workers: WorkersAsked | None) -> Iterator[Issue]:
    path, number, each = ("load", "generators"), loads.generators, ""
    if workers is not None:
        path, each = ("generator", "workers"), f" on {workers.number} workers"
        number *= workers.number
    key = path[-1]
    if number > min(loads.clients):
        message = (
            f"{number} generators{each} need as many clients, and the smallest load has"
            f" {min(loads.clients)}"
        )
        hint = f"Lower `{key}`, or remove the loads with fewer clients."
        yield Issue(path=path, message=message, hint=hint)
    given = (*(loads.threads or ()), *(pair.threads for pair in loads.clients if pair.threads))
    if few := [count for count in given if count < number]:
        message = f"threads {', '.join(map(str, few))} are fewer than the {number} generators{each}"
        hint = "Each generator needs a thread of its own; `threads: auto` always fits."
        yield Issue(path=("load", "threads"), message=message, hint=hint)


def _rates(draft: Draft, loads: LoadsAsked) -> Iterator[Issue]:
    rates = loads.rates(draft.goal)
    if loads.latency_limit_s is not None:
        yield from _latency_limit(draft, loads.latency_limit_s, rates)
    shares = [str(rate) for rate in loads.rate or () if rate.share is not None]
    if shares and draft.design == Design.ONCE:
        message = f"a single pass measures no capacity, so {', '.join(shares)} of it is not known"
        hint = "Write rates as transactions per second, or remove `design`."
        yield Issue(path=("load", "rate"), message=message, hint=hint)


def _latency_limit(draft: Draft, limit_s: float, rates: Sequence[Rate]) -> Iterator[Issue]:
    path = ("load", "latency_limit")
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


def _capacity(draft: Draft, loads: LoadsAsked) -> Iterator[Issue]:
    if draft.document.at(("capacity",)) is None:
        return
    if not any(rate.share is not None for rate in loads.rates(draft.goal)):
        message = "no load is a share of the capacity, so it is not measured"
        hint = "Write a share as in `rate: 70%`, or remove it."
        yield Issue(path=("capacity",), message=message, hint=hint, at_key=True)
    clients = draft.capacity.clients if draft.capacity else None
    path = ("capacity", "clients")
    yield from _twice(path, clients or (), "Give each number once.")
    if excess := [count for count in clients or () if count > max(loads.clients)]:
        message = f"clients {', '.join(map(str, excess))} exceed every number in `load.clients`"
        hint = "Shares of the capacity are offered with those; a load must be able to reach it."
        yield Issue(path=path, message=message, hint=hint)


def _uncompared(draft: Draft) -> Iterator[Issue]:
    """Yield a gate, and the width of an interval, where no throughput is compared."""
    if draft.stop is None or compares(draft):
        return
    single, why = draft.design == Design.ONCE, _why_uncompared(draft)
    if draft.document.at(("gate",)) and (single or why):
        told = "a single pass compares nothing" if single else why
        message = f"`gate` is about a comparison of throughput, and {told}"
        hint = "Remove it, or compare configurations in blocks under `load.clients` without a rate."
        yield Issue(path=("gate",), message=message, hint=hint, at_key=True)
    if draft.stop.width is not None and why and not single:
        message = f"`width` is the width of a comparison of throughput, and {why}"
        hint = "Remove it: the campaign then ends at its budget."
        yield Issue(path=("stop", "width"), message=message, hint=hint, at_key=True)


def _why_uncompared(draft: Draft) -> str:
    """Return why throughput is not compared; empty where the file is refused for that anyway."""
    if measures_open_loops_only(draft):
        return "the throughput of an open loop is what was asked for"
    return "there is one configuration" if draft.goal else ""


def _goal(draft: Draft) -> Iterator[Issue]:
    if draft.goal is None:
        return
    rates = draft.load.rate if draft.load else None
    if rates and all(rate.is_closed for rate in rates):
        message = f"`slo` asks for a rate, and all loads are {CLOSED}"
        hint = "Remove `rate`: the loads then become shares of the capacity."
        yield Issue(path=("slo",), message=message, hint=hint, at_key=True)
    if draft.design == Design.ONCE:
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


# Keys that take a command, or what a person or a program is to do.
_COMMANDS: Final = re.compile(r"(.*_)?command|manual|text|flags", re.IGNORECASE)
_OF_TURNS: Final = ("turn", "turn_discard", "reconnects")


def checked(draft: Draft) -> Iterator[Issue]:
    """Yield everything that is wrong between the parts of a file."""
    yield from _secrets(draft.document.value, (), SYSTEMS[draft.engine].about.passwords)
    yield from system_issues(draft)
    yield from generator_issues(draft)
    yield from _workloads(draft)
    yield from load_issues(draft)
    yield from _measure(draft)
    yield from _stop(draft)
    yield from _configuration_names(draft)
    for name in draft.configuration_names:
        yield from linux_issues(draft, ("configurations", name))
    for path in level_paths(draft.document):
        yield from linux_issues(draft, path)
    for name, configuration in draft.configurations.items():
        yield from manual_issues(("configurations", name), configuration)
    for path, level in draft.levels.items():
        yield from manual_issues(path, level)


def _strings(value: Value) -> Iterable[str]:
    """Yield every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)


def _secrets(value: Value, path: KeyPath, source: str) -> Iterator[Issue]:
    is_command = path and _COMMANDS.fullmatch(str(path[-1])) and not isinstance(value, dict)
    if is_command and command_holds_secret(" ".join(_strings(value))):  # of a list of words, too
        hint = "Records carry no secrets: let the command read it from a file of its own."
        yield Issue(path=path, message="the command has a password in it", hint=hint)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets(item, (*path, key), source)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets(item, (*path, index), source)
    elif path[-2:] == ("target", "uri"):
        return  # its own form says so
    elif any(map(value_holds_secret, _strings(value))):
        hint = f"Records carry no secrets: use {source}."
        yield Issue(path=path, message="the value has a password in it", hint=hint)


def _workloads(draft: Draft) -> Iterator[Issue]:
    raw = draft.document.at(("workloads",))
    items = raw if isinstance(raw, list) else []
    names = [text_of(item.get("name")) if isinstance(item, dict) else None for item in items]
    for index, name in _repeated_names(names):
        message = f"there are two workloads called {shown(name)}"
        hint = "Give each its own name."
        yield Issue(path=("workloads", index, "name"), message=message, hint=hint)
    for index, item in enumerate(items):
        builtin = item.get("builtin") if isinstance(item, dict) else None
        if isinstance(builtin, str):
            yield from builtin_issues(("workloads", index, "builtin"), builtin.strip(), draft)
    for index, workload in draft.workloads.items():
        path = ("workloads", index)
        yield from stray_keys(path, draft)
        yield from SYSTEMS[draft.engine].work_issues(draft, path, workload)


def _repeated_names(names: list[str | None]) -> Iterator[tuple[int, str]]:
    seen: list[str | None] = []
    for index, name in enumerate(names):
        if name is not None and name in seen:
            yield index, name
        seen.append(name)


def _measure(draft: Draft) -> Iterator[Issue]:
    if draft.measure is not None:
        yield from _starts(draft, draft.measure)
        yield from _turns(draft, draft.measure)
        yield from _calibration(draft.measure)


def _starts(draft: Draft, measure: Measure) -> Iterator[Issue]:
    if measure.switch == SwitchCost.REPROVISION and measure.reset in ("block", "campaign"):
        message = f"data cannot be kept for a {measure.reset} where every start makes its server"
        yield Issue(path=("measure", "reset"), message=message, hint="Leave `reset` out.")
    single = draft.design == Design.ONCE
    if single and measure.runs_per_start is not None and measure.runs_per_start > 1:
        message = f"a single pass runs every cell once, not {measure.runs_per_start} times"
        yield Issue(
            path=("measure", "runs_per_start"), message=message, hint="Remove one of the two."
        )


def _turns(draft: Draft, measure: Measure) -> Iterator[Issue]:
    turn_s, discard_s = measure.turns.turn_s, measure.turns.turn_discard_s
    if discard_s >= turn_s:
        message = (
            f"`turn_discard` ({discard_s:g} s) takes the whole `turn`"
            f" ({turn_s:g} s), so nothing of it would count"
        )
        given = draft.document.at(("measure", "turn_discard")) is not None
        key = "turn_discard" if given else "turn"
        hint = "Make `turn` longer: at least twice `turn_discard`."
        yield Issue(path=("measure", key), message=message, hint=hint)
    hint = "Make `run_time` longer or `turn` shorter."
    own = ((("workloads", place, "run_time"), w.run_time_s) for place, w in draft.workloads.items())
    for path, run_time_s in ((("measure", "turn"), measure.run_time_s), *own):
        if run_time_s is not None and 2 * turn_s > run_time_s:
            message = f"{run_time_s:g} s hold fewer than two turns of {turn_s:g} s"
            yield Issue(path=path, message=message, hint=hint)
    design = draft.design
    if design not in (Design.ONE_BY_ONE, Design.ONCE):
        return
    for key in _OF_TURNS:
        if draft.document.at(("measure", key)) is not None:
            message = f"`{key}` says how turns are taken, and `design: {design}` takes none"
            hint = f"Remove it, or `design: {design}`."
            yield Issue(path=("measure", key), message=message, hint=hint, at_key=True)


def _calibration(measure: Measure) -> Iterator[Issue]:
    if measure.calibration is None:
        return
    path = ("measure", "calibration")
    if measure.warm_up_s is not None:
        message = "a calibration measures the warm-up, and `warm_up` already declares it"
        hint = "Remove one of the two, or write `warm_up: auto`."
        yield Issue(path=path, message=message, hint=hint, at_key=True)
    calibration = measure.calibration
    if calibration.at_least_s > calibration.run_time_s:
        message = (
            f"`at_least` ({calibration.at_least_s:g} s) is longer than `run_time`"
            f" ({calibration.run_time_s:g} s), "
            "so the calibration could change nothing"
        )
        hint = "Make `run_time` longer, or declare the warm-up."
        yield Issue(path=(*path, "at_least"), message=message, hint=hint)


def _stop(draft: Draft) -> Iterator[Issue]:
    stop = draft.stop
    if stop and stop.blocks is not None and stop.width is not None:
        message = "`blocks` and `width` exclude each other"
        hint = "Keep `blocks` to take so many of them, `width` to stop at a width."
        yield Issue(path=("stop", "width"), message=message, hint=hint, at_key=True)
    if draft.document.at(("stop", "detect")) is not None and stop and stop.width is not None:
        message = "`detect` and `width` exclude each other"
        hint = "Keep `detect` to stop at a verdict, `width` to stop at a width."
        yield Issue(path=("stop", "width"), message=message, hint=hint, at_key=True)


def _configuration_names(draft: Draft) -> Iterator[Issue]:
    names = draft.configuration_names
    for name in names:
        try:
            as_key(name)
        except InputError as error:
            hint = "Use up to 40 letters, digits, hyphens and underscores."
            yield Issue(
                path=("configurations", name), message=error.message, hint=hint, at_key=True
            )
    if any(draft.meant.at((kind,)) is not None for kind in WHAT_IS_COMPARED[1:]):
        return  # ``inheritance`` says what fits beside them
    if draft.design == Design.ONCE:
        yield from _single_pass(draft, names)
    elif len(names) == 1 and not _measures_latency(draft):
        message = "there is one configuration, and a comparison needs two"
        hint = (
            f"Add another; `again: {{extends: {names[0]}}}` compares it with itself. `design:"
            " single-pass` runs one without comparing it; with `load.rate` or `slo` its"
            " latency is measured."
        )
        yield Issue(path=("configurations",), message=message, hint=hint, at_key=True)
    yield from _baseline(draft, names)


def _measures_latency(draft: Draft) -> bool:
    """Return whether one configuration is enough; a goal that cannot be read may say so."""
    return draft.document.at(("slo",)) is not None or measures_open_loops_only(draft)


def _single_pass(draft: Draft, names: tuple[str, ...]) -> Iterator[Issue]:
    if len(names) > 1:
        message = f"a single pass takes one configuration, and there are {len(names)}"
        hint = "Remove `design`: blocks are what compares configurations."
        yield Issue(path=("configurations",), message=message, hint=hint, at_key=True)
    if draft.stop is not None and draft.stop.blocks is not None:
        message = "a single pass has no blocks"
        yield Issue(path=("stop", "blocks"), message=message, hint="Remove `blocks`.", at_key=True)
    if draft.stop is not None and draft.stop.width is not None:
        message = "a single pass has no interval, so `width` can never be reached"
        hint = "Remove one of the two."
        yield Issue(path=("stop", "width"), message=message, hint=hint, at_key=True)


def _baseline(draft: Draft, names: tuple[str, ...]) -> Iterator[Issue]:
    baseline = draft.meant.at(("baseline",))
    name = text_of(baseline)  # a name may be a number
    if name is not None and names and name not in names:
        message = f"there is no configuration {shown(baseline)}"
        yield Issue(path=("baseline",), message=message, hint=choice(name, names))
    if baseline is None and len(names) > 1 and implied_baseline(names) is None:
        message = "`baseline` is missing"
        hint = f"Add `baseline: {names[0]}`, or call one configuration `baseline` or `default`."
        yield Issue(path=("baseline",), message=message, hint=hint, at_key=True)


def implied_baseline(names: tuple[str, ...]) -> str | None:
    """Return the configuration that is the baseline by its name, None when none or two are."""
    called = [name for name in names if name in ("baseline", "default")]
    return called[0] if len(called) == 1 else None


_COMMON: Final = ("vm.nr_hugepages", "vm.swappiness", *host_settings.SHORT_NAMES)


def linux_issues(draft: Draft, path: KeyPath) -> Iterator[Issue]:
    """Yield what is wrong with the names and values of one configuration's or level's ``linux``."""
    given = draft.document.at((*path, "linux"))
    for name, value in given.items() if isinstance(given, dict) else ():
        where = (*path, "linux", name)
        try:
            host_settings.check_name(name)
        except InputError as error:
            hint = did_you_mean(name, _COMMON) or error.hint
            yield Issue(path=where, message=error.message, hint=hint, at_key=True)
            continue
        try:
            text = SETTING.read(value)
        except InputError:
            continue  # the form has said it
        try:
            if text is not None:
                host_settings.check_value(name, text)
        except InputError as error:
            yield Issue(path=where, message=error.message, hint=error.hint)


def manual_issues(path: KeyPath, level: LevelForm) -> Iterator[Issue]:
    """Yield that nobody is told what to do."""
    if level.manual is not None and not (level.manual.text or level.manual.command):
        message = "`manual` says neither what to do nor which command does it"
        yield Issue(path=(*path, "manual"), message=message, hint="Add `text` or `command`.")
