"""``steelyard latency`` on recorded logs of pgbench, on logs made for it, and on campaigns."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Shell, a_campaign
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

import steelyard.cli.percentiles as verb
from steelyard.answers.logged import NO_INTERVALS, NO_PERCENTILES
from steelyard.cli import percentiles as log_reading
from steelyard.core.measurement import RunLatency
from steelyard.record.directory import read_campaign
from steelyard.stats.histogram import LARGEST, histogram_of, merged, to_text
from support.examples import EXAMPLES

RECORDINGS = Path(__file__).parents[2] / "recordings" / "pgbench_log" / "18"
BEGAN_S = 1_795_000_000


def recorded(name: str) -> str:
    """Return the path of a recorded log with one file."""
    return str(RECORDINGS / f"{name}.log.0")


def flat(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


def a_log(path: Path, times_us: list[int], *, script: int = 0, apart_us: int = 1000) -> Path:
    """Write a log of one client: each transaction ends so much after the one before."""
    lines = []
    for number, time_us in enumerate(times_us, 1):
        seconds, rest = divmod(number * apart_us, 1_000_000)
        lines.append(f"0 {number} {time_us} {script} {BEGAN_S + seconds} {rest}\n")
    path.write_text("".join(lines))
    return path


def told(shell: Shell, *words: str) -> Any:
    """Return what the verb prints for programs."""
    code, out, err = shell.run("latency", "--json", *words)
    assert code == 0, err
    return json.loads(out)


def read_hlog(path: Path) -> list[HdrHistogram]:
    """Return every histogram of a file, as HdrHistogram's own reader finds them."""
    reader = HistogramLogReader(str(path), HdrHistogram(1, LARGEST - 1, 2))
    found = list(iter(reader.get_next_interval_histogram, None))
    reader.close()
    return found


# --- log files ---


def test_files_without_names_are_one_run(shell: Shell) -> None:
    """Both threads of a recording: 120 transactions as pgbench counted, and no interval."""
    code, out, err = shell.run("latency", *map(str, sorted(RECORDINGS.glob("plain.log.*"))))
    assert (code, err) == (0, "")
    assert NO_INTERVALS in flat(out)
    assert "not enough [120 of 1,000]" in out
    assert "closed" in out


def test_named_runs_stand_side_by_side(shell: Shell) -> None:
    """A pattern behind a name is ours to expand; lag and service time where there is a rate."""
    found = told(
        shell, f"closed={RECORDINGS}/plain.log.*", f"open={recorded('rate')}", "--columns", "lag"
    )
    assert [(run["name"], run["files"], run["open_loop"]) for run in found["runs"]] == [
        ("closed", 2, False),
        ("open", 1, True),
    ]
    assert found["intervals"] is None
    assert [each["of"] for each in found["runs"][1]["percentiles"]] == [
        "latency",
        "schedule lag",
        "service time",
    ]


def test_files_without_a_name_belong_to_the_run_named_before_them(shell: Shell) -> None:
    """As a shell hands over what it expanded behind the first name."""
    first, second = (str(path) for path in sorted(RECORDINGS.glob("plain.log.*")))
    found = told(shell, f"a={first}", second, f"b={recorded('failed')}")
    assert [(run["name"], run["files"]) for run in found["runs"]] == [("a", 2), ("b", 1)]


def test_failed_and_retried_transactions_are_told(shell: Shell) -> None:
    """By kind where the log has it; retries where there is a column for them."""
    (run,) = told(shell, recorded("detailed"))["runs"]
    assert set(run["failed"]) == {"deadlock", "serialization"}
    assert run["retried"] > 0
    (plain,) = told(shell, recorded("failed"))["runs"]
    assert plain["failed"]["failed"] > 0
    assert plain["retried"] is None


def test_percentiles_scripts_rate_and_ramp(shell: Shell, tmp_path: Path) -> None:
    """1,000 transactions in a second: p99 is told, the rate is 1,000/s, a ramp leaves half."""
    path = a_log(tmp_path / "x.log", [100, *[200] * 980, *[5000] * 19])
    (run,) = told(shell, str(path))["runs"]
    (times,) = run["percentiles"]
    assert times["seconds"]["p50"] == pytest.approx(200e-6, rel=0.004)
    assert times["seconds"]["p99"] == pytest.approx(5000e-6, rel=0.004)
    assert times["seconds"]["p99.9"] is None
    assert times["seconds"]["max"] == 0.005
    assert run["achieved_per_s"] == pytest.approx(1000, rel=0.01)
    (late,) = told(shell, str(path), "--ramp", "500ms")["runs"]
    assert late["transactions"] == pytest.approx(500, abs=2)
    assert late["achieved_per_s"] == pytest.approx(1000, rel=0.01)


