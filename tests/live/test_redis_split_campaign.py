"""A whole campaign of a replica that persists: the pair, its lag, and what may be lost."""

import json

import pytest

from steelyard.answers.campaign import analyse
from steelyard.answers.durability.compute import measured_lags
from steelyard.core.measurement import Quantity
from steelyard.record.directory import read_campaign
from support.live import Steelyard, living_servers
from support.redis import require_redis

pytestmark = pytest.mark.live
_PAIR = """\
version: 1
name: persistence on the replica
baseline: logged
workloads:
  - {name: writes, builtin: set, value_bytes: 2000, keys: 500, loaded: 500}
loads: {clients: 4, threads: 1}
measure: {slice: 1s, warm_up: 0s}
stop: {budget: 60m, precision: 0.1%}
seed: 7
configurations:
  logged:
    target: {kind: redis-local}
    redis: {appendonly: yes, appendfsync: always, save: ""}
  split:
    extends: logged
    target: {replica: {appendonly: yes, appendfsync: always}}
    redis: {appendonly: no}
"""


@pytest.mark.slow
def test_a_pair_is_weighed_against_a_log_on_the_primary(steelyard: Steelyard) -> None:
    """Both primaries have latencies, the one replica its lag, and losses stand beside them.

    The pair's primary writes no log, and yet a killed server is not said to lose everything.
    """
    require_redis()
    steelyard.until_blocks(2, "run", steelyard.experiment(_PAIR), "--out", "c")
    campaign = steelyard.directory / "c"
    analysis = analyse(read_campaign(campaign))
    for run in analysis.runs:
        assert run.evidence is not None
        assert run.latency is not None
        is_pair = run.configuration == "split"
        logged = run.evidence.total(Quantity.AOF_BYTES)
        assert logged is not None
        assert (logged == 0) is is_pair
        assert run.evidence.level(Quantity.REPLICAS) == is_pair
    (lag,) = analysis.answer(measured_lags) or ()
    assert (lag.configuration, lag.cell.workload, lag.compared) == ("split", "writes", True)
    summary = json.loads((campaign / "summary.json").read_text())
    assert [each["configuration"] for each in summary["replica_lag"]] == ["split"]
    page = (campaign / "report.md").read_text()
    assert "## What may be lost of acknowledged writes" in page
    assert "the replica has all but what had not reached it" in page
    assert living_servers(steelyard.cache) == []
