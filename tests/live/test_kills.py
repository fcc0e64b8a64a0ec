"""``kill -9`` of Steelyard at random instants of small real campaigns, each then resumed.

``STEELYARD_KILLS`` says how many, or which (``5,6,7,8,9`` unless it is set): one of each kind.
``STEELYARD_KILLS_LOG`` names a file that keeps a line for each.
"""

import shutil
from pathlib import Path

import pytest

from support import kills
from support.endpoint import Server
from support.live import in_memory, new_cache

pytestmark = [pytest.mark.live, pytest.mark.slow]

_REPORTED_EVERY = 4  # a report takes seconds of CPU: not every campaign is reported once more


def test_a_campaign_killed_at_any_instant_resumes_to_the_same_result(
    server: Server, tmp_path: Path
) -> None:
    """SIGKILL at a random instant, for some a second time in the resumption: nothing shows.

    The resumed campaign has the runs in the order, the plan, the comparisons, verdicts and status
    of one that nobody killed; no acknowledged line is lost; nothing is left behind.
    """
    log = kills.Log.of("STEELYARD_KILLS", "5,6,7,8,9", kills.KINDS, tmp_path)
    kills.in_lanes(log, lambda kind, own: _lane(kills.at(server, kind), own, tmp_path, server, log))
    assert log.failures == []
    assert sum(log.phases.values()) >= log.total


def _lane(kind: kills.Kind, numbers: list[int], home: Path, server: Server, log: kills.Log) -> None:
    """Kill campaigns of one kind, one after the other."""
    with new_cache(in_memory()) as cache:
        lane = kills.Lane(cache=cache, home=home / kind.name.replace(" ", "-"))
        lane.home.mkdir()
        try:
            _kill_in_turn(lane, kind, numbers, server, log)
        finally:
            lane.close()


def _kill_in_turn(
    lane: kills.Lane, kind: kills.Kind, numbers: list[int], server: Server, log: kills.Log
) -> None:
    untouched = _state_of(server)
    reference = kills.uninterrupted(lane, kind)
    log.say(f"{kind.name}: {reference.whole_s:.1f} s to its end")

    def kill(number: int, deaths: list[kills.Death]) -> None:
        _kill(lane, kind, kills.Kill.drawn(number), reference, deaths)
        if kind.name == "endpoint":
            assert _state_of(server) == untouched

    kills.one_by_one(log, lane, numbers, kill)


def _state_of(server: Server) -> tuple[object, ...]:
    return server.configuration, server.databases, server.rows("SHOW work_mem")


def _kill(
    lane: kills.Lane,
    kind: kills.Kind,
    kill: kills.Kill,
    reference: kills.Reference,
    deaths: list[kills.Death],
) -> None:
    """Kill a campaign, resume it, and compare it with the one that nobody killed."""
    folder = lane.home / f"kill-{kill.number}"
    kind.write(folder, f"kill {kill.number}")
    arguments = kills.RUN
    for at_s in kill.instants_s(reference.whole_s):
        death = lane.die(folder, at_s, *arguments)
        deaths.append(death)
        arguments = kills.RESUME if death.has_campaign else kills.RUN
        if not death.has_campaign:
            status, said = lane.run(folder, *kills.RESUME)
            assert (status, "holds no campaign" in said) == (6, True), said
    status, said = lane.run(folder, *arguments)
    assert status == 0, said
    _require_kept(folder, deaths)
    kills.require_same(folder, reference)
    kills.require_nothing_left(lane, folder)
    if kill.number // len(kills.KINDS) % _REPORTED_EVERY == 0 or deaths[-1].phase == "reporting":
        _require_same_report(lane, folder)
    shutil.rmtree(folder)  # one that failed stays


def _require_kept(folder: Path, deaths: list[kills.Death]) -> None:
    """What was acknowledged before a kill is still the beginning of the record."""
    journal = (folder / "c" / "journal.jsonl").read_bytes()
    for death in deaths:
        assert journal.startswith(death.acknowledged)
        if death.schedule is not None:
            assert (folder / "c" / "schedule.json").read_bytes() == death.schedule


def _require_same_report(lane: kills.Lane, folder: Path) -> None:
    """`report` makes every derived file anew, to the same bytes."""
    before = {name: (folder / "c" / name).read_bytes() for name in kills.DERIVED}
    for name in kills.DERIVED:
        (folder / "c" / name).unlink()
    status, said = lane.run(folder, "report", "c")
    assert status == 0, said
    assert {name: (folder / "c" / name).read_bytes() for name in kills.DERIVED} == before
