"""``steelyard run``: from an experiment to verdicts."""

import click
from click.core import ParameterSource

from steelyard.cli.options import (
    JOB_OPTIONS,
    PATH,
    GeneratorCommand,
    campaign_options,
    gate_options,
    job_options,
    source_argument,
)


@click.command(
    "run",
    cls=GeneratorCommand,
    usual="budget width override target gate dir resume dry-run output quiet yes no-verdict",
    epilog="pgbench flags follow `--`: steelyard run orders.yaml -- --random-seed=7",
)
@source_argument
@click.option("--budget", metavar="TIME", help="End after this long, such as 20m.")
@click.option("--width", metavar="SHARE", help="Stop at this half-width, such as 1%.")
@click.option(
    "--stop-early",
    type=click.Choice(["yes", "no"]),
    help="End at a verdict before block 6, from which on the design is checked.  [default: yes]",
)
@click.option(
    "--short", is_flag=True, help="Try it in minutes: short runs, few loads, little data."
)
@click.option("--scheduler", metavar="URL", help="Take `generator.workers` of it: tls://HOST:PORT.")
@click.option("--wait", metavar="TIME", help="Wait for a scheduler so long (default: 5m).")
@click.option("--resume", type=PATH, metavar="DIR", help="Go on with this campaign.")
@campaign_options
@gate_options
@job_options
@click.pass_context
def command(context: click.Context, /, **_: object) -> int:
    """Weigh the configurations of an experiment.

    Without an argument `preset:quick`: shared buffers smaller than the data against larger ones,
    in at most four minutes. `article:003` is what can be run here of a published article: several
    campaigns and one text of them (`steelyard presets` lists them). Record and reports lie in the
    campaign directory: campaigns/TIME-NAME unless --dir is given.

    If servers are in Kubernetes and all can be reached from there, the campaign runs as a Job. This
    command follows it; ended here, it goes on there, and `steelyard attach` comes back to it.
    """
    from steelyard.cli import bundle, launching
    from steelyard.cli.attaching import JobOptions
    from steelyard.cli.campaigns import Gate

    given = dict(context.params)
    job = JobOptions(**{name: given.pop(name) for name in JOB_OPTIONS})
    gate = Gate(**{name: given.pop(name) for name in ("conditions", "undecided", "junit")})
    options = launching.RunOptions(**given, gate=gate, job=job)
    if options.source.startswith("article:"):
        bundle.run_article(options)
    elif options.resume is not None:
        launching.resume(options, given=_given(context))
    elif options.dry_run:
        launching.dry_run(options)
    else:
        launching.run(options)
    return 0


# Options with which a campaign goes on as it is.
_HARMLESS = {"resume", "form", "quiet", "verbose", "yes", "no_verdict"}
_HARMLESS |= {"undecided", "junit", "image"}


def _given(context: click.Context) -> list[str]:
    """Return what stands on the command line and would change a campaign, as typed there."""
    words = {each.name: each.opts[-1] for each in context.command.params}
    words |= {"source": "an experiment", "flags": "pgbench flags"}
    words["as_job"] = "--in-cluster or --here"
    return [
        word
        for name, word in words.items()
        if name is not None
        and name not in _HARMLESS
        and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        and context.params.get(name) not in (None, ())
    ]
