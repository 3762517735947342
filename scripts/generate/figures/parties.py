"""Who runs what, and where money sits. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from collections.abc import Sequence

from scripts.generate.figures.svg_sheet import ASKER, COMMITTER, FAINT, INK, PADDING, PAPER, RULE, Sheet

MONEY, MONEY_EDGE = "#fff4d6", "#9a6700"
CONTRACTS = (  # name, what it holds of money, or what it does
    ("TaskRegistry", "escrows, payments owed", True),
    ("NodeRegistry", "stake, collateral, locks", True),
    ("Referee", "prepaid answers", True),
    ("Availability, Audits", "deposits, bonds, audit budgets", True),
    ("Rewards, Treasury", "reward pool, fees", True),
    ("Auction", "prices and seats", False),
    ("Settlement", "claims, turns, convictions", False),
)


def draw_parties() -> str:
    sheet = Sheet(960, 532, "Who runs what, and where money sits")
    sheet.words(24, 32, "Who runs what, and where money sits", size=16, bold=True)
    sheet.box(640, 20, 14, 14, MONEY, MONEY_EDGE, radius=3)
    sheet.words(662, 32, "holds money", fill=FAINT)
    _submitter(sheet)
    _chain(sheet)
    _operator(sheet)
    _verifier(sheet)
    _stores(sheet)
    _arrows(sheet)
    return sheet.svg()


def _zone(sheet: Sheet, x: float, y: float, w: float, h: float, title: str, note: str) -> None:
    sheet.box(x, y, w, h, PADDING, RULE, radius=8)
    sheet.words(x + 14, y + 24, title, size=13, bold=True)
    sheet.words(x + 14, y + 41, note, size=11, fill=FAINT)


def _part(sheet: Sheet, x: float, y: float, w: float, lines: Sequence[str], *, money: bool = False) -> None:
    fill, edge = (MONEY, MONEY_EDGE) if money else (PAPER, RULE)
    sheet.box(x, y, w, 10 + 15 * len(lines), fill, edge, radius=5)
    for row, line in enumerate(lines):
        sheet.words(x + 10, y + 17 + 15 * row, line, size=11, fill=FAINT if row else INK, bold=not row)


def _submitter(sheet: Sheet) -> None:
    _zone(sheet, 24, 56, 232, 186, "Submitter", "wants a model trained")
    _part(
        sheet,
        38,
        108,
        204,
        ("zoo train, or Client in Python", "traces your module; your code", "never leaves this machine"),
    )
    _part(sheet, 38, 178, 204, ("account", "pays the escrow"))


def _verifier(sheet: Sheet) -> None:
    _zone(sheet, 24, 262, 232, 166, "Verifier", "anyone, also without a node")
    _part(sheet, 38, 314, 204, ("zoo verify --challenge", "re-executes claims, compares", "every bit"))
    _part(sheet, 38, 378, 204, ("account: prepays answers",))


def _chain(sheet: Sheet) -> None:
    _zone(sheet, 358, 56, 232, 372, "Chain", "contracts: the money and the clocks")
    for row, (name, holds, money) in enumerate(CONTRACTS):
        _part(sheet, 372, 104 + 45 * row, 204, (name, holds), money=money)


def _operator(sheet: Sheet) -> None:
    _zone(sheet, 692, 56, 244, 372, "Operator", "earns with GPUs")
    _part(sheet, 706, 108, 216, ("owner key, kept offline", "receives every payment"))
    _part(
        sheet, 706, 166, 216, ("keeper, with the hot key", "bids, commits, answers, defends;", "cannot move money out")
    )
    _part(sheet, 706, 244, 216, ("broker (Redis)", "queue of work"))
    _part(sheet, 706, 302, 216, ("workers, without keys", "train and aggregate on the GPU"))
    _part(sheet, 706, 360, 216, ("store and gateway", "serve what was committed"))


def _stores(sheet: Sheet) -> None:
    sheet.box(24, 458, 912, 54, PADDING, RULE, radius=8)
    sheet.words(38, 480, "Content-addressed stores (IPFS, or the parties' own gateways)", size=13, bold=True)
    sheet.words(
        38,
        499,
        "program, data, updates, checkpoints: every file is checked against a root on chain; storage is unpaid",
        size=11,
        fill=FAINT,
    )


def _arrows(sheet: Sheet) -> None:
    sheet.line([(242, 198), (306, 198), (306, 124), (372, 124)], COMMITTER, arrow=True)
    sheet.words(350, 116, "job, escrow", size=11, anchor="end", fill=COMMITTER)
    sheet.line([(242, 390), (306, 390), (306, 214), (372, 214)], ASKER, arrow=True)
    sheet.words(350, 206, "asks", size=11, anchor="end", fill=ASKER)
    sheet.line([(576, 124), (706, 124)], MONEY_EDGE, arrow=True)
    sheet.words(641, 116, "payments", size=11, anchor="middle", fill=MONEY_EDGE)
    sheet.line([(706, 195), (590, 195)], COMMITTER, arrow=True)
    sheet.words(641, 187, "bids, claims", size=11, anchor="middle", fill=COMMITTER)
    for top, bottom in ((221, 244), (284, 302), (342, 360)):
        sheet.line([(814, top), (814, bottom)], INK, arrow=True)
    for x in (140, 814):
        sheet.line([(x, 443), (x, 428)], INK, arrow=True)
        sheet.line([(x, 443), (x, 458)], INK, arrow=True)
