"""Options and arguments that several verbs share, and the operator at the terminal.

Options are here so that they read alike everywhere. The operator is asked in words and answers with
Enter.
"""

import os
import re
import select
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from steelyard.cli.completion import complete_source
from steelyard.core.errors import InputError
from steelyard.core.findings import parse_condition
from steelyard.core.kubernetes import DNS_LABEL, DNS_SUBDOMAIN, IMAGE_REFERENCE
from steelyard.core.units import (
    MIB,
    format_duration,
    parse_bytes,
    parse_duration_s,
    parse_quantity,
)

_TERMINAL: Final = "/dev/tty"


class TerminalOperator:
    """Whoever sits at the terminal that Steelyard was started from.

    The terminal itself is opened, because standard input and output may be files.
    """

    @property
    def is_there(self) -> bool:
        """Return whether there is a terminal."""
        with suppress(OSError), _opened():
            return True
        return False

    def confirms(self, request: str, *, timeout_s: float) -> bool:
        """Show the request; return whether Enter was pressed in time."""
        with suppress(OSError, termios.error), _opened() as terminal:
            limit = format_duration(timeout_s)
            # What was typed before the question is no answer to it.
            termios.tcflush(terminal, termios.TCIFLUSH)
            text = f"\n{request}\nPress Enter when it is done (within {limit}): "
            os.write(terminal, text.encode())
            ready, _, _ = select.select([terminal], [], [], timeout_s)
            return bool(ready and os.read(terminal, 1024))
        return False


@contextmanager
def _opened() -> Iterator[int]:
    terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        yield terminal
    finally:
        os.close(terminal)


DEFAULT_SOURCE: Final = "preset:quick"
if TYPE_CHECKING:
    from steelyard.core.stack import StackFacts
    from steelyard.tuning.facts.collecting import FactDoors
    from steelyard.tuning.facts.kubernetes import AskedCluster

Command = TypeVar("Command", bound=Callable[..., Any])


class Checked(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """A text that is handed on as it was written, once it is seen to be sound.

    Args:
        check: Raises an InputError where it is not.
    """

    name = "text"

    def __init__(self, check: Callable[[str], object]) -> None:
        self._check = check

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002 - by click's protocol
    ) -> str:
        """Return the text.

        Raises:
            InputError: It is not sound; the option is named.
        """
        try:
            self._check(str(value))
        except InputError as error:
            option = f"{param.opts[-1]}: " if param is not None else ""
            raise InputError(f"{option}{error.message}", hint=error.hint) from error
        return str(value)


class Lasting(click.ParamType):  # type: ignore[type-arg]  # likewise
    """A duration, in seconds."""

    name = "time"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,  # noqa: ARG002 - by click's protocol
    ) -> float:
        """Return the seconds.

        Raises:
            InputError: It is no duration; the option is named.
        """
        try:
            return parse_duration_s(str(value))
        except InputError as error:
            option = f"{param.opts[-1]}: " if param is not None else ""
            raise InputError(f"{option}{error.message}", hint=error.hint) from error


def _named(pattern: re.Pattern[str], way_out: str) -> Checked:
    def check(text: str) -> None:
        if not pattern.fullmatch(text):
            raise InputError(f"Kubernetes does not take `{text}`", hint=way_out)

    return Checked(check)


def _sized(text: str) -> None:
    size = parse_bytes(text)
    if text.isdigit() and size < MIB:
        raise InputError(f"`{text}` is {text} bytes", hint=f"did you mean {text}GiB?")


