"""The command line: finds the verb, and turns every failure into a sentence and an exit code.

Verbs live in modules of their own that are imported when they are used: ``--help`` stays fast.
"""

import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from importlib import import_module
from keyword import iskeyword
from types import FrameType, MappingProxyType
from typing import NoReturn

import click

import steelyard
from steelyard.core.wording import ExitCode, InputError, Interrupted, SteelyardError, did_you_mean


class LazyGroup(click.Group):
    """Verbs by name with the first line of their help; each is a module that has a ``command``.

    A verb that was declared in this group needs no module of its own.

    Args:
        verbs: First line of help by name, in the order to list them.
        package: Holds a module for each other verb.
        unlisted: Further verbs, which no person types.
        sections: Names of the verbs by title, for the help (default: one section).
        elsewhere: What other tools call a verb, and how it is called here.
        renamed: What a verb was called once, and how it is called now.
        settings: Of click.
    """

    def __init__(
        self,
        *,
        verbs: Mapping[str, str],
        package: str = "",
        unlisted: Collection[str] = (),
        sections: Mapping[str, Collection[str]] | None = None,
        elsewhere: Mapping[str, str] = MappingProxyType({}),
        renamed: Mapping[str, str] = MappingProxyType({}),
        **settings: object,
    ) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # click's own, passed through
        self._verbs = verbs
        self._unlisted = unlisted
        self._sections = sections or {"Commands": verbs}
        self._elsewhere = elsewhere
        self._renamed = renamed
        self._package = package

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of the verbs."""
        return list(self._verbs)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a verb, imported now; None where there is none of that name."""
        if not self._has(name):
            return None
        declared = super().get_command(context, name)
        if declared is not None:
            return declared
        module = name.replace("-", "_") + "_" * iskeyword(name)
        command = import_module(f"{self._package}.{module}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a module without one is a bug
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that the first word names, and the words behind it.

        Raises:
            InputError: There is no such verb.
        """
        word = args[0]
        is_option = word.startswith("-")
        if not is_option and not context.resilient_parsing and not self._has(word):
            raise InputError(
                f"`{context.command_path}` has no command `{word}`",
                hint=self._meant(word, context.command_path),
            )
        return super().resolve_command(context, args)

    def _meant(self, word: str, path: str) -> str:
        if word in self._renamed:
            return f"It is called `{path} {self._renamed[word]}` now."
        if word in self._elsewhere:
            return f"did you mean `{path} {self._elsewhere[word]}`?"
        return did_you_mean(word, self._verbs) or f"`{path} --help` lists the commands."

    def _has(self, name: str) -> bool:
        return name in self._verbs or name in self._unlisted

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing them."""
        for title, names in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self._verbs[name]) for name in names])


# Section -> verb -> first line of its help, so that `steelyard --help` imports none of them.
_SECTIONS = {
    "Measure": {
        "run": "Measure and compare the configurations of an experiment.",
        "try": "Compare a running server with itself under other settings.",
        "noise": "Measure what this set-up can see, by equal configurations.",
        "capacity": "Find the highest rate a server sustains, and its latency.",
        "crash-test": "Count what Redis or PostgreSQL loses in a crash.",
        "estimate": "Forecast what an experiment can decide, and how long it takes.",
    },
    "Read results": {
        "report": "Show the report of a campaign from its record.",
        "show": "Show one campaign: experiment, plan, position, environment, leftovers.",
        "explain": "Explain which part of the latency changed, from the evidence around the runs.",
        "compare": "Compare two configurations of a campaign, or two campaigns.",
        "article": "Write an article of several campaigns: results, what to choose, method.",
        "list": "List campaigns with status and verdicts.",
        "serve": "Show campaigns in a browser: live, down to single seconds.",
    },
    "Tune the stack": {
        "inspect": "Check every layer of the stack, and show its problems.",
        "stack": "Plan, apply, verify and revert the tuning of all layers.",
    },
    "Kubernetes and AWS": {
        "kubernetes": "Print what a Kubernetes cluster needs for campaigns.",
        "attach": "Follow a campaign that runs in a cluster, and fetch its record.",
        "prices": "Print the prices of rented servers that plans and reports take.",
    },
    "Housekeeping": {
        "presets": "List the presets, or print one.",
        "schema": "Print the JSON Schema of experiment files, for editors.",
        "completion": "Print what completes commands in bash, zsh or fish.",
        "man": "Write man pages, made from the help.",
        "clean": "Remove what killed campaigns left behind, and on request the cache.",
    },
}
_VERBS = {name: first for verbs in _SECTIONS.values() for name, first in verbs.items()}


