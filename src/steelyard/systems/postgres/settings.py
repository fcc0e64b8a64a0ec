"""PostgreSQL settings: what a binary knows and refuses, what a change costs, what a value means.

The list of settings comes from the server program itself (``postgres --describe-config``), so a
version's settings are right by construction. What a server would refuse, and how much memory it may
take, is known before anything is started.

After a checkpoint the first change of every page writes the whole page to the WAL, so the WAL is
heavy at the beginning of a checkpoint cycle and light at its end; the checkpoint's own writes are
spread over a part of the cycle. Source: PostgreSQL's documentation, chapters "WAL Configuration"
and "Write Ahead Log".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from steelyard.core.experiment import Configuration, EffectiveSetting, Layer, Setting, SwitchCost
from steelyard.core.findings import Finding
from steelyard.core.measurement import CheckpointAge
from steelyard.core.outside import Command, Completed, ServerAddress
from steelyard.core.schedule import Load
from steelyard.core.wording import MIB, MS_PER_S, PRELOADS, Complaint, PreflightError, in_unit
from steelyard.gateways.process import Runner
from steelyard.gateways.sql import Sql
from steelyard.systems import existing as complaints
from steelyard.systems.existing import named_in
from steelyard.systems.postgres import server
from steelyard.systems.postgres.server import Installation

_TIMEOUT_S = 20.0
_SWITCH_COST = {
    "user": SwitchCost.SESSION,
    "superuser": SwitchCost.SESSION,
    "backend": SwitchCost.RELOAD,
    "superuser-backend": SwitchCost.RELOAD,
    "sighup": SwitchCost.RELOAD,
    "postmaster": SwitchCost.RESTART,
}
# Contexts that any user may set for own sessions, when they begin.
SESSION_CONTEXTS = frozenset({"user", "backend"})
# With these a configuration would take the server from the platform's hands; each with the way out.
_FIXED_BY_STEELYARD = {
    "port": "Use `target: {port: ...}`.",
    "listen_addresses": "Use `target: {connection: tcp}`.",
    "unix_socket_directories": "Use `target: {connection: socket}`.",
    "data_directory": "Use `target: {directory: ...}`.",
    "config_file": "Write the settings here.",
    "hba_file": "Remove it.",
    "ident_file": "Remove it.",
    "external_pid_file": "Remove it.",
}
_BOOLEANS = {
    **dict.fromkeys(("on", "true", "yes", "1", "t", "y", "tr", "tru", "ye"), "on"),
    **dict.fromkeys(("off", "false", "no", "0", "f", "n", "of", "fa", "fal", "fals"), "off"),
}
# Words that the server shows as another: first in its list of the same meaning.
_SYNONYMS = {
    ("wal_compression", "on"): "pglz",
    ("wal_level", "hot_standby"): "replica",
    ("wal_level", "archive"): "replica",
    ("client_min_messages", "debug"): "debug2",
    ("log_min_messages", "debug"): "debug2",
}
# Values that the server replaces by what it finds best; the request was honoured all the same.
_AUTOMATIC = {"-1", "0"}
# These are replaced so by default, and pg_settings may go on calling the source `default`: -1 reads
# 512 pages there (seen with 15). Of any other setting a default is no answer to -1.
_CHOSEN_BY_DEFAULT = {("wal_buffers", "-1")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingEntry:
    """What a server binary says of one of its settings."""

    name: str
    context: str
    group: str
    kind: str


def read_catalogue(postgres: str, processes: Runner) -> Mapping[str, SettingEntry]:
    """Return every setting that a server binary knows, by name in small letters.

    Raises:
        PreflightError: The binary does not run.
    """
    completed = processes.run(Command(argv=(postgres, "--describe-config")), timeout_s=_TIMEOUT_S)
    if not completed.succeeded:
        raise PreflightError(f"{postgres} --describe-config failed: {completed.tail(1)}")
    return parse_catalogue(completed.stdout)


def parse_catalogue(text: str) -> Mapping[str, SettingEntry]:
    """Return the settings that ``postgres --describe-config`` lists, by name in small letters."""
    entries = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) >= 4:
            name, context, group, kind = fields[:4]
            entries[name.lower()] = SettingEntry(name=name, context=context, group=group, kind=kind)
    return entries


@contextmanager
def empty_configuration() -> Iterator[Path]:
    """Yield a directory with nothing but an empty ``postgresql.conf``, and remove it.

    A server program that is asked of its settings wants one.
    """
    with TemporaryDirectory(prefix="steelyard-check-") as name:
        empty = Path(name)
        (empty / "postgresql.conf").touch()
        yield empty


def _told(postgres: str, name: str, empty: Path, processes: Runner, *options: str) -> Completed:
    """Return what a server program says of a setting's value under options; it starts nothing.

    ``-C`` must come first: then even root may ask.
    """
    given = [word for option in options for word in ("-c", option)]
    argv = (postgres, "-C", name, "-D", str(empty), *given)
    return processes.run(Command(argv=argv, environment=server.ENGLISH), timeout_s=_TIMEOUT_S)


def with_asked(
    described: Mapping[str, SettingEntry],
    configurations: Sequence[Configuration],
    postgres: str,
    empty: Path,
    processes: Runner,
) -> Mapping[str, SettingEntry]:
    """Return described settings with those asked for that the server keeps to itself.

    ``--describe-config`` leaves out what is no part of a sample file, such as the settings for
    developers. What it takes to change them it does not tell, so a restart is assumed.
    """
    asked = {name: None for configuration in configurations for name in configuration.asked()}
    others = [name for name in asked if "." not in name and name.lower() not in described]
    known = {
        name.lower(): SettingEntry(name=name, context="", group="", kind="")
        for name in others
        if _told(postgres, name, empty, processes).succeeded
    }
    return {**described, **known}


def listed(entry: SettingEntry | None, text: str) -> tuple[str, ...]:
    """Return the values that a text lists at commas; one for a string or an unknown setting.

    The kind is that of pg_settings.vartype or of ``--describe-config``.
    """
    is_text = entry is None or entry.kind.lower() == "string"
    return (text,) if is_text else tuple(value.strip() for value in text.split(","))


def switch_cost(names: Sequence[str], catalogue: Mapping[str, SettingEntry]) -> SwitchCost:
    """Return the dearest switch cost among the named settings, from their context.

    A setting that the catalogue does not know (of an extension) is taken to need a restart.
    """
    entries = (catalogue.get(name.lower()) for name in names)
    costs = [_SWITCH_COST.get(one.context if one else "", SwitchCost.RESTART) for one in entries]
    return max(costs, key=lambda cost: cost.rank, default=SwitchCost.SESSION)


def beyond_sessions(names: Sequence[str], catalogue: Mapping[str, SettingEntry]) -> tuple[str, ...]:
    """Return those that not every user may set when a session of theirs begins.

    Those that the catalogue does not know are among them.
    """
    entries = ((name, catalogue.get(name.lower())) for name in names)
    return tuple(n for n, one in entries if one is None or one.context not in SESSION_CONTEXTS)


def refused_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the settings that an experiment may not set, with what to do instead.

    PostgreSQL's names do not differ by case; the result has them as they were given.
    """
    return named_in(names, _FIXED_BY_STEELYARD)


