"""Journals of earlier versions: what they do not know has the value that it had then."""

from experiment_texts import SMALL, load
from pydantic import TypeAdapter

from steelyard.core.campaign import BlockOutcome, CampaignPlan, RoundsFor
from steelyard.core.experiment import Experiment


def test_an_experiment_without_later_keys_is_what_it_was() -> None:
    """Closed loops of one generator, beside the usual neighbours, with the usual ceilings."""
    experiment = load(SMALL).experiment
    adapter = TypeAdapter(Experiment)
    written = adapter.dump_python(experiment, mode="json")
    for key in ("capacity", "goal"):
        del written[key]
    for key in ("share", "latency_limit_s", "generators"):
        del written["loads"][0][key]
    for key in ("neighbours", "ceilings"):
        del written["measure"][key]
    assert adapter.validate_python(written) == experiment


def test_a_block_without_a_cause_has_none() -> None:
    """Its reason stays."""
    old = {"index": 0, "attempt": 0, "complete": False, "reason": "steal"}
    assert TypeAdapter(BlockOutcome).validate_python(old).cause == ""


def test_a_plan_of_old_has_one_round() -> None:
    """Journals that know nothing of rounds are still read, and say what they always said."""
    text = (
        '{"mode":"starts","switch":"restart","reset":"start","restore":"copy","restore_s":[],'
        '"block_s":60.0,"stopping":{"max_blocks":9,"alpha":0.04,"results":1,"first_look":6,'
        '"cell_first_look":6,"spending_power":2.0},'
        '"warm_up":{"warm_up_s":20.0,"how":"floor","risk":""}}'
    )
    plan = TypeAdapter(CampaignPlan).validate_json(text)
    assert (plan.rounds, plan.rounds_for, plan.rounds_reason) == (1, RoundsFor.ONE, "")
