"""``steelyard stack plan``: one consistent plan for all layers.

Facts come from here or a file, huge pages are counted, and the plan is made and written.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from steelyard.answers.stack.plan import plan_document
from steelyard.cli.campaigns import print_document
from steelyard.cli.inspect import (
    asked_cluster,
    collected,
    looking_inside,
    require_no_machine,
    require_one_source,
)
from steelyard.core.stack import Place, StackFacts, StackRequest
from steelyard.core.wording import InputError, PreflightError, parse_bytes, quoted
from steelyard.gateways.doors import Doors, system_doors
from steelyard.gateways.files import read_text
from steelyard.gateways.virsh import Domains
from steelyard.places.local.server import server_account
from steelyard.systems.postgres.server import find_installation
from steelyard.tuning.facts.collecting import Asked, above
from steelyard.tuning.facts.file import read_facts
from steelyard.tuning.plan.arithmetic import (
    COUNTING_SINCE,
    PageCounter,
    formula_counter,
    server_counter,
)
from steelyard.tuning.plan.foreseen import make_plan, plan_json, require_free, write_plan
from steelyard.tuning.plan.guests import present_name

_FORMULA: Final = "formula"
_NEWEST: Final = 18
_NAME: Final = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options of ``stack plan``, as given."""

    cpus: int
    memory: str
    shared_buffers: str | None
    max_connections: int | None
    place: str
    postgres_version: int | None
    server: str | None
    facts: Path | None
    host_facts: Path | None
    domain_xml: Path | None
    on: str | None
    dsn: str | None
    data_directory: str | None
    cluster: str | None
    pod: str | None
    context: str | None
    namespace: str | None
    node_probe: bool
    storage: str | None
    storage_class: str | None
    volume_size: str | None
    disks: tuple[str, ...]
    bridge: str | None
    instances: int
    page_size: str
    no_huge_pages: bool
    shared_cpus: bool
    logical_decoding: bool
    name: str | None
    out: Path | None
    form: str


def plan_stack(options: PlanOptions) -> None:
    """Make a plan, print it, and write it where that is asked for.

    Raises:
        SteelyardError: The request, the facts or the directory cannot be used.
    """
    if options.out is not None:
        require_free(options.out)
    doors = system_doors()
    facts = _facts(options)
    given = None if options.domain_xml is None else read_text(options.domain_xml)
    if options.domain_xml is not None and given is None:
        raise InputError(
            f"there is no file {options.domain_xml}",
            hint=f"Write it: virsh dumpxml NAME --inactive > {quoted(options.domain_xml)}",
        )
    named = present_name(given) if given is not None else _NAME
    request = _request(options, facts, options.name or named)
    present = given or _domain_here(options, request, facts, doors)
    with _counter(options.server, request, doors) as counter:
        plan = make_plan(request, facts, counter, present)
    if options.out is not None:
        write_plan(options.out, plan)
    if options.form == "json":
        click.echo(plan_json(plan), nl=False)
    else:
        place = None if options.out is None else str(options.out)
        print_document(options.form, plan_document(plan, place))


def _domain_here(
    options: PlanOptions, request: StackRequest, facts: StackFacts, doors: Doors
) -> str | None:
    """Return the domain of the plan's name as this machine's libvirt has it, None without one."""
    elsewhere = (options.facts, options.host_facts, options.on)
    known = {domain.name for domain in facts.domains or ()}
    if request.place is not Place.KVM or any(elsewhere) or request.name not in known:
        return None
    return Domains(processes=doors.processes).xml(request.name, defined=True)


def _request(options: PlanOptions, facts: StackFacts, name: str) -> StackRequest:
    seen = facts.postgres.version if facts.postgres is not None else None
    buffers = options.shared_buffers
    return StackRequest(
        cpus=options.cpus,
        memory_bytes=parse_bytes(options.memory),
        place=Place(options.place),
        shared_buffers_bytes=None if buffers is None else parse_bytes(buffers),
        max_connections=options.max_connections,
        postgres_version=options.postgres_version or seen or _NEWEST,
        instances=options.instances,
        storage=options.storage,
        storage_class=options.storage_class,
        page_bytes=parse_bytes(options.page_size),
        huge_pages=not options.no_huge_pages,
        exclusive_cpus=not options.shared_cpus,
        logical_decoding=options.logical_decoding,
        name=name,
        volume_bytes=None if options.volume_size is None else parse_bytes(options.volume_size),
        disks=options.disks,
        bridge=options.bridge,
    )


def _facts(options: PlanOptions) -> StackFacts:
    """Return the facts that the plan starts from.

    Those of a hypervisor alone say nothing of its guest; where nothing is virtual, they are those
    of the machine itself. Amazon RDS shows no machine.
    """
    looking = require_one_source(
        options.facts, {**_elsewhere(options), **looking_inside(asdict(options))}
    )
    if options.place == Place.RDS:
        require_no_machine({**looking, "--dsn": None, "--host-facts": options.host_facts})
    if options.host_facts is not None:
        below = read_facts(options.host_facts)
        if options.place == Place.LOCAL and options.facts is None and not looking:
            return below
        inside = StackFacts()  # of what runs on the hypervisor; nobody may name it
        if looking:
            inside = _collected(options)
        elif options.facts is not None:
            inside = read_facts(options.facts)
        return above(inside, below, str(options.host_facts))
    if options.place == Place.RDS and not looking and options.facts is None:
        return StackFacts()
    return read_facts(options.facts) if options.facts is not None else _collected(options)


def _elsewhere(options: PlanOptions) -> dict[str, object]:
    """Return what names a machine or a server, with its value."""
    return {"--on": options.on, "--dsn": options.dsn, "--data-directory": options.data_directory}


def _collected(options: PlanOptions) -> StackFacts:
    inside = asked_cluster(asdict(options), elsewhere={**_elsewhere(options), "--dsn": None})
    asked = Asked(
        on=options.on, dsn=options.dsn, data_directory=options.data_directory, ping_pong=False
    )
    return collected(inside or asked)


@contextmanager
def _counter(server: str | None, request: StackRequest, doors: Doors) -> Iterator[PageCounter]:
    """Give the counter of the program of the request's version; a formula where none can count.

    Raises:
        PreflightError: The program that was named is not there, is of another version, or cannot
            count.
    """
    version = request.postgres_version
    formula = server == _FORMULA or version < COUNTING_SINCE or request.place is Place.RDS
    with ExitStack() as stack:
        counter = formula_counter(version)
        try:
            if not formula:
                counter = stack.enter_context(_program_counter(server, request, doors))
        except PreflightError as error:
            if server is not None:
                raise
            why = error.message.partition(";")[0].rstrip(".")
            counter = formula_counter(version, f" ({why})")
        yield counter


@contextmanager
def _program_counter(
    server: str | None, request: StackRequest, doors: Doors
) -> Iterator[PageCounter]:
    version = request.postgres_version
    installation = find_installation(server or str(version), doors.processes)
    if installation.major != version:
        raise PreflightError(
            f"the programs in {installation.programs} are PostgreSQL {installation.major}, the plan"
            f" is for {version}",
            hint=f"Say --postgres-version {installation.major}, or name other programs.",
        )
    with server_counter(installation, doors.processes, server_account(())) as counter:
        counter({}, request.page_bytes)  # some builds know no huge pages, and refuse their size
        yield counter