def value_of(
    postgres: str, name: str, written: str | None, empty: Path, processes: Runner
) -> str | None:
    """Return a setting's value as the server itself writes it; None where it does not say.

    It is asked for as it is written; None: its default.
    """
    options = [] if written is None else [f"{name}={written}"]
    completed = _told(postgres, name, empty, processes, *options)
    return completed.stdout.strip() if completed.succeeded else None


def same_quantity(one: str, other: str) -> bool:
    """Return whether two values with units are the same: ``4MB`` and ``4096kB``."""
    if not (one.strip()[-1:].isalpha() and other.strip()[-1:].isalpha()):
        return False
    found = ((in_unit(one, unit), in_unit(other, unit)) for unit in ("kB", "ms"))
    return any(a is not None and b is not None and _close(a, b, converted=False) for a, b in found)


def effective_setting(
    name: object, value: object, unit: object, source: object = ""
) -> EffectiveSetting:
    """Return a setting from columns of pg_settings."""
    return EffectiveSetting(
        name=str(name),
        value=str(value),
        unit=None if unit is None else str(unit),
        source=str(source),
    )


def deviations(asked: Sequence[Setting], effective: Sequence[EffectiveSetting]) -> tuple[str, ...]:
    """Return a sentence for each setting of the server that is not in force as asked."""
    found: dict[str, list[EffectiveSetting]] = {}
    for setting in effective:
        found.setdefault(setting.name.lower(), []).append(setting)
    sentences = []
    for wanted in (setting for setting in asked if setting.layer is Layer.POSTGRES):
        in_force = found.get(wanted.name.lower(), [])
        if not in_force:
            sentences.append(f"{wanted.name} is not known to the running server")
        for actual in in_force:
            if not _same(wanted.value, actual):
                unit = f" (unit {actual.unit})" if actual.unit else ""
                sentences.append(
                    f"{wanted.name} was asked to be {wanted.value!r} and is {actual.value!r}{unit}"
                )
    return tuple(sentences)


