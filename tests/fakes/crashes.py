"""Crash tests that were never taken."""

from steelyard.core.crash import Crash, CrashMode, CrashTest
from steelyard.core.redis import Death

ALWAYS = CrashMode(name="always", settings=(("appendonly", "yes"), ("appendfsync", "always")))
EVERYSEC = CrashMode(name="everysec", settings=(("appendonly", "yes"), ("appendfsync", "everysec")))
NO = CrashMode(name="no", settings=(("appendonly", "yes"), ("appendfsync", "no")))
OFF = CrashMode(name="off", settings=(("appendonly", "no"), ("save", "")))


def a_crash(
    mode: CrashMode,
    lost: int = 0,
    *,
    death: Death = Death.POWER,
    lost_s: float | None = None,
    late_lost: int = 0,
    unusable: str = "",
) -> Crash:
    """Return one death after 1,000 acknowledged writes."""
    return Crash(
        mode=mode.name,
        death=death,
        under_load_s=2.0,
        acknowledged=1000,
        lost=lost,
        oldest_lost_s=lost_s if lost_s is not None or not lost else lost / 500,
        late=late_lost,
        late_lost=late_lost,
        unusable=unusable,
    )


def a_test(
    *crashes: Crash, modes: tuple[CrashMode, ...] = (OFF, NO, EVERYSEC, ALWAYS)
) -> CrashTest:
    """Return a test with these crashes."""
    return CrashTest(
        engine="redis",
        server="Redis 7.0.15",
        volume="XFS on a loop device",
        kernel="6.1.0",
        seed=1,
        clients=8,
        pipeline=16,
        longest_s=4.0,
        modes=modes,
        crashes=crashes,
    )
