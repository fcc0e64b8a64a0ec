"""What an experiment file may say of a server that is there already."""

from pathlib import Path

import pytest
from experiment_texts import SMALL, load, only_problem, problems_of
from pydantic import TypeAdapter

from steelyard.campaign.file.files import allow_existing
from steelyard.core.experiment import Experiment
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import InputError


def at(keys: str = "", more: str = "") -> str:
    """Return the small experiment at an endpoint."""
    inside = ", ".join(filter(None, ["kind: endpoint", keys]))
    return SMALL.replace("default: {}", f"default: {{target: {{{inside}}}}}") + more


def test_nothing_but_the_kind_is_enough() -> None:
    """The rest is libpq's business."""
    assert load(at()).experiment.configuration("other").target == EndpointTarget()


def test_every_key_is_inherited() -> None:
    """Separate keys, a restart command as one line, and the reset."""
    keys = "host: db, port: 5433, user: b, dbname: d, service: s, allow_existing: yes"
    text = at(f"{keys}, restart_command: 'ssh db restart', restore: vacuum")
    assert load(text).experiment.configuration("other").target == EndpointTarget(
        host="db",
        port=5433,
        user="b",
        dbname="d",
        service="s",
        allow_existing=True,
        restart_command=("ssh", "db", "restart"),
        restore="vacuum",
    )


def test_data_of_ones_own_are_brought_back_by_a_command() -> None:
    """With its time; in a database that is named and allowed."""
    keys = "dbname: d, allow_existing: yes, reset_command: 'sh reset', reset_timeout: 30m"
    assert load(at(keys)).experiment.configuration("other").target == EndpointTarget(
        dbname="d",
        allow_existing=True,
        reset_command=("sh", "reset"),
        reset_timeout_s=1800.0,
    )


_FAR = "generator: {host: 'ssh://me@far:2222'}\n"


def test_the_load_may_come_from_another_host() -> None:
    """As ssh finds it; with a number of threads, because the CPUs counted are those of here."""
    text = at(more=_FAR).replace("loads: {clients: 1}", "loads: {clients: 8, threads: 4}")
    assert load(text).experiment.generator_host == "ssh://me@far:2222"
    assert "CPUs of this machine" in only_problem(at(more=_FAR))


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("far", "is not the address of a machine"),
        ("'ssh://me:secret@far'", "a password has no place"),
    ],
)
def test_a_host_that_is_none_is_refused(host: str, said: str) -> None:
    """With its line; a password is not repeated."""
    problems = [str(each) for each in problems_of(at(more=f"generator: {{host: {host}}}\n"))]
    assert said in problems[0]
    assert "secret" not in "".join(problems).replace("no secrets", "")


def test_servers_of_this_machine_take_no_load_from_elsewhere() -> None:
    """Their generators are paused with them."""
    text = SMALL.replace("loads: {clients: 1}", "loads: {clients: 1, threads: 1}")
    assert "which is of kind `local`" in only_problem(f"{text}{_FAR}")


def test_the_record_keeps_the_kind() -> None:
    """An experiment comes back from JSON with the same targets."""
    adapter = TypeAdapter(Experiment)
    for text in (SMALL, at("uri: 'postgresql://b@db/x', restart_command: [a, b]")):
        experiment = load(text).experiment
        assert adapter.validate_json(adapter.dump_json(experiment)) == experiment


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("bin: '15'", "`bin` belongs to the target `local`"),
        ("restore: copy", "cannot restore by copy"),
        ("allow_existing: yes, restore: template", "cannot be restored by template"),
        ("restart_command: []", "is no command"),
        ('restart_command: "a \'b"', "has an open quote"),
        ("memory: 64", "is 64 bytes of memory"),
        ("memory: much", "is no size of a memory"),
        ("cpus: 0", "is no number of CPUs"),
        ("reset_command: a, allow_existing: yes, restore: vacuum", "exclude each other"),
        ("reset_timeout: 5m", "and there is none"),
        ("allow_existing: yes, reset_command: 'a --password=hunter2'", "has a password in it"),
        ("uri: nonsense", "no URI that libpq understands"),
        ("password: hunter2", "has no place in an experiment file"),
    ],
)
def test_wrong_targets(keys: str, words: str) -> None:
    """Each is told at its place, and secrets are not repeated."""
    told = {problem.message for problem in problems_of(at(keys))}
    assert any(words in message for message in told), told
    assert "hunter2" not in repr(problems_of(at(keys)))