def _same(asked: str, actual: EffectiveSetting) -> bool:
    if actual.value in (asked, asked.strip()):
        return True
    if _chosen(asked.strip(), actual):
        return True  # by the server, as it was asked to
    if actual.name == "DateStyle":
        return set(_words(asked)) <= set(_words(actual.value))  # ISO is shown as ISO, MDY
    if actual.value in ("on", "off") and asked.lower() in _BOOLEANS:
        return _BOOLEANS[asked.lower()] == actual.value
    wanted, in_force = in_unit(asked, actual.unit), in_unit(actual.value, None)
    if wanted is not None and in_force is not None:
        return _close(wanted, in_force, converted=asked.strip()[-1].isalpha())
    word = asked.strip().lower()
    return _SYNONYMS.get((actual.name, as_boolean(word)), word) == actual.value.lower()


def _chosen(asked: str, actual: EffectiveSetting) -> bool:
    if actual.source == "default":
        return (actual.name, asked) in _CHOSEN_BY_DEFAULT
    return asked in _AUTOMATIC and actual.source == "override"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _close(wanted: float, actual: float, *, converted: bool) -> bool:
    rounding = 0.5 if converted and actual == int(actual) else 0.0
    return abs(wanted - actual) <= max(rounding, 1e-9 * abs(actual))


def as_boolean(text: str) -> str:
    """Return ``on`` or ``off`` for each of their spellings, any other word in small letters."""
    word = text.strip().lower()
    return _BOOLEANS.get(word, word)


# pg_settings does not list these, which are taken all the same (guc_tables.c: "hidden").
_UNLISTED: Final = {word for _, word in _SYNONYMS} | {"info", "fatal", "panic"}


def is_among(value: str, words: Sequence[str]) -> bool:
    """Return whether a setting takes a value, by the words that the server lists for it."""
    word = as_boolean(value)
    return word in {*_UNLISTED, *map(str.lower, words)}


def is_in_force(name: str, asked: str, actual: EffectiveSetting) -> bool:
    """Return whether a value is the one that a setting has already, however it is written."""
    setting = Setting(layer=Layer.POSTGRES, name=name, value=asked)
    return not deviations((setting,), (actual,))


# A setting whose effect at the beginning of a cycle says little about its effect at the end.
CYCLE_SETTINGS = {
    "checkpoint_completion_target": "how much of the cycle the checkpoint's writes are spread over",
    "checkpoint_flush_after": "how soon the checkpoint's writes reach the disk",
    "checkpoint_timeout": "the length of the cycle itself",
    "fsync": "whether a checkpoint waits for the disk",
    "full_page_writes": "whether whole pages are written to the WAL after a checkpoint",
    "max_wal_size": "whether the WAL ends the cycle before its time does",
    "min_wal_size": "whether segments are recycled or made anew after a checkpoint",
    "wal_buffers": "room for the burst of whole pages after a checkpoint",
    "wal_compression": "the cost of whole pages, which are many after a checkpoint and few later",
    "wal_init_zero": "the cost of a new segment, of which a cycle makes most at its beginning",
    "wal_level": "how much is written to the WAL",
    "wal_log_hints": "whole pages also where only hint bits change, after each checkpoint",
    "wal_recycle": "whether segments are recycled or made anew after a checkpoint",
}
# Settings of what is done at times, whatever the work; `synchronous_commit` leaves it to the WAL
# writer, which wakes up by the clock. Documentation: "Resource Consumption", "Write Ahead Log",
# "Automatic Vacuuming".
_TIMED_SETTINGS = ("synchronous_commit", "wal_writer_delay", "wal_writer_flush_after")
_PAID_BY_OTHERS = (
    *("synchronous_commit", "commit_delay", "commit_siblings", "wal_compression"),
    "backend_flush_after",
)
_TIMED_FAMILIES = ("autovacuum", "bgwriter_")
# They end a session or its work by the clock; any user may set them. What keeps TCP alive is not
# among them: the kernel of a program that stands still answers it. Documentation: "Statement
# Behavior", "TCP Settings".
LIMITS = (
    *("idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout"),
    *("statement_timeout", "tcp_user_timeout", "transaction_timeout"),
)
# A restart from a clean shutdown writes no checkpoint, but begins a cycle: the checkpointer's clock
# starts, and every page is older than the last checkpoint. Its time is that of its beginning, and
# is told when it is complete (pg_control_checkpoint, since 9.6), in whole seconds.
_AGE = """
SELECT extract(epoch FROM clock_timestamp()
                          - greatest(checkpoint_time, pg_postmaster_start_time()))::float8
FROM pg_control_checkpoint()
"""


