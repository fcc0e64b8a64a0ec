"""What the tests left out on this machine, by reason, with the way to get it.

    python .ci/left_out.py RESULTS [--bare]

RESULTS is what tests/conftest.py wrote; the reasons are listed in ``left_out.toml``. With --bare the
tests ran in a file system with git, make and Python alone. Then these are failures: a reason that is
not listed, more tests without a part than listed, fewer passed tests than ``house_figures.py`` says.
"""

import argparse
import collections
import re
import sys
import tomllib
from pathlib import Path

from house_figures import TESTS_ON_A_BARE_MACHINE

LISTED = tomllib.loads((Path(__file__).parent / "left_out.toml").read_text("utf-8"))


def part_of(reason: str) -> str:
    """Return the part that a reason speaks of; a reason that is not listed stands for itself."""
    matching = (part for part, entry in LISTED.items() if re.search(entry["reason"], reason))
    return next(matching, reason)


def main() -> int:
    """Print what was left out; return 1 where a bare machine leaves out more than is listed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--bare", action="store_true")
    arguments = parser.parse_args()
    # A repeated test, and under xdist one that was left out, may stand in several lines.
    lines = {*arguments.results.read_text("utf-8").splitlines()}
    passed = sum(line.startswith("passed\t") for line in lines)
    reasons = [line.split("\t")[2] for line in lines if line.startswith("left out\t")]
    parts = collections.Counter(map(part_of, reasons))
    print(f"== {passed} tests passed, {parts.total()} were left out")
    problems = []
    for part, number in parts.most_common():
        entry = LISTED.get(part)
        print(f"==   {number} for want of {part}: {entry['get']}" if entry else f"==   {number}: {part}")
        if entry is None:
            problems.append(f"the reason is not listed: {part}")
        elif number > entry["number"]:
            problems.append(f"more than the {entry['number']} listed need {part}: {number}")
    if passed < TESTS_ON_A_BARE_MACHINE:
        problems.append(f"fewer tests passed than {TESTS_ON_A_BARE_MACHINE}: {passed}")
    for problem in problems if arguments.bare else []:
        print(f"== {problem}", file=sys.stderr)
    return int(arguments.bare and bool(problems))


if __name__ == "__main__":
    sys.exit(main())