NAMESPACE: Final = _named(DNS_LABEL, "Use up to 63 small letters, digits and hyphens.")
OBJECT: Final = _named(DNS_SUBDOMAIN, "Use small letters, digits, hyphens and dots.")
IMAGE: Final = _named(IMAGE_REFERENCE, "Write it as registry.example.com/name:tag.")
SIZE: Final = Checked(_sized)
AMOUNT: Final = Checked(parse_quantity)
layers_option: Final = click.option(
    "--only",
    "layers",
    type=click.Choice(("hypervisor", "kvm", "linux", "kubernetes", "postgres")),
    multiple=True,
    help="Only knobs of this layer.",
)
_MONEY: Final = (
    click.option(
        "--max-cost",
        type=click.FloatRange(0),
        metavar="AMOUNT",
        help="Refuse to start what may cost more, in the currency of the prices.",
    ),
    click.option(
        "--ttl",
        type=Lasting(),
        metavar="TIME",
        help="Refuse what may take longer; made servers expire then.",
    ),
    click.option(
        "--prices",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Prices that take the place of those that come with Steelyard.",
    ),
)
_EXPERIMENT: Final = (
    *_MONEY,
    click.option(
        "--target",
        metavar="WHERE",
        help="For all configurations: a URI, a version, a directory, or YAML as below `target:`.",
    ),
    click.option(
        "--memory",
        type=SIZE,
        metavar="SIZE",
        help="What every endpoint's server has, for profiles.",
    ),
    click.option("--cpus", type=AMOUNT, metavar="N", help="CPUs of these servers, likewise."),
    click.option(
        "--allow-existing",
        is_flag=True,
        help="Measure in an endpoint's database, or change a Cluster, that is named.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig, for pods."),
    click.option("-n", "--namespace", type=NAMESPACE, metavar="NAME", help="Namespace, for pods."),
    click.option(
        "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change the file."
    ),
)
_CAMPAIGN: Final = (
    click.option("--seed", type=click.IntRange(0), help="Seed of the order; drawn if not given."),
    click.option(
        "--out", type=click.Path(path_type=Path), metavar="DIR", help="Campaign directory."
    ),
    *_EXPERIMENT,
    click.option("--dry-run", is_flag=True, help="Show schedule, minutes and disk; start nothing."),
    click.option("--json", "as_json", is_flag=True, help="Print summary.json, not the report."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
    click.option(
        "--yes", is_flag=True, help="Start even if the budget ends before the first interim result."
    ),
)
_INSIDE: Final = (
    click.option(
        "--in-cluster", is_flag=True, help="Run it as a Job in the cluster, and attach to it."
    ),
    click.option(
        "--image",
        type=IMAGE,
        metavar="IMAGE",
        envvar="STEELYARD_IMAGE",
        show_envvar=True,
        help="Container image with Steelyard, for --in-cluster.",
    ),
    click.option("--detach", is_flag=True, help="Do not attach to the Job."),
    click.option(
        "--storage-class",
        type=OBJECT,
        metavar="NAME",
        help="Storage class of the volume for the Job's record.",
    ),
    click.option(
        "--record-size",
        type=AMOUNT,
        metavar="SIZE",
        default="2Gi",
        help="Size of the volume for the Job's record (default: 2Gi).",
    ),
    click.option(
        "--service-account",
        type=OBJECT,
        metavar="NAME",
        help="ServiceAccount for the Job (default: a new one).",
    ),
)
_GATE: Final = (
    click.option(
        "--fail-if",
        type=Checked(parse_condition),
        multiple=True,
        metavar="CONDITION",
        help="Exit with 10 if a whole interval lies beyond, such as 'slower > 3%'.",
    ),
    click.option(
        "--undecided",
        type=click.Choice(["fail", "pass"]),
        default="fail",
        show_default=True,
        help="What becomes of an interval that lies on both sides of a condition.",
    ),
    click.option(
        "--junit",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the outcomes as JUnit XML; what ended it too soon is an error there.",
    ),
)
_FLAGS: Final = "flags"


class GeneratorCommand(click.Command):
    """A verb whose words behind `--` are the load generator's; no other word ever is."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Read the words up to `--`, and keep the others as ``flags``.

        Raises:
            UsageError: A word is no option and no argument, or flags come without an experiment.
        """
        end = args.index("--") if "--" in args else len(args)
        context.params[_FLAGS] = flags = tuple(args[end + 1 :])
        if flags:
            context.set_parameter_source(_FLAGS, ParameterSource.COMMANDLINE)
        rest = super().parse_args(context, args[:end])
        is_named = context.get_parameter_source("source") is not ParameterSource.DEFAULT
        if flags and not is_named and not context.params.get("resume"):
            message = f"flags of the load generator follow an experiment: {DEFAULT_SOURCE} -- FLAGS"
            raise click.UsageError(message, ctx=context)
        return rest

    def collect_usage_pieces(self, context: click.Context) -> list[str]:
        """Return the parts of the line that shows how it is called."""
        return [*super().collect_usage_pieces(context), "[-- PGBENCH_FLAGS]"]


def experiment_options(command: Command) -> Command:
    """Add what changes the experiment that a file or preset describes."""
    return _with(_EXPERIMENT, command)


def campaign_options(command: Command) -> Command:
    """Add what changes the experiment, and what says how its campaign is run."""
    return _with(_CAMPAIGN, command)


def inside_options(command: Command) -> Command:
    """Add what says how a campaign runs as a Job in the cluster."""
    return _with(_INSIDE, command)


def gate_options(command: Command) -> Command:
    """Add what makes a verb the gate of a pipeline."""
    return _with(_GATE, command)


def source_argument(command: Command) -> Command:
    """Add the experiment, which may be left out."""
    return click.argument(
        "source",
        default=DEFAULT_SOURCE,
        metavar="[FILE | preset:NAME]",
        shell_complete=complete_source,
    )(command)


def _with(parts: tuple[Callable[[Any], Any], ...], command: Command) -> Command:
    # Decorators apply from the last to the first: so help lists them in the order written.
    return reduce(lambda decorated, part: part(decorated), reversed(parts), command)


_Command = TypeVar("_Command", bound=Callable[..., Any])

_CRASH_OPTIONS = (
    click.option(
        "--deaths",
        metavar="NAMES",
        default="kill,power",
        show_default=True,
        help="How it dies: kill (SIGKILL), power (its file system is cut off; needs root).",
    ),
    click.option(
        "--cuts",
        type=click.IntRange(1),
        default=20,
        show_default=True,
        help="Deaths of each kind for each mode.",
    ),
    click.option(
        "--longest",
        metavar="TIME",
        default="4s",
        show_default=True,
        help="It dies at a random moment after at most this long under load.",
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of the server, in all modes.",
    ),
    click.option("--seed", type=click.IntRange(0), help="Of order and moments; else drawn."),
    click.option(
        "--directory",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Where data and file systems are made; the cache if not given.",
    ),
    click.option("--run-as", metavar="ACCOUNT", help="Account of the servers, when root asks."),
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write report.html, report.md and crash.json there, after every death.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print crash.json, not the report."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def crash_options(command: _Command) -> _Command:
    """Add them."""
    # Decorators apply from the last to the first: so help lists them in the order written.
    return reduce(lambda decorated, part: part(decorated), reversed(_CRASH_OPTIONS), command)


def renaming(text: str) -> tuple[str, str]:
    """Return the two names of an ``--as OLD=NEW``.

    Raises:
        InputError: It is none.
    """
    old, sign, new = text.partition("=")
    if not (old and sign and new):
        raise InputError(
            f"--as {text}: it renames nothing",
            hint="Write --as OLD=NEW, such as --as tuned=fitted.",
        )
    return old, new


_OF_CLUSTERS: Final = (
    click.option(
        "--cluster", metavar="NAME", help="Check the primary of this CloudNativePG Cluster."
    ),
    click.option("--pod", metavar="NAME", help="Check this pod of a database."),
    click.option(
        "--context", metavar="NAME", help="Context of the kubeconfig (default: the current one)."
    ),
    click.option(
        "-n",
        "--namespace",
        type=NAMESPACE,
        metavar="NAME",
        help="Namespace of the Cluster or pod (default: that of the context).",
    ),
    click.option(
        "--node-probe/--no-node-probe",
        default=True,
        help="Start a short-lived probe pod on the database's node.",
    ),
)


def cluster_options(command: Command) -> Command:
    """Add what names a database in a cluster."""
    return reduce(lambda decorated, part: part(decorated), reversed(_OF_CLUSTERS), command)


def looking_inside(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options that name a database in a cluster, or its cluster, with their values."""
    names = ("cluster", "pod", "context", "namespace")
    found: dict[str, object] = {f"--{name}": options[name] for name in names if options[name]}
    return found if options["node_probe"] else {**found, "--no-node-probe": True}


def asked_cluster(
    options: Mapping[str, Any], *, elsewhere: Mapping[str, object]
) -> "AskedCluster | None":
    """Return which database in which cluster is asked for; None where none is.

    Args:
        options: Of the command line, with ``dsn``.
        elsewhere: Options that look at a machine instead, falsy where they were not given.

    Raises:
        InputError: Both were given.
    """
    from steelyard.core.errors import InputError
    from steelyard.tuning.facts.kubernetes import AskedCluster

    inside = looking_inside(options)
    if not inside:
        return None
    other = next((option for option, value in elsewhere.items() if value), None)
    if other is not None:
        raise InputError(
            f"{next(iter(inside))} looks into a cluster, and {other} at a machine",
            hint="Save the facts of one of them to a file with --save.",
        )
    return AskedCluster(
        context=options["context"],
        namespace=options["namespace"],
        cluster=options["cluster"],
        pod=options["pod"],
        dsn=options["dsn"],
        node_probe=options["node_probe"],
    )


def collected_inside(asked: "AskedCluster") -> "StackFacts":
    """Return what can be seen of a database in a cluster."""
    from steelyard.gateways.doors import system_doors
    from steelyard.tuning.facts.collecting import ClusterDoors, collect_in_cluster

    doors = system_doors()
    gateways = ClusterDoors(kubernetes=doors.kubernetes, sql=doors.sql, clock=doors.clock)
    return collect_in_cluster(asked, gateways)


def place_inside(facts: "StackFacts", asked: "AskedCluster") -> str:
    """Return where facts of a cluster were collected, in words."""
    named = asked.pod or f"Cluster {asked.cluster}"
    node = facts.kubernetes.node if facts.kubernetes is not None else None
    where = f" on {node}" if node else ""
    return f"{named}{where}" + (f" in {asked.context}" if asked.context else "")


def defined_domain(name: str) -> str | None:
    """Return a domain's XML as this machine's libvirt keeps it; None where it has none."""
    from steelyard.core.errors import SteelyardError
    from steelyard.gateways.doors import system_doors
    from steelyard.gateways.virsh import Virsh

    try:
        return Virsh(processes=system_doors().processes).xml(name, defined=True)
    except SteelyardError:  # there is no libvirt: the facts of domains say why
        return None


def system_fact_doors() -> "FactDoors":
    """Return the gateways for facts of this machine; virtual machines are the user's libvirt's."""
    from steelyard.gateways.doors import system_doors
    from steelyard.gateways.virsh import Virsh
    from steelyard.tuning.facts.collecting import FactDoors
    from steelyard.tuning.facts.domains import Hypervisor, collect_domains

    doors = system_doors()
    libvirt = Virsh(processes=doors.processes)
    hypervisor = Hypervisor(domains=libvirt, host=doors.host, clock=doors.clock)
    return FactDoors(
        host=doors.host,
        processes=doors.processes,
        sql=doors.sql,
        clock=doors.clock,
        redis=doors.redis,
        domains=lambda: collect_domains(hypervisor),
    )
