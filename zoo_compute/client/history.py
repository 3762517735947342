"""A job's rounds as a table: what nodes report, what was computed here, what became of the round, when, and its price."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from zoo_compute.amounts import Token
from zoo_compute.chain.views import ClaimState, Commit, JobView
from zoo_compute.client.evaluation import Evaluation

UNPAID = (ClaimState.CONVICTED, ClaimState.VOID, ClaimState.ABSENT)
METRICS = ("perplexity", "accuracy")


def rows_of(
    view: JobView,
    losses: Sequence[float | None],
    evaluations: Mapping[str, Evaluation],
    token: Token,
    time_of: Callable[[int], int],
) -> list[dict[str, Any]]:
    """A row for each round that was opened, and one for the start if that was evaluated.

    losses: by round, as nodes report them. evaluations: by the checkpoint's root. time_of: the second of a block.
    """
    start = evaluations.get(_root(view, 0))
    rows = [_row(0, "start", None, start)] if start else []
    turns = newest_turns(view)
    for round_ in range(max([*turns, view.completed_rounds - 1], default=-1) + 1):
        done, made = round_ < view.completed_rounds, view.checkpoint_of(round_ + 1)
        claims = [claim for claim in view.claims if claim.turn == turns.get(round_) and claim.state not in UNPAID]
        rows.append(
            _row(round_ + 1, _state(view, round_), losses[round_] if round_ < len(losses) else None, evaluations.get(_root(view, round_ + 1)))
            | {
                "slots": sum(claim.count for claim in claims if isinstance(claim, Commit)),
                "time": datetime.fromtimestamp(time_of(made.block), UTC) if done and made and made.block else None,
                "price": sum(claim.price for claim in claims) / 10**token.decimals,
            }
        )  # fmt: skip
    return rows


def newest_turns(view: JobView) -> dict[int, int]:
    """round -> the turn that counts: a round is repeated after a rollback."""
    turns = {claim.round: claim.turn for claim in sorted(view.claims, key=lambda claim: claim.turn)}
    run = view.run
    if run is not None and not view.over and not run.is_waiting:
        turns[run.round] = run.turn
    return {round_: turn for round_, turn in turns.items() if round_ <= view.completed_rounds}


def _row(round_: int, state: str, loss: float | None, evaluation: Evaluation | None) -> dict[str, Any]:
    own = {name: getattr(evaluation, name) if evaluation else None for name in METRICS}
    row: dict[str, Any] = {
        "round": round_,
        "state": state,
        "loss": loss,
        "heldout_loss": evaluation.loss if evaluation else None,
    }
    row |= own | {"slots": 0, "time": None, "price": 0.0}
    return row | {name: value for name, value in (evaluation.metrics if evaluation else {}).items() if name not in row}


def _state(view: JobView, round_: int) -> str:
    if round_ < view.final_rounds:
        return "final"
    return "optimistic" if round_ < view.completed_rounds else "unfinished" if view.over else "training"


def _root(view: JobView, round_: int) -> str:
    return "0x" + view.checkpoint_roots[round_].hex() if round_ in view.checkpoint_roots else ""
