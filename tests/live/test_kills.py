"""``kill -9`` of Steelyard at random instants of small real campaigns, each then resumed.

``STEELYARD_KILLS`` says how many, or which (``5,6,7,8,9`` unless it is set): one of each kind.
``STEELYARD_KILLS_LOG`` names a file that keeps a line for each.
"""

from pathlib import Path

import pytest

from support import kills
from support.endpoint import Server
from support.live import in_memory, new_cache

pytestmark = [pytest.mark.live, pytest.mark.slow]


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

        def kill(
            folder: Path, number: int, reference: kills.Reference, deaths: list[kills.Death]
        ) -> tuple[str, ...]:
            arguments = kills.RUN
            for at_s in kills.Kill.drawn(number).instants_s(reference.whole_s):
                death = lane.die(folder, at_s, *arguments)
                deaths.append(death)
                arguments = kills.RESUME if death.has_campaign else kills.RUN
                if not death.has_campaign:
                    status, said = lane.run(folder, *kills.RESUME)
                    assert (status, "holds no campaign" in said) == (6, True), said
            return arguments

        try:
            kills.one_by_one(log, lane, kind, numbers, server, kill)
        finally:
            lane.close()