# What it was called once -> what it is called now.
_RENAMED_OPTIONS = {
    "--bin": "--server",
    "--client": "--clients",
    "--cpus": "--server-cpus",
    "--decide": "--margin",
    "--directory": "--data-directory",
    "--facts": "--from",
    "--fail-if": "--gate",
    "--format": "--output",
    "--memory": "--server-memory",
    "--out": "--dir",
    "--precision": "--width",
    "--set": "--override",
    "--slice": "--run-time",
}
_RENAMED_VERBS = {
    "plan": "estimate",
    "redis": "crash-test redis",
    "postgres": "crash-test postgresql",
}
# What other tools call it (psql, pgbench, benchmark tools) -> how it is called here.
_OPTIONS_ELSEWHERE = {
    "--dsn": ("--url", "--uri", "--host", "--port", "--dbname", "--user", "-h", "-p", "-U"),
    "--listen": ("--port", "--host", "--bind", "--address", "-p"),
    "--budget": ("--time", "--duration", "--timeout", "-T"),
    "--script": ("--file",),
    "--gate": ("--threshold", "--fail-on"),
    "--undecided": ("--inconclusive",),
    "--margin": ("--effect",),
    "--version": ("-V", "-v"),
}
_VERBS_ELSEWHERE = {
    "run --gate": ("gate", "check"),
    "run": ("bench", "benchmark", "test", "start"),
    "compare": ("diff",),
    "list": ("status", "ls"),
    "report": ("results", "result", "view"),
    "inspect": ("doctor", "facts"),
    "stack": ("tune", "apply"),
    "--help": ("help",),
    "--version": ("version",),
}


_IS_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click 8.1 has none
_FEW_OPTIONS = 8  # that a hint can list
_OBJECTS = 10_000  # a guess; the default of 700 takes a tenth of the time of all imports
_SOON_S = 0.05  # until a signal that came at a bad moment comes again