def test_a_script_that_runs_late_for_the_first_time_is_read(shell: Shell, tmp_path: Path) -> None:
    """Its number stands in none of the first lines, and no line of it is damaged."""
    path = a_log(tmp_path / "x.log", [100] * 3000)
    more = a_log(tmp_path / "y.log", [100] * 10, script=5).read_text()
    path.write_text(path.read_text() + more)
    (run,) = told(shell, str(path))["runs"]
    assert run["damaged_lines"] == 0
    assert {each["script"] for each in run["percentiles"]} == {None, "script 0", "script 5"}


def test_compressed_logs_are_read(shell: Shell, tmp_path: Path) -> None:
    """As a campaign keeps them."""
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(Path(recorded("failed")).read_bytes()))
    assert (
        told(shell, str(packed))["runs"][0]["percentiles"]
        == (told(shell, recorded("failed"))["runs"][0]["percentiles"])
    )


def test_a_killed_generator_and_damaged_lines_are_told(shell: Shell, tmp_path: Path) -> None:
    """What could not be read is said, and the rest is shown."""
    path = a_log(tmp_path / "x.log", [100] * 50)
    path.write_text(path.read_text() + "what is this\n0 51 10")
    code, out, _ = shell.run("latency", str(path))
    assert code == 0
    assert "1 line could not be understood" in out
    assert "ends inside a line" in out


def test_aggregated_logs_have_intervals_and_no_percentiles(shell: Shell) -> None:
    """Threads together, second by second; the sentence says why there are no percentiles."""
    paths = sorted(map(str, RECORDINGS.glob("aggregated.log.*")))
    code, out, _ = shell.run("latency", *paths)
    assert code == 0
    assert NO_PERCENTILES in flat(out)
    (group,) = told(shell, *paths)["aggregated"]
    assert group["percentiles"] is None
    lines = [line for path in paths for line in Path(path).read_text().splitlines()]
    assert len(group["intervals"]) == len({line.split()[0] for line in lines})
    total = sum(each["transactions"] for each in group["intervals"])
    assert total == sum(int(line.split()[1]) for line in lines)


