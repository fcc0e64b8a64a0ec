"""Steelyard in a pod: what an image has, what is sent there, and the programs that are copied."""

import io
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

import steelyard
from fakes.job_cluster import JobCluster, a_job_plan
from fakes.processes import Answer, FakeProcesses
from steelyard.core.wording import PreflightError
from steelyard.places.kubernetes import job as jobs
from steelyard.places.kubernetes import own_install
from steelyard.places.kubernetes.own_install import look, pip_options, require_index, wheel


def _script(name: str) -> str:
    return (files("steelyard.places.kubernetes") / f"{name}.sh").read_text()


def test_the_wheel_is_this_installation(tmp_path: Path) -> None:
    """It has the package's files and templates, and a record that names each of them once."""
    name, content = wheel()
    assert name == f"steelyard-{steelyard.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        about = f"steelyard-{steelyard.__version__}.dist-info"
        recorded = archive.read(f"{about}/RECORD").decode().splitlines()
        archive.extractall(tmp_path)
    assert [line.split(",")[0] for line in recorded] == names
    assert {"steelyard/__main__.py", f"{about}/METADATA", f"{about}/entry_points.txt"} < set(names)
    assert "steelyard/places/kubernetes/install.sh" in names
    asked = "import steelyard; print(steelyard.__file__)"
    ended = subprocess.run(
        [sys.executable, "-S", "-c", asked],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.startswith(str(tmp_path))


def _image(printed: str) -> FakeProcesses:
    processes = FakeProcesses()
    processes.on("python3", answer=Answer(stdout=printed))
    return processes


def test_an_image_says_what_it_has() -> None:
    """Steelyard of this version, or Python with pip; of another version it is sent."""
    complete = look("i", _image(f'[[3, 11], "{steelyard.__version__}", false]'))
    assert complete.is_complete
    assert not look("i", _image('[[3, 13], "", true]')).is_complete
    assert not look("i", _image('[[3, 13], "0.0.1", true]')).is_complete


@pytest.mark.parametrize(
    ("printed", "lack"),
    [
        ("", "has no Python"),
        ('[[3, 9], "", true]', "has Python 3.9, and Steelyard needs 3.11"),
        ('[[3, 12], "", false]', "has neither Steelyard"),
    ],
)
def test_an_image_that_has_too_little_is_named(printed: str, lack: str) -> None:
    """The way out names both kinds of image that serve."""
    with pytest.raises(PreflightError, match=lack) as raised:
        look("registry.example/i:1", _image(printed))
    assert "Containerfile" in raised.value.hint


def test_an_index_that_pods_do_not_reach_is_said_before() -> None:
    """With pip's last words; nothing was made."""
    processes = FakeProcesses()
    processes.on("python3", answer=Answer(exit_status=1, stderr="No matching distribution found\n"))
    with pytest.raises(PreflightError, match=r"http://i/simple: No matching") as raised:
        require_index("i", "http://i/simple", processes)
    assert "--index-url" in raised.value.hint


def test_an_index_without_tls_was_named_so_it_is_trusted() -> None:
    """Credentials in the URL are no part of the host."""
    assert pip_options(None) == ()
    assert pip_options("https://i/simple") == ("--index-url", "https://i/simple")
    assert pip_options("http://u:p@i:8080/s")[2:] == ("--trusted-host", "i:8080")


def test_it_is_sent_once(tmp_path: Path) -> None:
    """What a pod has already, sent or installed, stays as it is."""
    cluster = JobCluster(record=tmp_path / "record")
    plan = a_job_plan(installs=True)
    jobs.make(plan, "cGFja2Vk", cluster.api)
    pod = jobs.standing(plan, cluster.api).pod
    assert pod is not None
    own_install.send(cluster.api, pod, jobs.INSTALLED)
    home = tmp_path / "steelyard"
    came = home / "sent" / wheel()[0]
    assert came.read_bytes() == wheel()[1]
    assert "click==" in (home / "sent" / "versions.txt").read_text()
    came.unlink()
    own_install.send(cluster.api, pod, jobs.INSTALLED)
    assert not came.exists()


def test_programs_run_by_their_own_loader(tmp_path: Path) -> None:
    """They come with their libraries; what an image does not have is said and passed over."""
    place = tmp_path / "programs"
    ended = subprocess.run(
        ["/bin/sh", "-c", _script("programs"), "sh", str(place), "cat", "no-such-program"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no no-such-program" in ended.stdout
    wrapper = place / "bin" / "cat"
    assert str(place / "real" / "cat") in wrapper.read_text()
    ran = subprocess.run([wrapper], input="it runs", capture_output=True, text=True, check=True)
    assert ran.stdout == "it runs"


def test_an_installation_is_made_once_and_whole(tmp_path: Path) -> None:
    """A pod that is made again finds it there, and asks neither for the wheel nor for an index."""
    home, calls = tmp_path / "home", tmp_path / "calls"
    (home / "sent").mkdir(parents=True)
    (home / "sent" / "steelyard-1-py3-none-any.whl").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    python = tools / "python3"
    python.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n')
    python.chmod(0o755)
    for _ in range(2):
        subprocess.run(
            [
                *("/bin/sh", "-c", f'{_script("install")}echo "$PYTHONPATH"', "sh"),
                *(str(home), "kubernetes", "--index-url", "http://i/simple"),
            ],
            env={"PATH": f"{tools}:/usr/bin:/bin"},
            check=True,
        )
    (line,) = calls.read_text().splitlines()
    assert "--index-url http://i/simple" in line
    assert line.endswith("steelyard-1-py3-none-any.whl[kubernetes]")
    assert sorted(each.name for each in home.iterdir()) == ["installed", "sent"]
