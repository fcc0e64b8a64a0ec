"""Domains whose memory, cells and pages are said in all the ways that libvirt has for it.

What libvirt 9.0's driver of QEMU makes of them is asked of it by
``live/test_libvirt_definitions.py``.
"""

import re
from collections.abc import Mapping
from pathlib import Path

_FOREIGN = Path(__file__).parents[1] / "recordings" / "foreign" / "libvirt"
_CELLS = (
    "<cpu><numa><cell id='0' cpus='0-1' memory='4096' unit='MiB'/>"
    "<cell id='1' cpus='2-3' memory='3584' unit='MiB'/></numa></cpu>"
)
_HOTPLUG = "<maxMemory slots='4' unit='GiB'>16</maxMemory>"
_GIB = "<page size='1' unit='G' nodeset='0'/>"
_BOUND = (
    "<numatune><memory mode='preferred' nodeset='0'/>"
    "<memnode cellid='1' mode='strict' nodeset='0'/></numatune>"
)


def _pages(*pages: str) -> str:
    return f"<memoryBacking><hugepages>{''.join(pages)}</hugepages></memoryBacking>"


def _module(source: str = "", node: int = 1, model: str = "dimm") -> str:
    target = f"<target><size unit='MiB'>1024</size><node>{node}</node></target>"
    return f"<memory model='{model}'>{source}{target}</memory>"


def _domain(
    inner: str = _CELLS, devices: str = "", memory: str = "<memory unit='GiB'>8</memory>"
) -> str:
    system = "<os><type arch='x86_64' machine='q35'>hvm</type></os>"
    return (
        f"<domain type='qemu'><name>a</name>{memory}<vcpu>4</vcpu>{system}{inner}"
        f"<devices>{devices}</devices></domain>"
    )


def _foreign(name: str) -> str:
    """Return a domain of other people, for a machine without KVM and with one node."""
    xml = (_FOREIGN / name).read_text().replace("type='kvm'", "type='qemu'")
    xml = re.sub("<(cputune|numatune)>.*?</(cputune|numatune)>", "", xml, flags=re.DOTALL)
    return xml.replace("mode='host-passthrough'", "")


_NODE = "<source><nodemask>0</nodemask></source>"
_OF_ONE_CELL = "<numatune><memnode cellid='0' mode='preferred' nodeset='0'/></numatune>"
_PAGE_SIZE = "<source><pagesize unit='KiB'>2048</pagesize></source>"
# By name and by what it has: MiB of each part of the memory and size of the pages behind it.
_DEFINED = {
    ("two sizes", "4096 1G, 3584 2M"): _foreign("k1-two-sizes.xml"),
    ("two sizes, reversed", "4096 2M, 4096 1G"): _foreign("k2-two-sizes-reversed.xml"),
    ("more memory than cells", "4096 4K, 3584 4K"): _domain(memory="<memory unit='TiB'>1</memory>"),
    ("less memory than cells", "4096 4K, 3584 4K"): _domain(memory="<memory unit='GiB'>1</memory>"),
    ("cells alone", "4096 4K, 3584 4K"): _domain(memory=""),
    ("memory alone", "954 4K"): _domain("", memory="<memory unit='b'>1000000001</memory>"),
    ("current memory", "4096 4K, 3584 4K"): _domain(
        f"<currentMemory unit='GiB'>4</currentMemory>{_CELLS}"
    ),
    ("room for more", "4096 4K, 3584 4K"): _domain(_HOTPLUG + _CELLS),
    ("a module", "4096 4K, 3584 4K, 1024 4K"): _domain(_HOTPLUG + _CELLS, _module()),
    ("a module that is counted", "4096 4K, 3584 4K, 1024 4K"): _domain(
        _HOTPLUG + _CELLS, _module(), memory="<memory unit='MiB'>8704</memory>"
    ),
    ("a module on pages of its cell", "4096 1G, 3584 4K, 1024 1G"): _domain(
        _HOTPLUG + _CELLS + _pages(_GIB), _module(node=0)
    ),
    ("a module on other pages", "4096 1G, 3584 4K, 1024 2M"): _domain(
        _HOTPLUG + _CELLS + _pages(_GIB), _module(_PAGE_SIZE)
    ),
    ("modules apart", "4096 1G, 3584 4K, 1024 2M, 1024 1G"): _domain(
        _HOTPLUG + _CELLS + _pages(_GIB), _module(_PAGE_SIZE) + _module(node=0)
    ),
    ("a module in a file", "4096 1G, 3584 4K, 1024 4K"): _domain(
        _HOTPLUG + _CELLS + _pages(_GIB),
        _module("<source><path>/var/tmp/a</path></source>", node=0, model="nvdimm"),
    ),
    ("a module on a node of its own", "4096 4K, 3584 4K, 1024 4K"): _domain(
        _HOTPLUG + _CELLS, _module(_NODE)
    ),
    ("a module beside a bound cell", "4096 4K, 3584 4K, 1024 4K"): _domain(
        _HOTPLUG + _OF_ONE_CELL + _CELLS, _module(_NODE)
    ),
    ("one page for the rest", "4096 1G, 3584 2M"): _domain(
        _CELLS + _pages(_GIB, "<page size='2' unit='M'/>")
    ),
    ("a cell without huge pages", "4096 1G, 3584 4K"): _domain(_CELLS + _pages(_GIB)),
    ("excluded cells", "4096 4K, 3584 2M"): _domain(
        _CELLS + _pages("<page size='2048' nodeset='0-1,^0'/>")
    ),
    ("pages of no named size", "4096 2M, 3584 2M"): _domain(_CELLS + _pages()),
    ("ordinary pages", "4096 4K, 3584 4K"): _domain(_CELLS + _pages("<page size='4'/>")),
    ("ordinary pages of a cell", "4096 4K, 3584 2M"): _domain(
        _CELLS + _pages("<page size='4' nodeset='0'/>", "<page size='2' unit='M'/>")
    ),
    ("a node set without cells", "8192 1G"): _domain(_pages(_GIB)),
    ("cells without numbers", "4096 4K, 3584 4K"): _domain(re.sub(r" id='\d'", "", _CELLS)),
    ("cells in another order", "2048 1G, 1024 4K"): _domain(
        "<cpu><numa><cell id='1' cpus='0-1' memory='1048576'/>"
        f"<cell id='0' cpus='2-3' memory='2097152'/></numa></cpu>{_pages(_GIB)}"
    ),
    ("virtual CPUs in no cell", "4096 4K, 3584 4K"): _domain(
        _CELLS.replace("cpus='0-1'", "cpus='0'")
    ),
    ("a cell without CPUs", "4096 4K, 3584 4K"): _domain(_CELLS.replace("cpus='2-3'", "")),
    ("bound cells", "4096 4K, 3584 4K"): _domain(_BOUND + _CELLS),
}
DEFINED: Mapping[str, str] = {name: xml for (name, _), xml in _DEFINED.items()}
PARTS: Mapping[str, str] = dict(_DEFINED.keys())
REFUSED: Mapping[str, str] = {
    "no memory": _domain("", memory=""),
    "two sizes for the rest": _domain(_CELLS + _pages("<page size='4'/>", "<page size='2048'/>")),
    "two sizes of a cell": _domain(_CELLS + _pages(_GIB, "<page size='2048' nodeset='0-1'/>")),
    "a cell that is not there": _domain(_CELLS + _pages("<page size='2048' nodeset='5'/>")),
}
