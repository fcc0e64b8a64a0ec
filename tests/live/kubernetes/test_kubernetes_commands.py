"""Commands in containers of a real cluster: what they print, how they end, and that they die."""

import threading

import pytest

from steelyard.core.kubernetes import POD, ContainerRef, ObjectRef, ref_of
from steelyard.core.wording import MeasurementError, TargetError
from steelyard.gateways.kubernetes.api import KubernetesApi
from support.kubernetes import start_pod, until, waiting_pod


def commands_in(api: KubernetesApi, where: ContainerRef) -> str:
    """Return the command lines of all processes there."""
    script = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    return api.run(where, ["sh", "-c", script], timeout_s=60).stdout


def test_a_command_ends_with_its_status(cluster_api: KubernetesApi, waiting: ContainerRef) -> None:
    """Both outputs are kept apart, arguments arrive as they are, and the exit status is its own.

    A command that is not there ends as in a shell: status 127 and a sentence.
    """
    script = 'printf "%s|" "$@"; echo err >&2; exit 7'
    argv = ["sh", "-c", script, "x", "a b", "$HOME", "'q'", "ä\n", ""]
    done = cluster_api.run(waiting, argv, timeout_s=60)
    assert (done.exit_status, done.stderr) == (7, "err\n")
    assert done.stdout == "a b|$HOME|'q'|ä\n||"
    assert done.argv == tuple(argv)
    assert cluster_api.run(waiting, ["true"], timeout_s=60).succeeded
    done = cluster_api.run(waiting, ["no-such-program"], timeout_s=60)
    assert done.exit_status == 127
    assert "no-such-program" in done.stderr


def test_long_output_is_whole(cluster_api: KubernetesApi, waiting: ContainerRef) -> None:
    """Five megabytes come back to the byte."""
    done = cluster_api.run(waiting, ["seq", "1", "750000"], timeout_s=120)
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 750001))
    assert len(done.stdout) > 5_000_000


def test_standard_input_is_whole_and_may_be_left_unread(
    cluster_api: KubernetesApi, waiting: ContainerRef
) -> None:
    """Short, none, and more than any buffer on the way holds while the output flows back."""
    for given in ("one\nä", "", "".join(f"{number}\n" for number in range(300_000))):
        done = cluster_api.run(waiting, ["cat"], timeout_s=120, stdin=given)
        assert done.stdout == given
    for _ in range(3):
        done = cluster_api.run(waiting, ["echo", "hi"], timeout_s=60, stdin="x" * 3_000_000)
        assert done.stdout == "hi\n"


def test_a_command_that_takes_too_long_is_killed(
    cluster_api: KubernetesApi, waiting: ContainerRef
) -> None:
    """It is given up in time, and its processes are gone in the container, its children too."""
    with pytest.raises(MeasurementError, match="did not end within 1 s"):
        cluster_api.run(waiting, ["sh", "-c", "sleep 4242; true"], timeout_s=1)
    until(lambda: "sleep 4242" not in commands_in(cluster_api, waiting), "the command is killed")


def test_lines_come_while_the_command_runs(
    cluster_api: KubernetesApi, waiting: ContainerRef
) -> None:
    """The first are there long before the end; closing from another thread ends it all."""
    script = "echo one; echo two; printf three; sleep 5353"
    lines = cluster_api.lines(waiting, ["sh", "-c", script])
    each = iter(lines)
    assert [next(each), next(each)] == ["one", "two"]
    closing = threading.Timer(0.5, lines.close)
    closing.start()
    assert list(each) == []
    closing.join()
    until(lambda: "sleep 5353" not in commands_in(cluster_api, waiting), "the command is killed")


def test_lines_end_with_the_command(cluster_api: KubernetesApi, waiting: ContainerRef) -> None:
    """The last line needs no end; a failure is told after the lines."""
    assert list(cluster_api.lines(waiting, ["printf", "a\\n\\nb"])) == ["a", "", "b"]
    each = iter(cluster_api.lines(waiting, ["sh", "-c", "echo a; echo bad >&2; exit 3"]))
    assert next(each) == "a"
    with pytest.raises(TargetError, match="status 3: bad"):
        next(each)


def test_standard_input_may_have_some_megabytes(
    cluster_api: KubernetesApi, waiting: ContainerRef
) -> None:
    """A wheel goes this way."""
    stdin = "0123456789abcdef" * 150_000
    ended = cluster_api.run(waiting, ["wc", "-c"], timeout_s=60, stdin=stdin)
    assert ended.stdout.strip() == str(len(stdin))


def test_a_pod_that_goes_takes_the_command_with_it(
    cluster_api: KubernetesApi, own_namespace: str
) -> None:
    """A command and lines in a deleted pod end with an error that names it."""
    where = start_pod(cluster_api, waiting_pod(own_namespace, "doomed"))
    lines = cluster_api.lines(where, ["sh", "-c", "echo there; sleep 600"])
    each = iter(lines)
    assert next(each) == "there"
    ref = ObjectRef(kind=POD, name="doomed", namespace=own_namespace)
    deleting = threading.Timer(1.0, cluster_api.delete, [ref], {"grace_s": 0})
    deleting.start()
    done_or_error: list[str] = []
    try:
        done = cluster_api.run(where, ["sleep", "600"], timeout_s=120)
        done_or_error.append(f"status {done.exit_status}")
    except TargetError as error:
        done_or_error.append(error.message)
    assert done_or_error[0] in {"status 137", "status 143"} or "doomed" in done_or_error[0]
    with pytest.raises(TargetError, match="doomed"):
        list(each)
    deleting.join()
    with pytest.raises(TargetError, match="doomed"):
        cluster_api.run(where, ["true"], timeout_s=60)


def test_logs_are_what_the_container_printed(
    cluster_api: KubernetesApi, own_namespace: str
) -> None:
    """All of it, or the last lines; a container that never started has none and says why."""
    talking = waiting_pod(own_namespace, "talking")
    talking["spec"]["containers"][0]["command"] = ["sh", "-c", "seq 1 5; sleep 600"]
    where = start_pod(cluster_api, talking)
    until(lambda: "5" in cluster_api.logs(where), "the container printed")
    assert cluster_api.logs(where) == "1\n2\n3\n4\n5\n"
    assert cluster_api.logs(where, lines=2) == "4\n5\n"
    absent = waiting_pod(own_namespace, "absent")
    absent["spec"]["containers"][0]["image"] = "localhost/no-such-image:1"
    ref = ref_of(cluster_api.apply(absent))

    def is_waiting() -> bool:
        statuses = ((cluster_api.read(ref) or {})["status"]).get("containerStatuses") or [{}]
        waits = statuses[0].get("state", {}).get("waiting") or {}
        return "Image" in waits.get("reason", "")

    until(is_waiting, "the image is not found")
    nowhere = ContainerRef(namespace=own_namespace, pod="absent", container="main")
    with pytest.raises(TargetError, match="absent"):
        cluster_api.logs(nowhere)


def test_many_threads_share_a_cluster(cluster_api: KubernetesApi, waiting: ContainerRef) -> None:
    """Commands at the same time do not mix what they print."""
    said: dict[int, str] = {}

    def run(number: int) -> None:
        script = f"sleep 0.2; seq {number}000 {number}999"
        said[number] = cluster_api.run(waiting, ["sh", "-c", script], timeout_s=120).stdout

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(1, 9):
        assert said[number].split() == [
            str(each) for each in range(number * 1000, number * 1000 + 1000)
        ]
