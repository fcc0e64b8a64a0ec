"""``steelyard inspect``: what every layer of the stack is, and what is wrong with it.

Options that say where facts come from may contradict each other; that is refused first.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steelyard.cli.grouping import LongCommand
from steelyard.cli.options import PATH, SIZE, cluster_options, output_option
from steelyard.core.wording import ExitCode, InputError

if TYPE_CHECKING:
    from steelyard.answers.stack.inspection import Inspection
    from steelyard.core.stack import StackFacts
    from steelyard.tuning.facts.collecting import Asked
    from steelyard.tuning.facts.kubernetes import AskedCluster

_HERE = "this machine"


@click.command(
    "inspect",
    cls=LongCommand,
    usual="on dsn redis cluster pod from save facts all fail-on output",
)
@click.option("--on", metavar="ssh://HOST", help="Check this machine, over your own ssh.")
@click.option("--dsn", metavar="URI", help="Ask this PostgreSQL server, too; no password in it.")
@click.option(
    "--redis",
    metavar="URI",
    multiple=True,
    help="Ask this Redis server, too; may be given several times, no password in it.",
)
@click.option(
    "--data-directory", metavar="DIR", help="Data directory of the database, to find its disk."
)
@click.option(
    "--server-memory",
    type=SIZE,
    metavar="SIZE",
    help="What the machine of --dsn has, if nobody sees it.",
)
@click.option("--server-cpus", type=click.IntRange(1), help="CPUs of that machine, likewise.")
@cluster_options
@click.option(
    "--from", "file", type=PATH, help="Check the facts in this file instead of a machine."
)
@click.option(
    "--host-facts", type=PATH, help="Take hypervisor and domains from this file, saved there."
)
@click.option(
    "--domain-xml",
    type=PATH,
    help="The XML that libvirt was asked for: compare it with what it kept.",
)
@click.option("--save", type=PATH, help="Write the facts to this file, as YAML or *.json.")
@click.option(
    "--ping-pong/--no-ping-pong",
    default=True,
    help="Measure what a wake-up costs here, in less than a second.",
)
@click.option(
    "--instance-metadata", is_flag=True, help="Ask the cloud's metadata service for the type."
)
@click.option("--facts", is_flag=True, help="Show the facts of all layers, too.")
@click.option("--all", "every", is_flag=True, help="List every rule that passed or was skipped.")
@click.option(
    "--fail-on",
    type=click.Choice(("error", "warning", "never")),
    default="error",
    show_default=True,
    help="Severity from which on the exit code is 10.",
)
@output_option()
@click.pass_context
def command(context: click.Context, /, **_: object) -> int:
    """Check every layer of the stack, and show its problems.

    Looks at this machine, or at another one with --on; with --dsn at a PostgreSQL server, too, with
    --redis at Redis servers; with --cluster or --pod at a database in Kubernetes and its node; with
    --from at what was saved elsewhere. Changes nothing. A rule whose facts are missing is skipped:
    it counts as neither passed nor failed. Exit code 10 when a rule of severity error is violated.
    """
    from steelyard.answers.stack.inspection import inspection_document, inspection_json
    from steelyard.cli.campaigns import print_answer
    from steelyard.gateways.files import require_place_for
    from steelyard.tuning.facts.file import plain, write_facts

    params = context.params
    if params["save"] is not None:
        require_place_for(params["save"])
    inspection = _inspected(_asked(params), params)
    if params["save"] is not None:
        write_facts(params["save"], inspection.facts)
    facts, form = inspection.facts, params["form"]
    shown = params["facts"] or form != "text"
    print_answer(
        form,
        lambda: inspection_document(inspection, facts=shown, every=params["every"]),
        lambda: {"format": 1, "facts": plain(facts), **inspection_json(inspection)},
    )
    counted = {"error": ("error",), "warning": ("error", "warning"), "never": ()}
    is_grave = set(inspection.severities()).intersection(counted[params["fail_on"]])
    return ExitCode.GATE if is_grave else ExitCode.DONE


def _asked(params: dict[str, Any]) -> "Asked | AskedCluster":
    from steelyard.core.wording import parse_bytes
    from steelyard.tuning.facts.collecting import Asked

    names = (
        "on",
        "dsn",
        "redis",
        "data_directory",
        "instance_metadata",
        "server_memory",
        "server_cpus",
    )
    looking = {f"--{name.replace('_', '-')}": params[name] for name in names}
    file = params["file"]
    require_one_source(file, {**looking, **looking_inside(params)})
    inside = asked_cluster(params, elsewhere={**looking, "--dsn": None})
    if inside is not None:
        return inside
    if params["on"] is not None and params["instance_metadata"]:
        raise InputError(
            "--instance-metadata asks the machine that it runs on, and --on names another",
            hint="Run steelyard there, or leave the option out.",
        )
    return Asked(
        on=params["on"],
        dsn=params["dsn"],
        redis=tuple(params["redis"]),
        data_directory=params["data_directory"],
        ping_pong=params["ping_pong"],
        metadata=params["instance_metadata"],
        memory_bytes=None
        if params["server_memory"] is None
        else parse_bytes(params["server_memory"]),
        cpus=params["server_cpus"],
    )


def _inspected(asked: "Asked | AskedCluster", params: dict[str, Any]) -> "Inspection":
    from steelyard.answers.stack.inspection import Inspection
    from steelyard.tuning.facts.collecting import above
    from steelyard.tuning.facts.file import read_facts
    from steelyard.tuning.rules.catalogue import judge

    file, host_file, xml_file = (params[name] for name in ("file", "host_facts", "domain_xml"))
    facts = collected(asked) if file is None else read_facts(file)
    place = str(file) if file is not None else _place(asked, facts)
    if host_file is not None:
        facts = above(facts, read_facts(host_file), str(host_file))
    if xml_file is not None:
        here = file is None and host_file is None and place == _HERE
        facts = _compared(facts, xml_file, ask_libvirt=here)
    return Inspection(place=place, facts=facts, judged=judge(facts))


def _compared(facts: "StackFacts", file: Path, *, ask_libvirt: bool) -> "StackFacts":
    """Return the facts with what libvirt kept of the XML in a file.

    Raises:
        InputError: The file cannot be read, or is no domain.
    """
    from steelyard.gateways.files import read_text
    from steelyard.tuning.facts.domain_xml import domain_facts
    from steelyard.tuning.facts.domains import with_asked_domain

    text = read_text(file)
    if text is None:
        raise InputError(
            f"{file} is not there or cannot be read",
            hint="Give the XML that libvirt was asked to define.",
        )
    name = domain_facts(text).name
    defined = defined_domain(name) if ask_libvirt and name else None
    return with_asked_domain(facts, text, str(file), defined)


def _place(asked: "Asked | AskedCluster", facts: "StackFacts") -> str:
    from steelyard.tuning.facts.collecting import Asked

    if isinstance(asked, Asked):
        return asked.on or _HERE
    named = asked.pod or f"Cluster {asked.cluster}"
    node = facts.kubernetes.node if facts.kubernetes is not None else None
    where = f" on {node}" if node else ""
    return f"{named}{where}" + (f" in {asked.context}" if asked.context else "")


def looking_inside(options: Mapping[str, Any]) -> dict[str, object]:
    """Return the options that name a database in a cluster, or its cluster, with their values."""
    names = ("cluster", "pod", "context", "namespace")
    found: dict[str, object] = {f"--{name}": options[name] for name in names if options[name]}
    return found if options["node_probe"] else {**found, "--no-node-probe": True}


def asked_cluster(
    options: Mapping[str, Any], *, elsewhere: Mapping[str, object]
) -> "AskedCluster | None":
    """Return which database in which cluster is asked for; None where none is.

    Options that look at a machine instead are in ``elsewhere``, falsy where they were not given.

    Raises:
        InputError: Both were given.
    """
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


def collected(asked: "Asked | AskedCluster") -> "StackFacts":
    """Return the facts of a machine, or what can be seen of a database in a cluster."""
    from steelyard.gateways.doors import system_doors
    from steelyard.gateways.virsh import Domains
    from steelyard.tuning.facts.collecting import Asked, collect, collect_in_cluster
    from steelyard.tuning.facts.domains import collect_domains

    doors = system_doors()
    if not isinstance(asked, Asked):
        return collect_in_cluster(asked, doors)
    libvirt = Domains(processes=doors.processes)  # the user's
    return collect(asked, doors, lambda: collect_domains(libvirt, doors.host, doors.clock))


def defined_domain(name: str) -> str | None:
    """Return a domain's XML as this machine's libvirt keeps it; None where it has none."""
    from steelyard.core.wording import SteelyardError
    from steelyard.gateways.doors import system_doors
    from steelyard.gateways.virsh import Domains

    try:
        return Domains(processes=system_doors().processes).xml(name, defined=True)
    except SteelyardError:  # there is no libvirt: the facts of domains say why
        return None


def require_one_source(file: Path | None, looking: Mapping[str, object]) -> dict[str, object]:
    """Return the options that look at something; with a file of facts there are none.

    ``looking`` has options with their values, falsy where they were not given.

    Raises:
        InputError: A file looks at nothing, and an option does.
    """
    given = {option: value for option, value in looking.items() if value}
    if file is not None and given:
        raise InputError(
            f"--from looks at nothing, and {next(iter(given))} does",
            hint="Save the facts there with `steelyard inspect --save`, then give the file alone.",
        )
    return given


def require_no_machine(options: Mapping[str, object]) -> None:
    """Refuse options that name a machine where none is visible.

    Raises:
        InputError: Such an option was given.
    """
    given = [option for option, value in options.items() if value]
    if given:
        raise InputError(
            f"Amazon RDS shows no machine, and {given[0]} names one",
            hint="Leave it out: a parameter group follows from the request.",
        )
