"""The seconds of one path of asks, as the specification counts them. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scripts.generate.figures.svg_sheet import ASKER, COMMITTER, FAINT, INK, LIGHT, RULE, Sheet
from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import PRODUCTION, PathClocks

HOUR = 3_600
DEADLINE, REEXECUTE_S, SLOTS = 6 * HOUR, HOUR // 2, 1
# Hours after an answer up to the next ask, and up to its answer; open heavy asks with it, 0 of one that is not heavy.
ASKS = ((1, 1.5, 0), (1.2, 2.5, 3), (0.9, 3, 0), (0.5, 2, 0), (0.4, 1.6, 0), (0.2, None, 0))
PLOT_X, PLOT_W = 130, 760


@dataclass(frozen=True)
class Exchange:
    """An ask and its answer. before: the clocks above it; after: None where nobody answers."""

    before: PathClocks
    asked: PathClocks
    after: PathClocks | None
    open_heavy: int


def exchanges() -> Iterator[Exchange]:
    at, now = clocks.first(0, PRODUCTION), 0
    for wait_h, answer_h, heavy in ASKS:
        now += int(wait_h * HOUR)
        asked = clocks.asked(at, now, DEADLINE, heavy > 0, heavy, SLOTS, REEXECUTE_S, PRODUCTION)
        if answer_h is None:
            yield Exchange(at, asked, None, heavy)
            return
        now += int(answer_h * HOUR)
        answered = clocks.answered(asked, now)
        yield Exchange(at, asked, answered, heavy)
        at = answered


def hours(seconds: float) -> str:
    return f"{seconds / HOUR:.3g} h"


def draw_clocks() -> str:
    played = list(exchanges())
    last = played[-1].asked
    end = last.since + last.committer_left_s
    scale = PLOT_W / end
    sheet = Sheet(930, 440, "The clocks of one path of asks")
    sheet.words(30, 32, "The clocks of one path of asks", size=16, bold=True)
    about = (
        f"Production: the committer has {hours(PRODUCTION.committer_s)} along a path, the askers {hours(PRODUCTION.asker_s)} "
        f"after the deadline; here a re-execution takes {hours(REEXECUTE_S)}."
    )
    sheet.words(30, 54, about, fill=FAINT)
    for each in played:
        _draw_exchange(sheet, each, scale, end)
    deadline = PLOT_X + scale * DEADLINE
    sheet.line([(deadline, 72), (deadline, 376)], INK, dashed=True)
    sheet.words(deadline, 392, "the claim's deadline", anchor="middle", size=11)
    _draw_left(sheet, played, scale, end)
    return sheet.svg()


def _draw_exchange(sheet: Sheet, each: Exchange, scale: float, end: int) -> None:
    """From the last answer to the ask the askers' bar, from the ask to its answer the committer's."""
    since, until = each.asked.since, each.after.since if each.after else end
    begin, asked, answered = (PLOT_X + scale * at for at in (each.before.since, since, until))
    late = max(begin, PLOT_X + scale * DEADLINE)
    sheet.box(begin, 117, asked - begin, 12, LIGHT[ASKER])
    if late < asked:
        sheet.box(late, 117, asked - late, 12, ASKER)
    sheet.box(asked, 83, answered - asked, 12, COMMITTER)
    if each.open_heavy:
        sheet.words(asked, 78, f"heavy, {each.open_heavy} open", size=11, fill=COMMITTER)
    if each.after is None:
        sheet.line([(answered, 78), (answered, 100)], INK, wide=2)
        sheet.words(answered, 152, "expire: silence convicts", anchor="end", size=11)


def _draw_left(sheet: Sheet, played: list[Exchange], scale: float, end: int) -> None:
    """The time that each side has left."""
    low, high = 370.0, 180.0
    most = max(each.asked.committer_left_s for each in played)
    up = (low - high) / most
    for name, place, colour in (("committer", 93, COMMITTER), ("askers", 127, ASKER)):
        sheet.words(30, place, name, fill=colour)
    for seconds in range(0, most + 1, 4 * HOUR):
        y = low - up * seconds
        sheet.line([(PLOT_X, y), (PLOT_X + PLOT_W, y)], RULE, wide=1)
        sheet.words(PLOT_X - 8, y + 4, hours(seconds) if seconds else "0", anchor="end", fill=FAINT)
    sheet.words(30, high - 6, "left", fill=FAINT)

    def point(at: float, left: float) -> tuple[float, float]:
        return PLOT_X + scale * at, low - up * left

    committer, askers = [point(0, PRODUCTION.committer_s)], [point(0, PRODUCTION.asker_s)]
    for each in played:
        until = each.after.since if each.after else end
        added = each.asked.committer_left_s - each.before.committer_left_s
        committer += [point(each.asked.since, each.before.committer_left_s)]
        committer += [point(each.asked.since, each.asked.committer_left_s)]
        committer += [point(until, each.after.committer_left_s if each.after else 0)]
        begins = max(each.before.since, min(DEADLINE, each.asked.since))
        askers += [point(begins, each.before.asker_left_s), point(each.asked.since, each.asked.asker_left_s)]
        if added:
            at, height = point(each.asked.since, each.asked.committer_left_s)
            sheet.words(
                at + 8, height - 4, f"+ {hours(added)}: {each.open_heavy} re-executions", size=11, fill=COMMITTER
            )
    sheet.line(committer, COMMITTER, wide=2)
    sheet.line([*askers, point(end, played[-1].asked.asker_left_s)], ASKER, wide=2)
    sheet.words(PLOT_X, low + 22, "0", anchor="middle", fill=FAINT)
    sheet.words(PLOT_X + PLOT_W, low + 22, hours(end), anchor="middle", fill=FAINT)
    note = "A bar of the askers is dark where their clock runs: after the deadline only. Nothing gives a side its time back."
    sheet.words(PLOT_X, low + 50, note, fill=FAINT)
