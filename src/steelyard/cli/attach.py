"""``steelyard attach``: a campaign that runs in a cluster, from here."""

import click

from steelyard.cli.options import PATH, context_option, namespace_option, output_option


@click.command("attach")
@click.argument("name", required=False)
@context_option("Context of the kubeconfig (default: the current one).")
@namespace_option("Namespace of the Job (default: all that the account may list).")
@click.option("--list", "only_list", is_flag=True, help="Only list the campaigns that are there.")
@click.option("--fetch", is_flag=True, help="Fetch what there is now, and do not follow.")
@click.option(
    "--dir",
    "out",
    type=PATH,
    metavar="DIR",
    help="Directory for the record (default: campaigns/NAME).",
)
@click.option(
    "--resume", is_flag=True, help="Go on with a campaign that ended early, in a new Job."
)
@click.option("--remove", is_flag=True, help="Remove it, with its record in the cluster.")
@click.option("--yes", is_flag=True, help="Remove without asking what is not needed any more.")
@output_option()
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> int:
    """Follow the campaign NAME, fetch its record at its end, and report it.

    NAME is the campaign's id or a part of it; it may be left out where there is only one. Ctrl-C
    ends this and nothing else: the campaign goes on in the cluster. The exit code is the
    campaign's.
    """
    from steelyard.cli.attaching import AttachOptions, attach

    return attach(AttachOptions(**context.params))