def test_a_uri_excludes_separate_keys() -> None:
    """One way to say it."""
    problems = problems_of(at("uri: 'postgresql://db', user: b"))
    assert {problem.message for problem in problems} == {"`uri` and `user` exclude each other"}


def test_kinds_of_one_system_are_mixed() -> None:
    """A server of this machine beside one that is there already."""
    text = SMALL.replace("{extends: default}", "{target: {kind: endpoint}}")
    kinds = [each.target.kind for each in load(text).experiment.configurations]
    assert kinds == ["local", "endpoint"]


def test_endpoint_keys_need_the_kind() -> None:
    """A URI without `kind: endpoint` is a mistake."""
    text = SMALL.replace("default: {}", "default: {target: {host: db}}")
    assert {p.message for p in problems_of(text)} == {
        "`host` belongs to the target `endpoint`, and this is `local`"
    }


def test_what_fits_this_machine_is_refused() -> None:
    """The profile `fitted` knows nothing of the server's machine."""
    text = at().replace("{extends: default}", "{extends: default, profile: fitted}")
    assert "fits this machine" in only_problem(text)


def test_a_restart_needs_a_command() -> None:
    """`switch: restart` on servers that nobody can restart is refused."""
    problems = problems_of(at(more="measure: {switch: restart}\n"))
    assert all("cannot be restarted" in problem.message for problem in problems)
    assert problems


def test_the_flag_allows_existing_databases_everywhere() -> None:
    """`--allow-existing` is for endpoints only."""
    allowed = allow_existing(load(at("dbname: shop"))).experiment
    assert all(target.allow_existing for target in allowed.endpoint_targets.values())
    with pytest.raises(InputError, match="has none"):
        allow_existing(load(SMALL))


def test_what_steelyard_did_not_make_is_not_made_anew() -> None:
    """`switch: reprovision` on an endpoint is refused at its line, with the way out."""
    problems = problems_of(at(more="measure: {switch: reprovision}\n"))
    assert problems
    assert all("cannot make it anew" in problem.message for problem in problems)
    assert all("kind: local" in problem.hint for problem in problems)


_PROFILED = SMALL.replace("{extends: default}", "{extends: default, profile: fitted}")
NOWHERE = Path("/nonexistent")
_SERVER = "configurations.default.target={kind: endpoint, dbname: d}"


def test_a_profile_fits_the_server_that_is_described() -> None:
    """By keys of its target or by the command line, which says the same of every endpoint."""
    told = [
        load(_PROFILED, NOWHERE, _SERVER, *overrides).experiment
        for overrides in (
            ("memory=64GiB", "cpus=16"),
            (
                "configurations.default.target.memory=64GiB",
                "configurations.default.target.cpus=16",
            ),
        )
    ]
    for experiment in told:
        asked = experiment.configuration("other").asked()
        assert (asked["shared_buffers"], asked["max_parallel_workers"]) == ("16384MB", "16")
        assert experiment.configuration("default").target == EndpointTarget(dbname="d")
    assert told[0] == told[1]


@pytest.mark.parametrize("overrides", [(), ("memory=64GiB",), ("cpus=16",)])
def test_a_server_of_which_not_enough_is_said_has_no_profile(overrides: tuple[str, ...]) -> None:
    """And it is told how to say it."""
    (problem,) = problems_of(_PROFILED, _SERVER, *overrides)
    assert "the profile `fitted` fits this machine, not the one of an endpoint" in problem.message
    assert "--memory and --cpus" in problem.hint


def test_nobody_tells_steelyard_what_this_machine_has() -> None:
    """It sees that itself; a target of this machine has no such keys."""
    problems = problems_of(_PROFILED, "memory=64GiB", "cpus=16")
    assert {problem.message for problem in problems} == {
        f"`{key}` is what nobody sees of a server, and Steelyard sees this machine"
        for key in ("memory", "cpus")
    }