@click.group(
    cls=LazyGroup,
    verbs=_VERBS,
    sections=_SECTIONS,
    elsewhere={word: verb for verb, words in _VERBS_ELSEWHERE.items() for word in words},
    renamed=_RENAMED_VERBS,
    package="steelyard.cli",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(steelyard.__version__, prog_name="steelyard")
def cli() -> None:
    """Compare database configurations: which is faster, by how much, and how certain that is.

    Exit codes: 0 done, 2 bad input, 3 refused before the start, 4 target unreachable or refused,
    5 measurement failed, 6 record damaged, 7 something left behind, 8 privilege missing, 10 a gate
    says no, 130 interrupted.
    """


def main() -> NoReturn:
    """Run the command line and exit."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        if not _is_open(number):  # the caller closed it: a record would get what libraries print
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
        if number:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    gc.set_threshold(_OBJECTS)
    # Nothing here is worth numpy's further threads, which take 50 ms to start; no command that
    # is run gets the variable.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _stop_in_order()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8 still gets a verdict
    code = _outcome()
    _give_up_what_is_unprinted()
    sys.exit(code)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _give_up_what_is_unprinted() -> None:
    """Drop what a stream did not take: Python would try again at the end, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _outcome() -> int:
    try:
        result = cli.main(standalone_mode=False)
    except click.ClickException as error:
        if isinstance(error, _IS_HELP):
            with suppress(OSError):
                error.show()
        else:
            _say("error", _in_our_words(error), _way_out(error))
        return error.exit_code
    except click.exceptions.Abort:
        return ExitCode.INTERRUPTED
    except (SteelyardError, Interrupted) as error:
        stopped = isinstance(error, Interrupted)
        _say("stopped" if stopped else "error", error.message, error.hint)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away; there is nobody left to tell
        return ExitCode.DONE
    except OSError as error:
        hint = "Check that it is there and that this account may use it."
        _say("error", f"{error.filename or 'a file'}: {error.strerror or error}", hint)
        return ExitCode.PRIVILEGE if isinstance(error, PermissionError) else ExitCode.TARGET
    return result if isinstance(result, int) else ExitCode.DONE


def _say(kind: str, message: str, hint: str) -> None:
    from steelyard.core.wording import printable

    with suppress(OSError):  # nobody is there; the exit code says it, too
        click.echo(f"{kind}: {printable(message)}", err=True)
        if hint:
            click.echo(f"hint: {printable(hint)}", err=True)


def _in_our_words(error: click.ClickException) -> str:
    """Return what click says of a command line as other errors are written."""
    is_option = isinstance(error, click.NoSuchOption)  # its whole message has the way out, too
    said = error.message if is_option else error.format_message()
    return said[:1].lower() + said[1:].removesuffix(".")


def _way_out(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    options = [name for each in context.command.get_params(context) for name in each.opts]
    if isinstance(error, click.NoSuchOption):
        word = error.option_name
        if (now := _RENAMED_OPTIONS.get(word)) in options:
            return f"`{word}` is called `{now}` now."
        meant = [each for each, words in _OPTIONS_ELSEWHERE.items() if word in words]
        names = [each for each in meant if each in options] or error.possibilities
        if names:
            return f"did you mean {' or '.join(f'`{name}`' for name in names)}?"
        long = [name for name in dict.fromkeys(options) if name.startswith("--")]
        if len(long) <= _FEW_OPTIONS:
            return f"`{context.command_path}` takes {', '.join(f'`{name}`' for name in long)}."
    elif "unexpected extra argument" in error.format_message() and (way := _of_extra(options)):
        return way
    return f"`{context.command_path} --help` shows how it is called."


def _of_extra(options: Collection[str]) -> str:
    """Return how a word is given that a command with these options does not take alone."""
    if {"--facts", "--from"}.issubset(options):
        return "A file of facts is named by --from FILE; --facts alone shows them."
    if {"--dsn", "--set"}.issubset(options):
        return "A server is named by --dsn, a setting by one word: --set random_page_cost=1.1."
    return ""


def _stop_in_order() -> None:
    """Turn the first Ctrl-C, TERM or HUP into an orderly stop; further ones do not disturb it.

    One that falls where Python swallows what is raised (a finaliser) comes again.
    """
    # nohup and background shells ignore some on purpose: that stays.
    asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heard = tuple(each for each in asked if signal.getsignal(each) is not signal.SIG_IGN)
    if heard:
        stopping = _Stopping(heard)
        stopping.listen()
        sys.unraisablehook = stopping.swallowed


class _Stopping:
    """The handler of the signals that stop in order."""

    def __init__(self, numbers: tuple[signal.Signals, ...]) -> None:
        self._numbers = numbers
        self._show = sys.unraisablehook

    def listen(self) -> None:
        """Hear the signals, for the first time or again."""
        for number in self._numbers:
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if _is_starting_a_child(frame):
            self._again(number)
            return
        for other in self._numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(f"interrupted by {signal.Signals(number).name}")

    def _again(self, number: int) -> None:
        threading.Timer(_SOON_S, os.kill, (os.getpid(), number)).start()

    def swallowed(self, lost: "sys.UnraisableHookArgs") -> None:
        """Send a stop again that Python swallowed; show anything else as ever."""
        if not isinstance(lost.exc_value, Interrupted):
            self._show(lost)
        elif threading.current_thread() is threading.main_thread():
            self.listen()
            self._again(self._numbers[0])


def _is_starting_a_child(frame: FrameType | None) -> bool:
    """Return whether a signal fell into the start of a program.

    Python swallows what is raised in its callbacks around a fork, and a child that was made just
    now would be lost: the signal has to come again.
    """
    module = sys.modules.get("subprocess")  # loaded only where programs are run
    if module is None:
        return False
    starting = module.Popen.__init__.__code__
    while frame is not None and frame.f_code is not starting:
        frame = frame.f_back
    return frame is not None
