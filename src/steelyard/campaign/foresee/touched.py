"""The server, settings and data that a trial touches, and for how long."""

from collections.abc import Iterator

from steelyard.campaign.file.trial import NOW, values_of
from steelyard.core.experiment import Experiment
from steelyard.core.wording import format_bytes, format_duration
from steelyard.targets.assembly import Assembly


def endpoint_facts(assembly: Assembly) -> dict[str, str]:
    """Return the facts of the server of ``now`` by name; empty if Steelyard starts it."""
    facts = assembly.platforms[NOW].facts()
    return {fact.name: fact.value for fact in facts if fact.subject == "endpoint"}


def touched(experiment: Experiment, assembly: Assembly) -> Iterator[tuple[str, str]]:
    """Yield what a trial touches: server, settings, data and for how long, each with its name."""
    facts = endpoint_facts(assembly)
    changed = experiment.configuration(experiment.contenders[0])  # beside settings all are alike
    if facts:
        is_standby = " (a standby)" if "standby" in facts else ""
        yield "server", f"{facts['address']}{is_standby}, as {facts['user']}"
        if _asked(experiment):
            yield "settings", _settings_touched(experiment, assembly, facts)
    else:
        yield "server", "one that Steelyard starts and removes"
    for script in changed.scripts:
        yield "script", f"{script.rewritten_in} in place of {script.name}"
    for script in changed.prepare:
        yield "change", f"{script.name}, in copies"
    reads = all(map(assembly.engine.only_reads, experiment.workloads))
    yield "data", _data_touched(experiment, assembly, facts, reads=reads)
    for place in () if reads else assembly.engine.writing():
        yield "may write", place
    if "read-only sessions" in facts:
        yield "remark", f"read-only sessions: {facts['read-only sessions']}"
    idle = assembly.engine.checkpoint_settings(tuple(_asked(experiment)))
    if idle and reads:
        yield "remark", f"{', '.join(idle)}: of checkpoints and WAL, and all that is run only reads"
    clients = " or ".join(str(load.clients) for load in experiment.loads)
    sessions = "session" if clients == "1" else "sessions"
    yield "load", f"{clients} {sessions}, for {format_duration(experiment.stop.budget_s)} at most"


def _data_touched(
    experiment: Experiment, assembly: Assembly, facts: dict[str, str], *, reads: bool
) -> str:
    if "tables copied" in facts:
        return (
            f"copies, one for each configuration, of {facts['tables copied']}, from one snapshot;"
            f" they take {facts['copies take']}, and are dropped at the end"
        )
    if not (facts and any(workload.scripts for workload in experiment.workloads)):
        size = sum(each.expected_bytes for each in assembly.engine.datasets())
        return f"a database of Steelyard's own of about {format_bytes(size)}, dropped at the end"
    command = facts.get("data brought back by")
    what = "what the scripts change stays changed"
    if command is not None:
        what = "what the scripts change is brought back by"
        what += f" `{command}`, run here before every start"
    what = "the scripts only read" if reads else what
    return f"database {facts['database']}, which was there before: {what}"


def _settings_touched(experiment: Experiment, assembly: Assembly, facts: dict[str, str]) -> str:
    asked = _asked(experiment)
    before = assembly.engine.shown_now(NOW, tuple(asked))
    named = ", ".join(
        f"{name} = {value}" + (f" (now {before[name]})" if name in before else "")
        for name, value in asked.items()
    )
    if facts["settings"] == "of own sessions only":
        how = "in sessions of Steelyard's own; nothing of the server is changed"
    else:
        how = f"{facts['settings']}, for everyone on the server, and put back at the end"
    restarts = facts["restarted for a configuration"] == "yes"
    return f"{named}, {how}{'; the server is restarted before every run of either' * restarts}"


def _asked(experiment: Experiment) -> dict[str, str]:
    """Return the settings that are tried, with their values in one text."""
    names = experiment.contenders
    return values_of({name: experiment.configuration(name).asked() for name in names})
