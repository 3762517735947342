"""Guardian: pauses of the intake of new business (docs/protocol/guardian.md). An intake goes by its contract's address."""

from dataclasses import replace

from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Message, Pause, World

MAX_END: int = 2**40  # pauses end before it


def account(w: World) -> str:
    """The account that may pause."""
    return w.appointed.get(w.config.guardian, w.config.first_guardian)


def is_paused(w: World, intake: str, block_time: int) -> bool:
    return block_time < w.pauses.get(intake, Pause()).end


def pause(w: World, msg: Message, intake: str) -> None:
    """The guardian pauses an intake for `pause_s`, once in twice that time."""
    last, pause_s = _guardians(w, msg, intake), w.config.preset.pause_s
    require(msg.block_time >= last.free_from, "guardian: paused too recently")
    w.pauses[intake] = Pause(end=msg.block_time + pause_s, free_from=msg.block_time + 2 * pause_s)


def resume(w: World, msg: Message, intake: str) -> None:
    """The guardian ends its pause early."""
    last = _guardians(w, msg, intake)
    require(msg.block_time < last.end, "guardian: not paused")
    w.pauses[intake] = replace(last, end=msg.block_time)


def govern(w: World, msg: Message, intake: str, until: int) -> None:
    """The governor sets the end; the guardian changes nothing before it."""
    require(msg.sender == w.config.treasury_governor, "guardian: not the governor")
    require(until < MAX_END, "guardian: end out of range")
    w.pauses[intake] = replace(w.pauses.get(intake, Pause()), end=until, is_governed=True)


def appoint(w: World, msg: Message, account: str) -> None:
    """The governor replaces the guardian."""
    require(msg.sender == w.config.treasury_governor, "guardian: not the governor")
    w.appointed[w.config.guardian] = account


def _guardians(w: World, msg: Message, intake: str) -> Pause:
    """The last pause of an intake, for the guardian: the governor's is not its to change."""
    require(msg.sender == account(w), "guardian: not the guardian")
    last = w.pauses.get(intake, Pause())
    require(not (last.is_governed and msg.block_time < last.end), "guardian: the governor paused it")
    return last
