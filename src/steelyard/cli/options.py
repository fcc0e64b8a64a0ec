"""Options and arguments that several verbs share, so that they read alike everywhere."""

import re
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from steelyard.cli.completion import complete_campaign, complete_source
from steelyard.cli.grouping import LongCommand
from steelyard.core.findings import parse_condition
from steelyard.core.places import DNS_LABEL, DNS_SUBDOMAIN, IMAGE_REFERENCE
from steelyard.core.wording import (
    MIB,
    SEED_LIMIT,
    InputError,
    parse_bytes,
    parse_duration_s,
    parse_quantity,
)

DEFAULT_SOURCE: Final = "preset:quick"
Command = TypeVar("Command", bound=Callable[..., Any])


def at_terminal() -> bool:
    """Return whether somebody can be asked; standard input may have been closed."""
    return sys.stdin is not None and sys.stdin.isatty()


class Checked(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    """A text that is handed on as it was written, once it is seen to be sound.

    ``check`` raises an InputError where it is not.
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


def _named(pattern: re.Pattern[str], way_out: str) -> Checked:
    def check(text: str) -> None:
        if not pattern.fullmatch(text):
            raise InputError(f"Kubernetes does not take `{text}`", hint=way_out)

    return Checked(check)


def _sized(text: str) -> None:
    size = parse_bytes(text)
    if text.isdigit() and size < MIB:
        raise InputError(f"`{text}` is {text} bytes", hint=f"did you mean {text}GiB?")


def _without_login(url: str) -> None:
    if "@" in urlsplit(url).netloc:
        raise InputError(
            "the URL of the index holds a login, which the Job and the record would show",
            hint="Name a Secret whose key PIP_INDEX_URL holds the whole URL: --secret NAME.",
        )


PATH: Final = click.Path(path_type=Path)
NAMESPACE: Final = _named(DNS_LABEL, "Use up to 63 small letters, digits and hyphens.")
OBJECT: Final = _named(DNS_SUBDOMAIN, "Use small letters, digits, hyphens and dots.")
IMAGE: Final = _named(IMAGE_REFERENCE, "Write it as registry.example.com/name:tag.")
SIZE: Final = Checked(_sized)
AMOUNT: Final = Checked(parse_quantity)
SEED: Final = click.IntRange(0, SEED_LIMIT - 1)


def _adding(*parts: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return what adds options to a verb, which its help lists in this order."""
    # Decorators apply from the last to the first.
    return lambda command: reduce(lambda decorated, part: part(decorated), reversed(parts), command)


_JSON: Final = "steelyard.json"
_json_option: Final = click.option(
    "--json",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    hidden=True,
    callback=lambda context, _, is_given: context.meta.update({_JSON: is_given}),
)


FORMS: Final = ("text", "json", "csv", "markdown", "html")


def output_option(*further: str) -> Callable[[Command], Command]:
    """Return the option for the form of the output, and its short form ``--json``.

    The verb gets it as ``form``; ``further`` are forms that it has beside those of all verbs.
    """
    *forms, last = (*FORMS[2:], *further)
    return _adding(
        _json_option,
        click.option(
            "-o",
            "--output",
            "form",
            type=click.Choice((*FORMS, *further)),
            default=FORMS[0],
            callback=chosen_form,
            metavar="FORM",
            help=f"Form: text, json (or --json), {', '.join(forms)} or {last}.",
        ),
    )


def chosen_form(context: click.Context, parameter: click.Parameter, form: str) -> str:
    """Return the form that ``--output`` names, or ``--json``.

    Raises:
        UsageError: They ask for two.
    """
    if not context.meta[_JSON]:
        return form
    assert parameter.name is not None  # noqa: S101 - each option has one
    is_given = context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    if is_given and form != "json":
        raise click.UsageError(f"--json is short for -o json, and -o says {form}", ctx=context)
    return "json"


def require_form(form: str, what: str) -> None:
    """Raise if something that has only text and JSON is to have another form.

    Raises:
        InputError: It has no tables.
    """
    if form not in ("text", "json"):
        raise InputError(
            f"-o {form}: {what} has only text and json", hint="Use -o text or -o json."
        )


def context_option(help_: str) -> Callable[[Any], Any]:
    """Return the option that names a context of the kubeconfig; ``help_`` is shown."""
    return click.option("--context", metavar="NAME", help=help_)


def namespace_option(help_: str) -> Callable[[Any], Any]:
    """Return the option that names a namespace; ``help_`` is shown."""
    return click.option("-n", "--namespace", type=NAMESPACE, metavar="NAME", help=help_)


layers_option: Final = click.option(
    "--only",
    "layers",
    type=click.Choice(("hypervisor", "kvm", "linux", "kubernetes", "postgres")),
    multiple=True,
    help="Only knobs of this layer.",
)
verbose_option: Final = click.option(
    "--verbose", is_flag=True, help="Show how blocks are made, too, as --dry-run does."
)
no_verdict_option: Final = click.option(
    "--no-verdict",
    is_flag=True,
    help="Run even if the budget is too short for a verdict.",
)
_EXPERIMENT: Final = (
    click.option(
        "--max-cost",
        type=click.FloatRange(0),
        metavar="AMOUNT",
        help="Refuse to start what may cost more, in the currency of the prices.",
    ),
    click.option(
        "--ttl",
        type=Checked(parse_duration_s),
        metavar="TIME",
        help="Refuse what may take longer; made servers expire then.",
    ),
    click.option(
        "--prices",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Prices that take the place of those that come with Steelyard.",
    ),
    click.option(
        "--target",
        metavar="WHERE",
        help="Measure there: a URI, a version, a directory or YAML.",
    ),
    click.option(
        "--server-memory",
        "memory",
        type=SIZE,
        metavar="SIZE",
        help="What every endpoint's server has, for profiles.",
    ),
    click.option(
        "--server-cpus", "cpus", type=AMOUNT, metavar="N", help="CPUs of these servers, likewise."
    ),
    click.option(
        "--allow-existing",
        is_flag=True,
        help="Measure in an endpoint's database, or change a Cluster, that is named.",
    ),
    context_option("Context of the kubeconfig, for pods."),
    namespace_option("Namespace, for pods."),
    click.option(
        "--override",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change a value of the file.",
    ),
)
_CAMPAIGN: Final = (
    click.option("--seed", type=SEED, help="Seed of the order; drawn if not given."),
    click.option("--dir", "out", type=PATH, metavar="DIR", help="Campaign directory."),
    *_EXPERIMENT,
    click.option("--dry-run", is_flag=True, help="Show design, minutes and disk; start nothing."),
    output_option(),
    click.option("--quiet", is_flag=True, help="Show no progress."),
    verbose_option,
    click.option("--yes", is_flag=True, help="Do not ask."),
    no_verdict_option,
)
_FLAGS: Final = "flags"


class GeneratorCommand(LongCommand):
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


experiment_options: Final = _adding(*_EXPERIMENT)
campaign_options: Final = _adding(*_CAMPAIGN)
_JOB: Final = (
    click.option(
        "--in-cluster/--here",
        "as_job",
        default=None,
        help="Run it as a Job in the cluster, or from here (default: as a Job if servers are in"
        " Kubernetes, and all others on other machines).",
    ),
    click.option(
        "--image",
        type=IMAGE,
        metavar="IMAGE",
        envvar="STEELYARD_IMAGE",
        show_envvar=True,
        help="Image for the Job: with Steelyard, or with Python, to install it there.",
    ),
    click.option(
        "--index-url",
        type=Checked(_without_login),
        metavar="URL",
        help="Package index that pods reach, for the installation.",
    ),
    click.option(
        "--secret",
        "secrets",
        type=OBJECT,
        multiple=True,
        metavar="NAME",
        help="Secret whose keys are variables of the Job, such as PGPASSWORD.",
    ),
    click.option(
        "--service-account",
        type=OBJECT,
        metavar="NAME",
        help="ServiceAccount for the Job (default: a new one).",
    ),
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
        help="Size of the volume for the Job's record (default: 2Gi); Steelyard takes 300 MB of it"
        " if the image lacks it.",
    ),
    click.option("--detach", is_flag=True, help="Start the Job, and do not follow it."),
)
job_options: Final = _adding(*_JOB)
planned_job_options: Final = _adding(*_JOB[:-1])
JOB_OPTIONS: Final = (
    *("as_job", "image", "index_url", "secrets"),
    *("service_account", "storage_class", "record_size", "detach"),
)
gate_options: Final = _adding(
    click.option(
        "--gate",
        "conditions",
        type=Checked(parse_condition),
        multiple=True,
        metavar="CONDITION",
        help="Exit with 10 if this is certain: 'slower > 3%'.",
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
campaign_argument: Final = click.argument(
    "directory", required=False, type=PATH, shell_complete=complete_campaign
)
source_argument: Final = click.argument(
    "source", default=DEFAULT_SOURCE, metavar="[FILE | preset:NAME]", shell_complete=complete_source
)
crash_options: Final = _adding(
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
    click.option("--seed", type=SEED, help="Of order and moments; else drawn."),
    click.option(
        "--data-directory",
        "directory",
        type=PATH,
        metavar="DIR",
        help="Where data and file systems are made; the cache if not given.",
    ),
    click.option("--run-as", metavar="ACCOUNT", help="Account of the servers, when root asks."),
    click.option(
        "--dir",
        "out",
        type=PATH,
        metavar="DIR",
        help="Write report.html, report.md and crash.json there, after every death.",
    ),
    output_option(),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


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


cluster_options: Final = _adding(
    click.option(
        "--cluster", metavar="NAME", help="Check the primary of this CloudNativePG Cluster."
    ),
    click.option("--pod", metavar="NAME", help="Check this pod of a database."),
    context_option("Context of the kubeconfig (default: the current one)."),
    namespace_option("Namespace of the Cluster or pod (default: that of the context)."),
    click.option(
        "--node-probe/--no-node-probe",
        default=True,
        help="Start a short-lived probe pod on the database's node.",
    ),
)
