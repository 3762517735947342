"""The life of a job: its stages, who acts in each, and how long money is locked. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from scripts.generate.figures.svg_sheet import ASKER, COMMITTER, FAINT, INK, LIGHT, PADDING, Sheet
from zoo_compute.spec.state import JobState

WIDTH, LEFT, STEP, BOX_W, BOX_H = 960, 24, 185, 168, 128
TOP = 92
STAGES = (  # title, contract, lines
    ("1  Post", "TaskRegistry", ("The submitter posts the", "job and pays the most", "it can cost into escrow.")),
    (
        "2  Auction",
        "Auction",
        ("Operators seal, then", "reveal bids. The cheapest", "seats win; each locks", "collateral."),
    ),
    ("3  Ready", "Settlement", ("Winners fetch the files,", "time one step and say", "they are ready.")),
    (
        "4  Rounds",
        "Settlement",
        ("Slots train and commit.", "The aggregator joins", "their updates and posts", "the next checkpoint."),
    ),
    (
        "5  Settle",
        "Settlement",
        ("After the dispute", "window anyone pays the", "claims out: 95 % to the", "operator, 5 % fee."),
    ),
)
OVERLAP = (
    "Rounds do not wait for settlement: the claims of several rounds (the job's depth) may be",
    "open to dispute at once, and are paid while later rounds train.",
)
STATES = ((JobState.OPEN, 0, 2), (JobState.AWARDED, 2, 3), (JobState.RUNNING, 3, 4), (JobState.ENDED, 4, 5))


def _x(stage: float) -> float:
    return LEFT + STEP * stage


def draw_job_life() -> str:
    sheet = Sheet(WIDTH, 446, "The life of a job")
    sheet.words(LEFT, 32, "The life of a job", size=16, bold=True)
    for state, first, end in STATES:
        x, width = _x(first), STEP * (end - first) - (STEP - BOX_W)
        sheet.box(x, 50, width, 22, PADDING, radius=4)
        sheet.words(x + width / 2, 65, state.name, size=11, anchor="middle", fill=FAINT)
    for stage, (title, contract, lines) in enumerate(STAGES):
        _draw_stage(sheet, stage, title, contract, lines)
    _draw_detours(sheet)
    _draw_money(sheet)
    return sheet.svg()


def _draw_stage(sheet: Sheet, stage: int, title: str, contract: str, lines: tuple[str, ...]) -> None:
    x = _x(stage)
    sheet.box(x, TOP, BOX_W, BOX_H, LIGHT[COMMITTER], COMMITTER, radius=6)
    sheet.words(x + 12, TOP + 24, title, size=13, bold=True)
    for row, line in enumerate(lines):
        sheet.words(x + 12, TOP + 46 + 16 * row, line, size=11)
    sheet.words(x + 12, TOP + BOX_H - 9, contract, size=10, fill=FAINT)
    if stage:
        sheet.line([(x - STEP + BOX_W, TOP + 20), (x, TOP + 20)], INK, arrow=True)


def _draw_detours(sheet: Sheet) -> None:
    """What happens when something goes wrong, below the stage it happens in."""
    bottom = TOP + BOX_H
    low = bottom + 26
    for stage, lines in (
        (1, ("Too few bids: the auction", "re-opens at a higher price.")),
        (3, ("A seat is late: it loses 10 % of its", "lock and a standby takes it over.")),
    ):
        x = _x(stage)
        sheet.line([(x + 120, bottom), (x + 120, low - 10), (x + 40, low - 10), (x + 40, bottom)], arrow=True)
        for row, line in enumerate(lines):
            sheet.words(x, low + 8 + 15 * row, line, size=11, fill=FAINT)
    for row, line in enumerate(OVERLAP):
        sheet.words(LEFT, low + 62 + 15 * row, line, size=11, fill=FAINT)
    x, top = _x(3), low + 44
    sheet.box(x, top, STEP + BOX_W, 62, LIGHT[ASKER], ASKER, radius=6)
    sheet.words(x + 12, top + 19, "Dispute (Referee)", size=12, bold=True)
    sheet.words(x + 12, top + 36, "Asks and answers narrow the claim down to one operation.", size=11)
    sheet.words(x + 12, top + 52, "False: the lock is slashed and the round may run again.", size=11)
    sheet.line([(_x(4) + 130, bottom), (_x(4) + 130, top)], ASKER, arrow=True)
    sheet.words(_x(4) + 122, low + 23, "anyone", size=11, anchor="end", fill=ASKER)


def _draw_money(sheet: Sheet) -> None:
    """How long each kind of money is locked, along the stages."""
    top = 364
    bars = (
        ("Escrow of the submitter, in TaskRegistry; what is left returns", 0.0, 5.0),
        ("Locked collateral of the operators, in NodeRegistry, until their claims are final", 1.0, 5.0),
    )
    for row, (text, first, end) in enumerate(bars):
        x, y = _x(first), top + 36 * row
        width = STEP * (end - first) - (STEP - BOX_W)
        sheet.box(x, y, width, 26, "#fff4d6", "#9a6700", radius=4)
        sheet.words(x + 12, y + 17, text, size=11)
    sheet.words(LEFT, top - 10, "Where money sits", size=12, bold=True)
