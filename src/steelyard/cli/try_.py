"""``steelyard try``: other settings on a server of one's own."""

from pathlib import Path

import click

from steelyard.cli.options import (
    AMOUNT,
    SEED,
    SIZE,
    GeneratorCommand,
    gate_options,
    no_verdict_option,
    output_option,
    verbose_option,
)


@click.command(
    "try",
    cls=GeneratorCommand,
    usual="dsn set profile script clients margin budget plans gate dir dry-run output yes",
    epilog="pgbench flags follow `--`: steelyard try --set jit=off -- --random-seed=7",
)
@click.option(
    "-d", "--dsn", metavar="DSN", help="The server: a URI or libpq's keywords (default: PG*)."
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting to try, or several values: work_mem=4MB,64MB.",
)
@click.option("--profile", metavar="NAME", help="A settings profile to try, such as fitted.")
@click.option(
    "--server-memory", type=SIZE, metavar="SIZE", help="What the server has, for a profile."
)
@click.option("--server-cpus", type=AMOUNT, metavar="N", help="CPUs of the server, for a profile.")
@click.option(
    "-f",
    "--script",
    "scripts",
    multiple=True,
    metavar="FILE[@WEIGHT]",
    help="pgbench script, on tables that are there.",
)
@click.option(
    "--rewrite",
    "rewrites",
    multiple=True,
    metavar="OLD=NEW",
    help="Try the script NEW in place of OLD.",
)
@click.option(
    "--ddl",
    multiple=True,
    metavar="STATEMENT",
    help="Try an index or other DDL, on copies of the tables that the scripts name.",
)
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    help="The N dearest queries of pg_stat_statements.",
)
@click.option(
    "--parameters",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="YAML: values of their parameters, by queryid.",
)
@click.option("-b", "--builtin", metavar="LIST", help="pgbench's scripts (default: select-only).")
@click.option("-s", "--scale", type=click.IntRange(1), help="Scale factor of these (default: 10).")
@click.option("-c", "--clients", metavar="LIST", help="Sessions (default: 8; 1 with --script).")
@click.option("-M", "--protocol", metavar="NAME", help="Query mode (default: prepared).")
@click.option(
    "--restart-command", metavar="COMMAND", help="Restarts the server, for settings that need it."
)
@click.option(
    "--reset-command", metavar="COMMAND", help="Brings back what scripts change, before each start."
)
@click.option(
    "--margin",
    metavar="SHARE",
    help="The effect that matters; a smaller one counts as none (default: 5%).",
)
@click.option("--run-time", metavar="TIME", help="Length of a run (default: 5s).")
@click.option(
    "--executions",
    type=click.IntRange(1),
    metavar="N",
    help="How often each script runs in place of that, times its weight.",
)
@click.option(
    "--budget", metavar="TIME", help="End after this long (default: 15m; more for several values)."
)
@click.option("--seed", type=SEED, help="Seed of the order; drawn if not given.")
@click.option(
    "--dir", "out", type=click.Path(path_type=Path), metavar="DIR", help="Campaign directory."
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the experiment file, for `steelyard run`, and stop.",
)
@click.option("--plans", is_flag=True, help="Show which statements get another plan, and stop.")
@click.option("--anyway", is_flag=True, help="Measure also if no statement gets another plan.")
@click.option("--dry-run", is_flag=True, help="Tell what is touched, and minutes; start nothing.")
@output_option()
@click.option("--quiet", is_flag=True, help="Show no progress.")
@verbose_option
@click.option("--yes", is_flag=True, help="Start without asking.")
@no_verdict_option
@gate_options
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Compare a running server as it is with itself under other settings.

    First it tells what is touched, and for how long. Where every session may have the setting for
    itself (random_page_cost, work_mem, jit), nothing of the server is changed, and unless scripts
    write both take turns within a second. Else ALTER SYSTEM and a reload switch between them, for
    everyone on the server, and are undone at the end.

    Several values of a setting are compared at once: --set work_mem=4MB,64MB,256MB, or for a
    setting that is a text a second --set of its name.

    Settings such as random_page_cost act through the choice of a plan alone. If all statements of
    scripts keep their plan, that is the answer, without a measurement; --anyway measures.

    --rewrite old.sql=new.sql compares a script with another that gives the same answer.

    --ddl 'CREATE INDEX ...' copies the tables that the scripts name into databases of Steelyard's
    own on the same server, one with the index and one without, and drops them at the end.

    Without --script pgbench's reads are measured in a database of Steelyard's own, which is
    dropped at the end. Scripts run in the database that the DSN names; what they change stays,
    unless --reset-command brings it back.
    """
    from steelyard.cli.questions import TrialOptions, run_trial

    run_trial(TrialOptions(**context.params))
