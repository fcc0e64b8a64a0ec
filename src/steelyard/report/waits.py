"""Wake-up or memory distance, in words."""

from collections.abc import Sequence

from steelyard.analysis.waits import WaitCause, WaitReasoning
from steelyard.model.units import format_share
from steelyard.report.document import BulletList
from steelyard.report.formats import milliseconds, signed_ms

TITLE = "Wake-up or memory distance"
_LEAD = (
    f"{TITLE}. A CPU that waits for memory counts as busy: distance of memory shows as CPU time of"
    " server and load generator, as do the clock, the statement's work and the kernel's part of"
    " waking up another CPU. What is none is waiting:"
)
_SUSPECTS = (
    "What the record shows of the campaign's machine, as it was found at the start, that makes"
    " wake-ups slow. A treatment that changes one of them can be the cause:"
)
_WAITING = (
    "so it is waiting: being woken up (idle states, halted virtual CPUs, the hypervisor's"
    " scheduler) or the network, and not distance of memory"
)
_VERDICTS = {
    WaitCause.WAITING: _WAITING,
    WaitCause.CPU: "so it is mainly work of the CPU, of whatever kind",
    WaitCause.BOTH: "so part of it is waiting, and part work of the CPU, of whatever kind",
    WaitCause.UNDECIDED: "so these runs do not tell whether it is waiting or work of the CPU",
}
_ONE_NODE = (
    "; this machine shows one memory node, so none of it is distance of memory, unless a hypervisor"
    " below spreads that over several"
)


def wait_blocks(waits: Sequence[WaitReasoning]) -> tuple[BulletList, ...]:
    """Return a sentence for every comparison whose statements surely cost more or less.

    And what the record shows of wake-ups, unless all of them are work of the CPU.
    """
    if not waits:
        return ()
    told = BulletList(lead=_LEAD, items=tuple(_sentence(each) for each in waits))
    open_ones = (each for each in waits if each.cause is not WaitCause.CPU)
    suspects = tuple(dict.fromkeys(clause for each in open_ones for clause in each.suspects))
    return (told, BulletList(lead=_SUSPECTS, items=suspects)) if suspects else (told,)


def _sentence(each: WaitReasoning) -> str:
    change = signed_ms(each.per_statement_s, plus=True)
    begun = f"{each.treatment} against {each.baseline}: each statement {change} ms"
    shares = each.cpu_shares
    if shares is None:
        return f"{begun}; how much of it is CPU time is not known ({each.missing})."
    least, most = (format_share(share) for share in shares)
    told = f"at most {most}" if shares[0] <= 0.0 else f"{least} to {most}"
    node = _ONE_NODE if each.one_node else ""
    return f"{begun}, of which {told} is CPU time{_queue(each)}; {_VERDICTS[each.cause]}{node}."


def _queue(each: WaitReasoning) -> str:
    queued = each.run_queue_s
    if queued is None:
        return ""
    sign = "-" if queued < 0 else "+"
    return f", and {sign}{milliseconds(abs(queued))} ms is the queue for a CPU of this machine"
