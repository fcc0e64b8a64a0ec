"""The only door to libvirt: the user's own ``virsh``, asked in the language of its sources."""

import re
from collections.abc import Mapping
from xml.sax.saxutils import unescape

from steelyard.core.outside import Command, Completed
from steelyard.core.wording import PrivilegeError, TargetError
from steelyard.gateways.process import Processes

SYSTEM = "qemu:///system"
_PATIENCE_S = 60.0  # a guess: ten times what a libvirtd needs that has just been started
_ABSENT = re.compile(r"failed to get domain|Domain not found")
_DENIED = re.compile(r"[Pp]ermission denied|authentication (?:unavailable|failed)|access denied")
_UNREACHABLE = re.compile(r"failed to connect|Failed to connect|Cannot recv data")
_AMBIGUOUS = re.compile(r"\s*\+?\d+$|[\s0-9A-Fa-f-]{32,}$")  # an id or a uuid, for virsh, first
_NAME = re.compile(r"<name>([^<]*)</name>")
_QUOTES = {"&apos;": "'", "&quot;": '"'}
_DOMAIN = re.compile(r"^Domain: '(.*)'$")
_DELAY = re.compile(r"^\s*vcpu\.(\d+)\.delay=(\d+)$")
_NS_PER_S = 1e9


class Domains:
    """The domains of one libvirt, as ``virsh`` tells them.

    Args:
        processes: Run ``virsh``.
        uri: Which libvirt it is.
    """

    def __init__(self, *, processes: Processes, uri: str = SYSTEM) -> None:
        self.uri = uri
        self._processes = processes

    def names(self, *, running: bool = False) -> tuple[str, ...]:
        """Return the names of all domains, or of those that run."""
        told = self._told("list", "--name", *(() if running else ("--all",)))
        return tuple(line for line in told.splitlines() if line)

    def xml(self, name: str, *, defined: bool = False) -> str | None:
        """Return a domain as it runs, or as it is defined; None where there is none.

        A domain that does not run is told as it is defined.
        """
        told = self._unless_absent("dumpxml", name, *(("--inactive",) if defined else ()))
        found = _NAME.search(told or "")
        if found is not None and unescape(found[1], _QUOTES) != name:
            raise TargetError(
                f"virsh was asked for the domain {name} and told of {found[1]}",
                hint="Give the domain a name that is no number and no uuid (virsh domrename).",
            )
        return told

    def has_secrets(self, name: str) -> bool:
        """Return whether a definition has a password, which ``xml`` leaves out."""
        told = self._unless_absent("dumpxml", name, "--inactive", "--security-info")
        return told != self.xml(name, defined=True)

    def autostart(self, name: str) -> bool:
        """Return whether a domain starts with the machine."""
        told = self._unless_absent("dominfo", name) or ""
        return re.search(r"^Autostart:\s+enable$", told, re.MULTILINE) is not None

    def define(self, xml: str) -> None:
        """Define a domain after libvirt's schema has accepted it.

        Raises:
            TargetError: It was refused, with libvirt's own words.
            PrivilegeError: The account may not.
        """
        self._told("define", "--validate", "/dev/stdin", stdin=xml)

    def undefine(self, name: str) -> None:
        """Remove a definition; disks and firmware variables stay. An absent one is no error."""
        self._unless_absent("undefine", name, "--keep-nvram")

    def vcpu_delays_s(self) -> Mapping[str, tuple[float, ...]]:
        """Return how long each virtual CPU of each running domain has waited for a CPU so far."""
        return parse_delays(self._told("domstats", "--vcpu", "--list-running"))

    def _unless_absent(self, verb: str, name: str, *words: str) -> str | None:
        domain = self._uuid(name) if _AMBIGUOUS.match(name) else name
        if domain is None:
            return None
        completed = self._run(verb, f"--domain={domain}", *words)
        if not completed.succeeded and _ABSENT.search(completed.stderr):
            return None
        return self._checked(completed)

    def _uuid(self, name: str) -> str | None:
        """Return the uuid of a domain whose name virsh would take for the id of another."""
        for line in self._told("list", "--all", "--uuid", "--name").splitlines():
            uuid, _, found = line.partition(" ")
            if found.strip(" ") == name.strip(" "):
                return uuid
        return None

    def _told(self, *words: str, stdin: str = "") -> str:
        return self._checked(self._run(*words, stdin=stdin))

    def _run(self, *words: str, stdin: str = "") -> Completed:
        argv = ("virsh", "--quiet", f"--connect={self.uri}", *words)
        # Its messages are told apart by their words.
        command = Command(argv=argv, environment={"LC_ALL": "C", "LANGUAGE": "C"})
        return self._processes.run(command, timeout_s=_PATIENCE_S, stdin=stdin)

    def _checked(self, completed: Completed) -> str:
        if completed.succeeded:
            return completed.stdout
        verb, words = completed.argv[3], completed.tail()
        if _DENIED.search(words):
            raise PrivilegeError(
                f"libvirt at {self.uri} does not admit this account: {words}",
                hint="Run the command as root, or join the group libvirt.",
            )
        if _UNREACHABLE.search(words):
            raise TargetError(
                f"there is no libvirt at {self.uri}: {words}",
                hint="Start libvirtd (systemctl start libvirtd).",
            )
        raise TargetError(f"virsh {verb} failed: {words}")


def parse_delays(text: str) -> Mapping[str, tuple[float, ...]]:
    """Return the seconds of delay by domain from ``virsh domstats --vcpu``, by virtual CPU.

    A libvirt before 8.0 does not tell them; its domains have none.
    """
    delays: dict[str, dict[int, float]] = {}
    name = ""
    for line in text.splitlines():
        if domain := _DOMAIN.match(line):
            name = domain[1]
            delays[name] = {}
        elif (delay := _DELAY.match(line)) and name in delays:
            delays[name][int(delay[1])] = int(delay[2]) / _NS_PER_S
    return {name: tuple(each[n] for n in sorted(each)) for name, each in delays.items()}
