"""How long askers keep a true claim open, and what that costs them, whatever their number. For benchmarks/disputes/dispute.py.

delays_s: measured with 1, 10 and 100 accounts before the contract on revm. All ask in the deadline's second, the committer answers
everything in its last second, and nobody asks again. delay_bound_s: the longest that any play takes (docs/design/clocks.md).
attack_cost_per_hour: of one path, and of one that waits behind as many heavy asks as a path counts; at a base fee of 1 gwei,
coin in ether, `prices` in re-executions. What asks prepay is lost to the committer when the claim is final.
"""

from __future__ import annotations

from typing import Any

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker
from node.disputes.trees import Trees
from tests.support.evm import chain
from tests.support.explorations.exploration_board import REEXECUTE_S, Board, board_of, training_claim
from tests.support.explorations.lying_jobs import mlp
from zoo_compute.disputes.exploration import Call, Opened, values
from zoo_compute.spec import clock_costs, clocks
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.exploration import segments_position
from zoo_compute.spec.frames import Kind

ASKERS = (1, 10, 100)
LAST_SEGMENT = 3  # of one step: a heavy ask
BASE_FEE = 10**9


def delays(pairs: int, answer_gas: int) -> dict[str, Any]:
    """pairs, answer_gas: of the longest path and of its dearest call."""
    return {
        "delay_bound_s": clocks.bound_s(REEXECUTE_S, PRODUCTION),
        "delays_s": {str(askers): delay_of(askers) for askers in ASKERS},
        "attack_cost_per_hour": {
            "one path": _per_hour(pairs, 0, answer_gas),
            "behind 32 heavy asks": _per_hour(pairs, PRODUCTION.counted_reexecutions, answer_gas),
        },
        "reexecute_s": REEXECUTE_S,
    }


def _per_hour(pairs: int, heavy: int, answer_gas: int) -> dict[str, float]:
    cost = clock_costs.attack_cost(pairs, heavy, answer_gas, BASE_FEE, 10**6)
    delayed_s = clock_costs.delay_s(PRODUCTION.committer_s, heavy, 1, REEXECUTE_S, PRODUCTION)
    each = clock_costs.attack_cost_per_hour(cost, delayed_s)
    return {"coin": each.coin / 10**18, "prices": each.token / 10**6}


def delay_of(askers: int) -> int:
    """Seconds after its deadline up to which a true claim is not final, with so many accounts asking at the deadline."""
    case = mlp()
    trees = Trees(case.honest)
    about = training_claim(case, trees)
    assert about.result
    results = {about.slot: about.result}
    answerer = Answerer(about.claim, lambda kind, slot: trees, PRODUCTION, result_of=results.get, is_author=True)
    with board_of(case, about.claim) as board:
        deadline = chain.timestamp = board.deadline
        root = segments_position(case.inner_steps, case.segment_steps)
        ask = Asker(trees, about)._ask_claim(board.picture, Kind.TRAINING, about.result, root)
        trace = _answered(board, answerer, _answered(board, answerer, ask), LAST_SEGMENT)
        assert trace.record.payment.is_heavy
        _ask_below(board, answerer, trace, askers)
        chain.timestamp = board.picture.open_asks[0].due
        assert board.answers(answerer) == askers
        last = max(clocks.asks_end(each.record.clocks, deadline) for each in board.picture.nodes.values())
        chain.timestamp = last + 1
        board.send(Call("close", (about.job, values(about.claim))), "anyone")
        assert board.picture.end == End.FINAL
        return last - deadline


def _answered(board: Board, answerer: Answerer, ask: Call | Opened, place: int = 0) -> Opened:
    """What the ask, or the child of a node, leads to."""
    board.send(board.picture.ask(ask, place) if isinstance(ask, Opened) else ask, "asker 0")
    board.answers(answerer)
    return list(board.picture.nodes.values())[-1]


def _ask_below(board: Board, answerer: Answerer, trace: Opened, askers: int) -> None:
    """Each account asks for another place; what lies above is asked for before, and answered at once."""
    left = _places_below(trace)
    while len(left) < askers:
        left += _places_below(_answered(board, answerer, *left.pop(0)))
    for number, (node, place) in enumerate(left[:askers]):
        board.send(board.picture.ask(node, place), f"asker {number}")


def _places_below(node: Opened) -> list[tuple[Opened, int]]:
    places = range(len(node.children))
    return [(node, place) for place in places if node.child(place)[0].is_askable(node.children[place])]
