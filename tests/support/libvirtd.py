"""A libvirtd for tests: the one that runs already, or one that is started and ended with them.

It is that of the system, with the system's directories: domains of tests are called
``steelyard-test-*`` and are gone when it ends.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from steelyard.core.wording import SteelyardError
from steelyard.gateways.process import Processes
from steelyard.gateways.virsh import Domains
from support.lacking import lacking
from support.tiny_guest import kernel, write_initrd

PREFIX = "steelyard-test-"
PROGRAMS = ("virsh", "virtlogd", "libvirtd", "qemu-system-x86_64", "virt-xml-validate")
PATIENCE_S = 600.0  # emulation beside other tests is slow; nothing is asserted on time
_STARTS = 20
_NO_PAGES = "Cannot allocate memory"
_LOCK = Path("/var/lock/steelyard-libvirt.lock")
_HUGE_PAGES = Path("/dev/hugepages")


@contextmanager
def a_libvirt() -> Iterator[Domains]:
    """Give a libvirt, to one test module of the machine at a time."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        lacking(
            f"there is no {', '.join(missing)} (packages libvirt-daemon-system, qemu-system-x86)"
        )
    if os.geteuid() != 0:
        lacking("only root can start a libvirtd of the system")
    virsh = Domains(processes=Processes())
    with ExitStack() as stack:
        lock = stack.enter_context(_LOCK.open("a"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _answers(virsh):
            stack.enter_context(_huge_pages_mounted())
            _start(stack, virsh)
        _remove_domains(virsh)  # of tests that were killed
        stack.callback(_remove_domains, virsh)
        yield virsh


@pytest.fixture(scope="module")
def libvirt() -> Iterator[Domains]:
    """Return a libvirt for the tests of one module."""
    with a_libvirt() as virsh:
        yield virsh


@contextmanager
def guest_directory(*, huge_pages: tuple[int, ...] = (), told: bool = False) -> Iterator[Path]:
    """Give a directory with ``vmlinuz`` and ``initrd``, which QEMU's account may enter."""
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/var/tmp"))
    try:
        directory.chmod(0o755)
        shutil.copyfile(kernel(), directory / "vmlinuz")
        write_initrd(directory / "initrd", huge_pages=huge_pages, told=told)
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def running(name: str, provide: Callable[[], None]) -> Iterator[None]:
    """Start a domain on huge pages, and end it as a power cut would.

    Args:
        name: Of the domain.
        provide: Adds huge pages that somebody took before the domain could.
    """
    for _ in range(_STARTS):
        told = virsh("start", name, check=False)
        if _NO_PAGES not in told:
            break
        provide()
    assert name in virsh("list", "--name"), told
    try:
        yield
    finally:
        virsh("destroy", name, check=False)


def virsh(*words: str, check: bool = True) -> str:
    """Return what ``virsh`` says; an operator's own hand, not the product's."""
    done = subprocess.run(["virsh", "--quiet", *words], capture_output=True, text=True, check=False)  # noqa: S607
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout + done.stderr


def wait_for(console: Path, word: str) -> str:
    """Return what a guest printed up to a word, or fail after a long time."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        text = console.read_text(errors="replace") if console.exists() else ""
        if word in text:
            return text
        time.sleep(0.5)
    pytest.fail(f"the guest did not say {word!r}; its last words: {text[-2000:]}")


@contextmanager
def _huge_pages_mounted() -> Iterator[None]:
    """Mount a hugetlbfs where there is none: libvirtd looks for one when it starts."""
    if " hugetlbfs " in Path("/proc/mounts").read_text():
        yield
        return
    _HUGE_PAGES.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "hugetlbfs", "hugetlbfs", str(_HUGE_PAGES)], check=True)  # noqa: S607
    try:
        yield
    finally:
        subprocess.run(["umount", str(_HUGE_PAGES)], check=True)  # noqa: S607


def _start(stack: ExitStack, virsh: Domains) -> None:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for program in ("virtlogd", "libvirtd"):
        log = stack.enter_context((directory / f"{program}.log").open("w"))
        words = [program, "--pid-file", str(directory / f"{program}.pid")]
        process = subprocess.Popen(words, stdout=log, stderr=log)
        stack.callback(_end, process)
    deadline = time.monotonic() + PATIENCE_S
    while not _answers(virsh):
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"libvirtd did not start: {(directory / 'libvirtd.log').read_text()}")
        time.sleep(0.2)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(60)


def _answers(virsh: Domains) -> bool:
    try:
        virsh.names()
    except SteelyardError:
        return False
    return True


def _remove_domains(libvirt: Domains) -> None:
    for name in libvirt.names():
        if name.startswith(PREFIX):
            virsh("destroy", name, check=False)
            libvirt.undefine(name)
