"""What a file may say of rounds and of servers that are made for each start."""

import pytest
from experiment_texts import SMALL, load, only_problem
from pydantic import TypeAdapter

from steelyard.core.campaign import CampaignPlan, RoundsFor


def with_measure(keys: str, text: str = SMALL) -> str:
    """Return an experiment file with these keys of `measure`."""
    return f"{text}measure: {{{keys}}}\n"


@pytest.mark.parametrize("written", ["0", "-1", "1.5", "many", "true"])
def test_what_is_no_number_of_rounds(written: str) -> None:
    """Told at its place with what would do."""
    told = only_problem(with_measure(f"rounds: {written}"))
    assert f"measure.rounds: `{written}` is" in told
    assert "Write a number at least 1." in told


@pytest.mark.parametrize("reset", ["block", "campaign"])
def test_data_are_not_kept_for_servers_that_are_made(reset: str) -> None:
    """Data of another server cannot be carried along."""
    told = only_problem(with_measure(f"switch: reprovision, reset: {reset}"))
    assert f"data cannot be kept for a {reset}" in told
    assert load(with_measure("switch: reprovision, reset: start")).experiment


def test_nothing_is_restored_where_servers_are_made() -> None:
    """A means of restoring would never be used."""
    text = SMALL.replace("default: {}", "default: {target: {restore: copy}}")
    text = text.replace("{extends: default}", "{}")
    assert "nothing is restored" in only_problem(with_measure("switch: reprovision", text))


def test_a_single_pass_has_one_round() -> None:
    """Its cells run once, whatever else a file says."""
    text = SMALL.replace("  other: {extends: default}\n", "").replace(
        "name: small", "name: small\ndesign: single-pass"
    )
    assert "not 3 times" in only_problem(with_measure("rounds: 3", text))
    assert load(with_measure("rounds: 1", text)).experiment


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
