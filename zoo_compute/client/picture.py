"""A job as a notebook shows it: state, money, rounds x slots, losses, and what it waits for."""

from __future__ import annotations

from zoo_compute import drawing
from zoo_compute.chain.ledger import JobAccount
from zoo_compute.chain.views import ClaimState, Commit, JobView
from zoo_compute.client.history import newest_turns
from zoo_compute.client.progress import Progress

MAX_ROUNDS, MAX_SLOTS = 60, 64  # squares of the picture: the newest rounds, the first slots
COLOURS = {
    "paid": drawing.GREEN,
    "trained": drawing.BLUE,
    "in dispute": drawing.ORANGE,
    "convicted": drawing.RED,
    "no result": drawing.GREY,
}


def picture(view: JobView, progress: Progress, account: JobAccount, network: str) -> str:
    """HTML without scripts. Pure."""
    token = progress.token
    money = [
        (f"paid {token.format(progress.spent, places=3)}", drawing.GREEN, progress.spent),
        (f"due {token.format(account.committed, places=3)}", drawing.BLUE, account.committed),
        (f"left {token.format(account.held - account.committed, places=3)}", drawing.GREY, account.held - account.committed),
        (f"refunded {token.format(account.refunded, places=3)}", "#8888", account.refunded),
    ]  # fmt: skip
    known = [loss for loss in progress.losses if loss is not None]
    reported = f"loss by round, reported by nodes, unverified: {known[0]:.4f} to {known[-1]:.4f}" if known else ""
    return drawing.page(
        f"Job {view.job} on {network}: {progress.state}",
        drawing.lines(_rounds(progress), progress.waiting_for, *progress.advice),
        drawing.bar(money, "money"),
        _grid(view),
        drawing.lines(reported),
        drawing.curve(progress.losses, reported),
    )


def _rounds(progress: Progress) -> str:
    parts = [f"{progress.final_rounds} of {progress.rounds} rounds are final"]
    if progress.state == "running":
        parts.insert(0, f"round {progress.round + 1} runs, {progress.committed} of {progress.slots} slots are in")
    parts += [f"{count} {what}" for count, what in ((progress.disputes, "in dispute"), (progress.convictions, "convicted"), (progress.rollbacks, "rolled back")) if count]  # fmt: skip
    return ", ".join(parts)


def _grid(view: JobView) -> str:
    turns = newest_turns(view)
    rounds = sorted(turns)[-MAX_ROUNDS:]
    if not rounds:
        return ""
    by_turn: dict[int, dict[int, str]] = {}
    for commit in view.commits:
        by_turn.setdefault(commit.turn, {}).update(dict.fromkeys(commit.slots, _fate(commit)))
    columns = [
        [
            (f"round {round_ + 1}, slot {slot}: {fate}", COLOURS[fate])
            for slot in range(min(view.terms.slots, MAX_SLOTS))
            for fate in [by_turn.get(turns[round_], {}).get(slot, "no result")]
        ]
        for round_ in rounds
    ]
    first = f"rounds {rounds[0] + 1} to {rounds[-1] + 1} across, slots 0 to {len(columns[0]) - 1} down"
    legend = ", ".join(sorted({text.rpartition(": ")[2] for column in columns for text, _ in column}))
    return drawing.lines(f"{first}: {legend}") + drawing.grid(columns, first)


def _fate(commit: Commit) -> str:
    if commit.disputed:
        return "in dispute"
    return {ClaimState.PAID: "paid", ClaimState.PENDING: "trained", ClaimState.CONVICTED: "convicted"}.get(
        commit.state, "no result"
    )