def test_large_logs_show_how_far_the_reading_is(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On standard error, so that --json stays clean; --quiet says nothing."""
    monkeypatch.setattr(log_reading, "_LARGE_BYTES", 1)
    path = a_log(tmp_path / "x.log", [100] * 50)
    code, out, err = shell.run("latency", "--json", str(path))
    assert code == 0
    assert json.loads(out)
    assert "read 100 % of" in err
    assert shell.run("latency", "--quiet", str(path))[2] == ""


def test_page_and_picture_are_written(shell: Shell, tmp_path: Path) -> None:
    """The page has the table and the chart, the picture the chart alone."""
    page, picture = tmp_path / "page.html", tmp_path / "tail.svg"
    path = a_log(tmp_path / "x.log", list(range(100, 3100)))
    assert shell.run("latency", str(path), "--html", str(page), "--svg", str(picture))[0] == 0
    assert "p99.9" in page.read_text()
    assert picture.read_text().startswith("<svg")
    assert "99 %" in picture.read_text()


def test_the_hdr_log_holds_every_transaction(shell: Shell, tmp_path: Path) -> None:
    """Two runs, two scripts: a tag for each, in the order of time, and all counts."""
    first = a_log(tmp_path / "a.log", [300] * 2500)
    second = a_log(tmp_path / "b.log", [70_000] * 1500, script=1)
    hlog = tmp_path / "x.hlog"
    assert shell.run("latency", f"a={first}", f"b={second}", "--hlog", str(hlog))[0] == 0
    found = read_hlog(hlog)
    counts = {"a/script_0": 0, "b/script_1": 0}
    for each in found:
        counts[each.get_tag()] += each.get_total_count()
    assert counts == {"a/script_0": 2500, "b/script_1": 1500}
    starts = [each.get_start_time_stamp() for each in found]
    assert starts == sorted(starts)
    assert starts[0] / 1000 == pytest.approx(BEGAN_S, abs=0.1)


# --- what cannot be read ---


def test_all_problems_are_told_at_once(shell: Shell, tmp_path: Path) -> None:
    """Absent, empty, foreign, a directory, seven columns: one error, exit code 2."""
    (tmp_path / "empty.log").touch()
    (tmp_path / "text.log").write_text("hello\nworld\n")
    words = [f"a={tmp_path}/nope.log", f"b={tmp_path}/empty.log", f"c={tmp_path}/text.log"]
    code, out, err = shell.run(
        "latency", *words, f"d={tmp_path}", f"e={recorded('rate')}", f"f={tmp_path}/*.nothing"
    )
    assert (code, out) == (2, "")
    for part in (
        "no file",
        "empty.log is empty",
        "text.log is no transaction log",
        "is a directory, and holds no campaign",
        "--columns lag or --columns retries",
        "*.nothing",
    ):
        assert part in err
    assert "hint: " in err


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((recorded("plain"), recorded("detailed")), "lines of 8 columns"),
        ((recorded("plain"), recorded("aggregated")), "aggregated intervals"),
        ((recorded("rate"), "--columns", "lag,retries"), "one column for --columns"),
        ((recorded("plain"), f"a={recorded('failed')}"), "has no name, and other files have"),
        ((recorded("aggregated"), "--hlog", "x"), "no counts for an HdrHistogram log"),
        ((recorded("plain"), "--ramp", "1h", "--svg", "x"), "no transaction to draw"),
        ((recorded("plain"), "--ramp", "soon"), "not a duration"),
    ],
)
def test_what_does_not_go_together_is_a_sentence(
    shell: Shell, words: tuple[str, ...], part: str
) -> None:
    """A fact and the way out, exit code 2, nothing on standard output, and nothing written."""
    code, out, err = shell.run("latency", *words)
    assert (code, out) == (2, "")
    assert part in err
    assert "hint: " in err
    assert not Path("x").exists()


def test_damaged_compression_is_a_sentence(shell: Shell, tmp_path: Path) -> None:
    """A file that was cut off in its middle."""
    path = tmp_path / "log.gz"
    whole = gzip.compress(a_log(tmp_path / "x", list(range(9000))).read_bytes())
    path.write_bytes(whole[: len(whole) // 2])
    code, _, err = shell.run("latency", str(path))
    assert code == 2
    assert "its compression is damaged" in err


# --- campaigns ---


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a campaign whose counted runs have stored counts of their first three seconds."""
    path = a_campaign(tmp_path / "c")
    record = read_campaign(path)
    lines = [
        {
            "second": at,
            "script": "select-only",
            "counts": to_text(histogram_of([300 + at] if at else [])),
            "apart": "7",
        }
        for at in range(3)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "raw").mkdir(exist_ok=True)
    (path / "raw" / "x.seconds.gz").write_bytes(gzip.compress(text.encode()))
    latency = RunLatency(scripts=(), seconds="x.seconds.gz")
    measure = replace(record.experiment.measure, ramp_s=1.0)
    shown = replace(
        record,
        experiment=replace(record.experiment, measure=measure),
        runs=tuple(replace(run, latency=latency) for run in record.runs),
    )
    monkeypatch.setattr(verb, "read_campaign", lambda _: shown)
    monkeypatch.setattr(verb, "analyse", lambda _: verb_analysis)
    verb_analysis = _analysis(record)
    return path


def _analysis(record: Any) -> Any:
    from steelyard.answers.campaign import analyse  # noqa: PLC0415 - not the one replaced

    return analyse(record)


def test_a_campaigns_seconds_become_an_hdr_log(shell: Shell, logged: Path, tmp_path: Path) -> None:
    """Two seconds of each run that counts are behind its ramp; the tag names its cell."""
    hlog = tmp_path / "c.hlog"
    code, out, err = shell.run("latency", str(logged), "--hlog", str(hlog))
    assert code == 0, err
    assert "steelyard report" in out
    found = read_hlog(hlog)
    runs = verb.read_campaign(logged).counted_runs
    assert len(found) == 2 * len(runs)
    expected = merged([histogram_of([301]), histogram_of([302])])
    assert sum(each.get_total_count() for each in found) == expected.total * len(runs)
    assert {each.get_tag().count("/") for each in found} == {3}


def test_lost_counts_of_a_campaign_are_a_sentence(
    shell: Shell, logged: Path, tmp_path: Path
) -> None:
    """Removed or damaged: exit code 6, and no file is written."""
    stored = logged / "raw" / "x.seconds.gz"
    stored.write_bytes(b"\x1f\x8b nothing")
    for part in ("is damaged", "does not hold the counts"):
        code, _, err = shell.run("latency", str(logged), "--hlog", str(tmp_path / "c.hlog"))
        assert code == 6
        assert part in err
        assert not (tmp_path / "c.hlog").exists()
        stored.unlink(missing_ok=True)


def test_a_campaign_without_logs_says_so(shell: Shell, tmp_path: Path) -> None:
    """An example of an earlier day: there is no table, and nothing to export."""
    path = EXAMPLES / "protocol"
    code, out, _ = shell.run("latency", str(path))
    assert code == 0
    assert "No run of this campaign has a log" in out
    assert shell.run("latency", str(path), "--hlog", str(tmp_path / "x"))[0] == 6
    assert shell.run("latency", str(path), "--json")[0] == 0


def test_a_campaign_takes_no_options_of_logs(shell: Shell, tmp_path: Path) -> None:
    """It knows its ramp, and it stands alone."""
    path = str(a_campaign(tmp_path / "c"))
    for words in ((path, "--ramp", "1s"), (path, recorded("plain"))):
        code, _, err = shell.run("latency", *words)
        assert code == 2
        assert "hint: " in err