def cycle_settings(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these settings whose effect changes over a checkpoint cycle."""
    return tuple(name for name in names if name.lower() in CYCLE_SETTINGS)


def timed_settings(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these settings that act by the clock, at times shorter than a block.

    A checkpoint comes after minutes, or after so much WAL, which is work.
    """
    return tuple(
        name
        for name in names
        if name.lower() in _TIMED_SETTINGS or name.lower().startswith(_TIMED_FAMILIES)
    )


def short_limits(values: Mapping[str, str], pause_s: float) -> Mapping[str, str]:
    """Return limits among these settings that a pause of so long may use up; 0 is unlimited."""
    given = {name: values[name] for name in LIMITS if name in values}
    lengths_ms = {name: in_unit(value, "ms") or 0.0 for name, value in given.items()}
    return {name: given[name] for name, ms in lengths_ms.items() if 0 < ms <= pause_s * MS_PER_S}


def paid_by_others(names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these settings of a session that others pay for, or are spared by.

    What one session leaves in the WAL or does not write others flush, and a checkpoint writes.
    """
    return tuple(name for name in names if name.lower() in _PAID_BY_OTHERS)


def cycle_s(effective: Sequence[EffectiveSetting]) -> float | None:
    """Return the length of the cycle in force; None when the server does not show it."""
    for setting in effective:
        if setting.name == "checkpoint_timeout":
            return in_unit(f"{setting.value}{setting.unit or ''}", "s")
    return None


def checkpoint_age(address: ServerAddress, sql: Sql) -> CheckpointAge:
    """Return how long ago the cycle began: by a checkpoint, or by the server's start.

    Raises:
        TargetError: The server cannot be reached, or does not let this user ask.
    """
    ((seconds,),) = sql.rows(address, _AGE)
    return CheckpointAge(seconds=round(max(float(str(seconds)), 0.0), 3))


_DEFAULT_BUFFERS_BYTES: Final = 128 * MIB
_DEFAULT_WORK_BYTES: Final = 4 * MIB
# What a bare number of each counts: pages, and kilobytes.
_PAGES: Final = ("8kB", 8192)
_KILOBYTES: Final = ("kB", 1024)
# Of a backend beside work_mem, its page tables with it: a guess, on the safe side of the 5 to 8 MB
# that one of pgbench has.
_BACKEND_BYTES: Final = 12 * MIB
# Shared memory beside the buffers: 3 to 5 % of them, and some MB for locks and the WAL: a guess.
_BESIDE: Final = 1.1


def most_bytes(configuration: Configuration, clients: int) -> int:
    """Return about the most that a configuration's server takes under so many clients, in bytes."""
    asked = configuration.asked_folded()
    work = _bytes(asked.get("work_mem"), unit=_KILOBYTES, default=_DEFAULT_WORK_BYTES)
    return _shared_bytes(asked) + clients * (work + _BACKEND_BYTES)


def huge_bytes(configuration: Configuration) -> int | None:
    """Return about what a configuration's server takes of a pool of huge pages.

    0 where it may not; None where it takes what is there, and does without where nothing is.
    """
    asked = configuration.asked_folded()
    wanted = as_boolean(asked.get("huge_pages", "try"))
    if wanted == "on":
        return _shared_bytes(asked)
    return 0 if wanted == "off" else None


def _shared_bytes(asked: Mapping[str, str]) -> int:
    buffers = _bytes(asked.get("shared_buffers"), unit=_PAGES, default=_DEFAULT_BUFFERS_BYTES)
    return round(_BESIDE * buffers)


def _bytes(value: str | None, *, unit: tuple[str, int], default: int) -> int:
    name, size = unit
    found = None if value is None else in_unit(value, name)
    return default if found is None else round(found * size)


# Of initdb, as getopt takes them: --waldir, --set, and the directory of its scripts.
_NOT_TRIED: Final = re.compile("-[dgknNsS]*[XcL]|--(wald|se)")
TRIAL_FROM: Final = 15  # the first whose program prints what only a start computes
_DEFAULT_MAX_CONNECTIONS = 100
_MOST_CONNECTIONS: Final = 2**18 - 1  # MAX_BACKENDS; other processes of the server count, too
_KEPT_FOR_US = 5  # superuser_reserved_connections, reserved ones, and our own checks


def fixed_settings(configuration: Configuration) -> Iterator[Complaint]:
    """Yield a complaint for each setting that Steelyard sets itself."""
    yield from complaints.fixed_settings(refused_names(list(configuration.asked())))


def refused_values(
    configuration: Configuration,
    installation: Installation,
    catalogue: Mapping[str, SettingEntry],
    empty: Path,
    processes: Runner,
) -> Iterator[Complaint]:
    """Yield a complaint for each value that the server's own program refuses.

    It is asked with an empty configuration, where the programs are.
    """
    asked = {
        one.name: f"{one.name}={one.value}"
        for one in _known(configuration, catalogue)
        if "." not in one.name
    }
    postgres = installation.program("postgres")
    if not asked or _told(postgres, "port", empty, processes, *asked.values()).succeeded:
        return
    for name, option in asked.items():
        completed = _told(postgres, "port", empty, processes, option)
        if not completed.succeeded:
            words = server.server_words(completed.stderr)
            yield Complaint(
                setting=name,
                message=f"PostgreSQL {installation.version} refuses this value: {words}",
                hint="Remove it." if "cannot be changed" in words else f"Correct `{name}`.",
            )


def _known(
    configuration: Configuration, catalogue: Mapping[str, SettingEntry]
) -> Iterator[Setting]:
    fixed = refused_names(list(configuration.asked()))
    for setting in configuration.settings:
        is_known = setting.name.lower() in catalogue or "." in setting.name
        if setting.layer is Layer.POSTGRES and is_known and setting.name not in fixed:
            yield setting


def asked_together(
    configuration: Configuration,
    program: server.PostgresProgram,
    catalogue: Mapping[str, SettingEntry],
) -> Mapping[str, str]:
    """Return the settings that a start may refuse though each value is fine; empty: none.

    Settings of sessions stand alone. Before PostgreSQL 15 no program says more without a start. A
    directory for the WAL that the target names is not ours to fill twice, and what it gives the
    new cluster by initdb (settings, scripts) may run what only the file names.
    """
    asked = {setting.name: setting.value for setting in _known(configuration, catalogue)}
    is_of_start = switch_cost(list(asked), catalogue) is not SwitchCost.SESSION
    is_tried = (
        (is_of_start or any(map(PRELOADS.fullmatch, asked)))
        and program.installation.major >= TRIAL_FROM
        and not any(map(_NOT_TRIED.match, program.initdb))
    )
    return asked if is_tried else {}


def refused_together(
    wanted: Mapping[str, str],
    trial: server.Trial,
    catalogue: Mapping[str, SettingEntry],
    in_force: Mapping[str, str] | None = None,
) -> Iterator[Complaint]:
    """Yield a complaint for whatever the server's program says against all settings at once.

    It tells one thing at a time, so what it named is left out of the next trial. Settings in force
    are those of a server that runs; the names of both are in small letters then.
    """
    left, is_first = dict(wanted), True
    while left and (words := trial.against({**(in_force or {}), **left})):
        named = server.named(words, left)
        if not named and not is_first:
            return  # it is about what is left without the settings that were named before
        others = [n for n in catalogue if "_" in n and n not in named and server.mentions(words, n)]
        ways = [f"correct {' or '.join(f'`{name}`' for name in named)}"] if named else []
        ways += [f"set {', '.join(f'`{name}`' for name in others)} to fit"] if others else []
        hint = ", or ".join(ways) or "correct one of them"
        yield Complaint(
            setting=next(iter(named), ""),
            message=f"PostgreSQL {trial.installation.version} does not take these settings:"
            f" {words}",
            hint=f"{hint[0].upper()}{hint[1:]}.",
        )
        left = {name: value for name, value in left.items() if named and name not in named}
        is_first = False


def too_few_connections(
    configuration: Configuration,
    loads: tuple[Load, ...],
    default: int | None = _DEFAULT_MAX_CONNECTIONS,
    kept: int = _KEPT_FOR_US,
) -> Iterator[Complaint]:
    """Yield a complaint when the clients do not fit into max_connections."""
    yield from complaints.too_few_connections(
        configuration,
        loads,
        limit="max_connections",
        default=default,
        kept=kept,
        most=_MOST_CONNECTIONS,
    )


def version_finding(installation: Installation) -> Finding | None:
    """Return a finding when Steelyard's own tests do not run this version."""
    if installation.major in server.VERSIONS_RUN:
        return None
    return complaints.version_not_run(
        f"PostgreSQL {installation.version}", f"PostgreSQL {installation.major}"
    )
