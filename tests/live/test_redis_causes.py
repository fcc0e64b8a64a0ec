"""A campaign whose cause is known: the evidence of its runs, and what is made of it."""

import pytest

from steelyard.answers.campaign import analyse
from steelyard.answers.costs import Cost
from steelyard.answers.reasons.compute import campaign_reasons
from steelyard.core.measurement import Quantity
from steelyard.record.directory import read_campaign
from support.live import Steelyard
from support.redis import require_redis

pytestmark = pytest.mark.live
_VALUE_BYTES = 20_000
_ALWAYS = f"""\
version: 1
name: every write flushed
baseline: unlogged
workloads:
  - {{name: writes, builtin: set, value_bytes: {_VALUE_BYTES}, keys: 200, loaded: 200}}
loads: {{clients: 8, threads: 1}}
measure: {{slice: 1s, warm_up: 0s}}
stop: {{budget: 10m, precision: 99%}}
seed: 7
configurations:
  unlogged:
    target: {{kind: redis-local}}
    redis: {{appendonly: no, save: "", auto-aof-rewrite-percentage: 0}}
  flushed: {{extends: unlogged, redis: {{appendonly: yes, appendfsync: always}}}}
"""


@pytest.mark.slow
def test_a_log_that_is_flushed_is_found_in_bytes_flushes_and_words(steelyard: Steelyard) -> None:
    """Each request's bytes are in the log of the one arm alone; parts of its time make the whole.

    What the evidence says is the whole of the latency, split by what the main thread did, and that
    the faster arm keeps less.
    """
    require_redis()
    ended = steelyard.run("run", steelyard.experiment(_ALWAYS), "--out", "c")
    assert ended.returncode == 0, ended.stderr
    analysis = analyse(read_campaign(steelyard.directory / "c"))
    request = len("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$20000\r\n\r\n") + _VALUE_BYTES
    for run in analysis.runs:
        assert run.evidence is not None
        assert run.measurement is not None
        sent = run.evidence.total(Quantity.COMMANDS)
        assert sent is not None
        assert sent - run.measurement.transactions in (0, 1, 2)  # CONFIG GET, once or twice
        logged = run.evidence.total(Quantity.AOF_BYTES)
        assert logged is not None
        assert (logged == 0) is (run.configuration == "unlogged")
    assert analysis.answer(campaign_reasons) is not None
    (change,) = analysis.answer(campaign_reasons).ledger.changes
    written = change.cost(Cost.AOF_BYTES)
    assert written.clear
    assert written.configuration == pytest.approx(request, rel=0.001)
    for cell in analysis.answer(campaign_reasons).budget.cells:
        assert cell.latency is not None
        whole = sum(part.value for part in cell.parts.values())
        assert whole == pytest.approx(cell.latency.value, rel=0.3)  # medians do not add
    found = {finding.code: finding for finding in analysis.findings}
    assert found["persistence-traded"].subject == "unlogged"
    (told,) = analysis.answer(campaign_reasons).explanations
    assert Cost.AOF_BYTES in told.costs
    assert "appendonly" in told.differing
