"""The method's acceptance test, run on the product's code.

By default with a quarter of the campaigns; STEELYARD_FULL_METHOD=1 runs all of them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import adapter
import pytest
from repeats import Check, is_random, repeated

FULL = os.environ.get("STEELYARD_FULL_METHOD") == "1"
FIXED_CAMPAIGNS, FULL_CAMPAIGNS = (2000, 400) if FULL else (500, 100)
MORE = 10
LINE = re.compile(r"(?:PASS|FAIL)  (.*?) +(\S+) (<=|>=) (\S+)")


def names():
    """Return the names of all checks, in the order of acceptance.py."""
    yield "unit: HL estimate of the golden vector (0.0085)"
    yield "unit: exact signed-rank 95 % interval (0.0020, 0.0140)"
    yield "unit: first interim result spends alpha*(8/30)^2 = 0.002844"
    yield "unit: last level of looks 8..30 (0.01944)"
    yield "unit: z bounds, 5 equal looks, alpha=.05, rho=2"
    for profile in ("calm", "typical", "hostile", "contended"):
        yield f"{profile}: A/A false positives, per cell, fixed n"
        yield f"{profile}: A/A false positives, pooled, fixed n"
        yield f"{profile}: coverage, per cell"
        yield f"{profile}: coverage, pooled"
    yield "typical: median half-width, per cell, 60 min"
    yield "typical: median half-width, pooled, 60 min"
    yield "calm: median half-width, pooled, 60 min"
    yield "typical: power at 3 %, per cell, 60 min"
    yield "typical: power at 3 %, pooled, 60 min"
    yield "typical: power at 5 %, per cell, 60 min"
    yield "order: every 2K consecutive slices are one complete block"
    yield "order: |share of blocks that start with configuration 1 - 0.5|"
    yield "order: distinct cell orders seen"
    for profile, effect in (
        ("typical", "+0%"),
        ("typical", "+3%"),
        ("typical", "+5%"),
        ("typical", "-5%"),
        ("calm", "+3%"),
        ("hostile", "+5%"),
    ):
        yield f"end-to-end {profile} {effect}: interval covers the truth at the stop"
        yield f"end-to-end {profile} {effect}: budget kept (max minutes)"
        if effect == "+0%":
            yield f"end-to-end {profile} {effect}: false verdicts faster/slower"
        else:
            yield f"end-to-end {profile} {effect}: verdict reached"
            yield f"end-to-end {profile} {effect}: wrong direction"
            yield f"end-to-end {profile} {effect}: median minutes to verdict"


NAMES = tuple(names())


@pytest.fixture(scope="module")
def checks():
    """Return what acceptance.py says of the adapter, by name."""
    argv = [sys.executable, "-W", "error", "acceptance.py", "--impl", "adapter"]
    done = subprocess.run(
        argv if FULL else [*argv, "--quick"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [
        Check(name=line[1], value=float(line[2]), relation=line[3], bound=float(line[4]))
        for line in map(LINE.fullmatch, done.stdout.splitlines())
        if line
    ]
    assert found, done.stderr
    return {check.name: check for check in found}


@pytest.mark.slow
def test_no_check_is_left_out(checks):
    """All 58 checks ran, and none that this file does not know."""
    assert set(checks) == set(NAMES)
    assert len(NAMES) == 58


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_product_passes(name, checks):
    """The check holds, if need be with ten times the campaigns: then chance is no excuse."""
    check = checks[name]
    if not check.passed and is_random(name):
        print(f"repeated with {MORE} times the campaigns: {check}")
        check = repeated(adapter, check, MORE * FIXED_CAMPAIGNS, MORE * FULL_CAMPAIGNS)
    assert check.passed, str(check)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "typical: A/A false positives, per cell, fixed n",
        "calm: median half-width, pooled, 60 min",
        "typical: power at 3 %, pooled, 60 min",
        "end-to-end calm +3%: median minutes to verdict",
    ],
)
def test_a_repeat_is_the_same_check(name, checks):
    """Repeated with as many campaigns, a check has the same value and the same bound."""
    check = checks[name]
    again = repeated(adapter, check, FIXED_CAMPAIGNS, FULL_CAMPAIGNS)
    assert again.value == pytest.approx(check.value, abs=1e-4)
    assert (again.bound, again.relation) == (check.bound, check.relation)
