"""Lies about every place of a claim, each before the contract, each convicted by one honest asker; and honest claims that survive.

    python -m tests.campaigns.lies --lies 5000 --honest 500 --seed 0

A lie is drawn (program, place, bit), and how it is disputed, always among sybils that ask for everything else: with or without
the bundle, after the liar explored a part of its own path and stopped, by an asker that keeps nothing between its calls. The asker
has all that it prepaid back; half of a heavy fee burns where silence convicted on a path of somebody else. Honest claims:
`hostile_plays`. Any lie that is not convicted, any honest claim that is, that is late, or that costs its operator anything, ends the
campaign with an error.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

import torch

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.trees import Trees
from node.hardware import use_threads
from repops.graph import BATCH_ROLE
from repops.operators import TABLE
from repops.parts import part_count
from tests.campaigns import hostile_plays
from tests.campaigns.hostile_plays import PLAYS
from tests.support.evm import Reverted
from tests.support.explorations.exploration_board import (
    PRICE,
    Between,
    Board,
    Played,
    aggregation_claim,
    deployed,
    dispute,
    training_claim,
    update_claim,
)
from tests.support.explorations.lying_jobs import (
    ROWS,
    Case,
    LeafOnly,
    LyingAggregation,
    LyingUpdate,
    Rule,
    case_of,
    mlp,
)
from tests.support.explorations.operator_table_jobs import sample
from tests.support.explorations.sybils import Sybils, explore_alone
from tests.support.programs import models
from tests.support.programs.table_programs import table
from zoo_compute.disputes.exploration import Call
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Kind, Phase

STEP = 3  # after it a segment ends
MOST_ASKS = 12
SYBILS = 100
WAYS = ("with the bundle", "without the bundle", "restarted", "self-asking", "erring friend")


@lru_cache
def gpt() -> Case:
    torch.manual_seed(0)
    module = models.GPT(width=8, heads=2, layers=1, context=6, dropout=0.1)
    return case_of(module, models.text(0, ROWS, 6), models.next_token, models.VOCABULARY)


@lru_cache
def conv() -> Case:
    torch.manual_seed(0)
    return case_of(models.ConvNet(), models.images(0, ROWS), torch.nn.functional.cross_entropy, 10)


@lru_cache
def lstm() -> Case:
    torch.manual_seed(0)
    return case_of(models.Recurrent(), models.text(0, ROWS, 4), models.next_token, models.VOCABULARY)


@lru_cache
def robust() -> Case:
    return mlp(rule=Rule("trimmed_mean", 1, "nearest"))


MODELS: tuple[Callable[[], Case], ...] = (mlp, gpt, conv, lstm)
_mine: dict[tuple[int, Kind], Trees] = {}


def honest_trees(case: Case, kind: Kind = Kind.TRAINING) -> Trees:
    """The asker's own, computed once a case."""
    key = id(case), kind
    if key not in _mine:
        _mine[key] = Trees(case.honest if kind == Kind.TRAINING else case.update)
    return _mine[key]


Drawn = tuple[Case, Disputed, Trees, Trees, str]  # the case, the claim, their trees, the asker's, and where it is false


@lru_cache
def operators() -> dict[str, list[tuple[str, int]]]:
    """Of each operator, (program, node) for all that the table has."""
    nodes: dict[str, list[tuple[str, int]]] = {}
    for name, (graph, _, _) in table().items():
        for at, node in enumerate(graph.nodes if graph.state else ()):
            if node.elements and not (node.op == "input" and node.attributes[0] == BATCH_ROLE):
                nodes.setdefault(node.op, []).append((name, at))
    assert nodes.keys() == TABLE.keys()
    return nodes


def lie_of_operator(rng: random.Random, op: str | None = None) -> Drawn:
    op = op or rng.choice(sorted(operators()))
    name, node = rng.choice(operators()[op])
    case = sample(name)
    liar: Any = case.lying()
    liar.elements, liar.bit = {(0, node): rng.randrange(case.graph.nodes[node].elements)}, rng.randrange(32)
    liar.states = {0: rng.randrange(len(case.graph.state))}
    return trained(case, Trees(liar), f"operator {op}")


def trained(case: Case, theirs: Trees, where: str) -> Drawn:
    return case, training_claim(case, theirs), theirs, honest_trees(case), where


def lie_of_node(rng: random.Random) -> Drawn:
    case = rng.choice(MODELS)()
    node = rng.choice([at for at, made in enumerate(case.graph.nodes) if made.elements])
    liar: Any = case.lying()
    liar.elements, liar.bit = {(STEP, node): rng.randrange(case.graph.nodes[node].elements)}, rng.randrange(32)
    liar.states = {STEP: rng.randrange(len(case.graph.state))}
    return trained(case, Trees(liar), "node of a model")


def lie_of_part(rng: random.Random) -> Drawn:
    case = rng.choice(MODELS)()
    nodes = [at for at, made in enumerate(case.graph.nodes) if made.elements and part_count(made) > 1]
    node = rng.choice(nodes)
    liar: Any = case.lying()
    liar.elements, liar.bit = {(STEP, node): rng.randrange(case.graph.nodes[node].elements)}, rng.randrange(31)
    liar.part, liar.states = rng.randrange(part_count(case.graph.nodes[node])), {STEP: 0}
    return trained(case, Trees(liar), "partial sum")


def lie_of_state(rng: random.Random) -> Drawn:
    case, liar = (made := rng.choice(MODELS)()), made.lying()
    step = rng.choice((-1, 1, 3, 4))
    liar.states = {step: rng.randrange(len(case.graph.state))}
    return trained(case, Trees(liar), "state at step 0" if step < 0 else "state after a step")


def lie_of_begin(rng: random.Random) -> Drawn:
    case, liar = (made := rng.choice(MODELS)()), made.lying()
    liar.begun = rng.choice(case.graph.state).name
    return trained(case, Trees(liar), "begun with another tensor")


def lie_of_end(rng: random.Random) -> Drawn:
    case = rng.choice(MODELS)()
    theirs = honest_trees(case)
    result = replace(case.result(theirs), end_root=sha256(rng.randbytes(8)).digest())
    return case, training_claim(case, theirs, result), theirs, theirs, "result's end"


def lie_of_hash(rng: random.Random) -> Drawn:
    """One hash of a tree has nothing below it; beyond the last leaf too."""
    phase = rng.choice((Phase.SEGMENTS, Phase.STEPS, Phase.NODES))
    case = mlp(inner_steps=4) if rng.random() < 0.3 else rng.choice(MODELS)()
    step = 3
    liar = case.lying()
    if phase != Phase.SEGMENTS:
        liar.states = {step: 0}
    leaves = {Phase.SEGMENTS: 4, Phase.STEPS: 4, Phase.NODES: 1 << (len(case.graph.nodes) - 1).bit_length()}
    theirs = LeafOnly(liar)
    place = rng.randrange(1 if phase == Phase.STEPS else 0, leaves[phase])
    theirs.place = (phase, 1 if phase == Phase.STEPS else place)
    return trained(case, theirs, f"hash of nothing in {phase.name.lower()}")


def lie_of_tensor(rng: random.Random) -> Drawn:
    """The trace has a tensor's root that its author has no words of."""
    case, liar = (made := rng.choice(MODELS)()), made.lying()
    liar.states = {STEP: 0}
    honest = liar.trace(STEP)
    node = rng.randrange(len(honest))
    false = [*honest[:node], sha256(b"another tensor").digest(), *honest[node + 1 :]]
    liar.trace = lambda step: false if step == STEP else type(liar).trace(liar, step)  # type: ignore[method-assign]
    return trained(case, Trees(liar), "tensor's root")


def lie_of_update(rng: random.Random) -> Drawn:
    case = mlp()
    liar: Any = LyingUpdate(case.honest)
    _draw_in_single_step(liar, rng)
    theirs = Trees(liar)
    return case, update_claim(case, theirs), theirs, honest_trees(case, Kind.UPDATE), "update"


def lie_of_aggregation(rng: random.Random) -> Drawn:
    case = rng.choice((mlp, robust))()
    liar: Any = case.aggregated(LyingAggregation)
    _draw_in_single_step(liar, rng)
    theirs = Trees(liar)
    about = aggregation_claim(case, theirs)
    return case, about, theirs, Trees(case.aggregated(claim=about.claim)), "aggregation"


def _draw_in_single_step(liar: Any, rng: random.Random) -> None:
    nodes = liar.graph.nodes
    if rng.random() < 0.2:
        liar.states = {0: rng.randrange(len(liar.graph.state))}
        return
    node = rng.choice([at for at, made in enumerate(nodes) if made.elements])
    liar.elements, liar.bit = {(0, node): rng.randrange(nodes[node].elements)}, rng.randrange(32)
    if rng.random() < 0.5:
        liar.states = {0: 0}


# How often each is drawn.
LIES: tuple[tuple[Callable[[random.Random], Drawn], int], ...] = (
    (lie_of_operator, 9),
    (lie_of_node, 4),
    (lie_of_part, 2),
    (lie_of_state, 2),
    (lie_of_begin, 1),
    (lie_of_end, 1),
    (lie_of_hash, 2),
    (lie_of_tensor, 1),
    (lie_of_update, 2),
    (lie_of_aggregation, 3),
)


def is_false(drawn: Drawn) -> bool:
    """Some bits are lost on the way, and some are the NaN that is committed anyway."""
    _, about, theirs, mine, where = drawn
    if where == "result's end":
        return True
    if about.kind == Kind.TRAINING:
        case = drawn[0]
        return case.result(theirs) != case.result(mine)
    return theirs.computation.after(0) != mine.computation.after(0)


def play_lie(drawn: Drawn, way: str, rng: random.Random, sybils: int = SYBILS) -> Played:
    """sybils: accounts that ask for everything else; 0: the asker is alone."""
    case, about, theirs, mine, _ = drawn
    result = about.result

    def others(answerer: Answerer) -> Between:
        crowd = Sybils(theirs, about, answerer, rng, sybils, each_time=8) if sybils else None
        special = _once(mine, about, answerer, rng.randrange(1, 5)) if way == "self-asking" else None
        special = _ask_first_children if way == "erring friend" else special

        def between(board: Board) -> None:
            for act in (special, crowd):
                if act and board.picture.end is None:
                    act(board)

        return between

    if way == "without the bundle":
        return dispute(case, replace(about, result=None, segments=()), theirs, mine, result=result, between=others)
    return dispute(case, about, theirs, mine, is_restarted=way == "restarted", between=others)


def _once(mine: Trees, about: Disputed, answerer: Answerer, calls: int) -> Between:
    """The liar explores its own false path so far, then stops: its last ask stays open, or is answered."""
    done: list[int] = []

    def between(board: Board) -> None:
        if not done:
            done.append(explore_alone(board, Asker(mine, about), answerer, calls))

    return between


def _ask_first_children(board: Board) -> None:
    """Somebody else asks for the first child of what was answered last, right or not."""
    for node in list(board.picture.nodes.values())[-2:]:
        if node.children and not node.position.shows_words and board.picture.end is None:
            try_ask(board, board.picture.ask(node, 0))


def try_ask(board: Board, call: Call) -> None:
    try:
        board.send(call, "friend")
    except Reverted:
        return


def survive(case: Case, kind: Kind, rng: random.Random, asks: int, play: str = PLAYS[0]) -> Counter[int]:
    """An honest claim among a hundred accounts. How often each kind of evidence was refused."""
    trees = {each: honest_trees(case, each) for each in (Kind.TRAINING, Kind.UPDATE)}
    return hostile_plays.survive(case, kind, rng, asks, trees, play=play)


def check_money(played: Played) -> str:
    """What the asker prepaid came back: all of it, or but half of a heavy ask that was on no convicting path."""
    coin, tokens = played.money
    assert coin == 0, f"the asker lost {-coin} of the coin"
    assert tokens == 0 or (played.end == End.SILENT and tokens == -(PRICE // 2)), f"the asker lost {-tokens} tokens"
    return (
        "asker has everything back" if tokens == 0 else "half of an asker's heavy fee burned: silence on another path"
    )


def run(lies: int, honest: int, seed: int, sybils: int = SYBILS, report: Callable[[str], None] = print) -> Counter[str]:
    """Raises AssertionError on the first that goes wrong; what was played, by place, way and end."""
    deployed()
    use_threads(1)
    rng, seen, start = random.Random(seed), Counter[str](), time.monotonic()
    draws = [draw for draw, weight in LIES for _ in range(weight)]
    ops = sorted(operators())
    while seen["lies"] < lies:
        number = seen["lies"]
        drawn = lie_of_operator(rng, ops[number]) if number < len(ops) else rng.choice(draws)(rng)
        if not is_false(drawn):
            seen["no lie: the bit is lost"] += 1
            continue
        way = WAYS[number % len(WAYS)]
        played = play_lie(drawn, way, rng, sybils)
        which = f"lie {number} ({drawn[4]}, {way}): {played.refused} {played.calls}"
        assert played.end in (End.JUDGED, End.SILENT), which
        assert played.asks <= MOST_ASKS, which
        ends = f"{drawn[4]}: {played.end.name.lower()}", f"way {way}", f"asks {played.asks}", check_money(played)
        seen.update(("lies", *ends))
        if seen["lies"] % 100 == 0:
            report(f"{seen['lies']} lies convicted, {time.monotonic() - start:.0f} s")
    for number in range(honest):
        kind = (Kind.TRAINING, Kind.UPDATE, Kind.AGGREGATION)[number % 3]
        cases = {Kind.TRAINING: MODELS, Kind.UPDATE: (mlp,), Kind.AGGREGATION: (mlp, robust)}[kind]
        case = cases[number // 3 % len(cases)]()
        play = PLAYS[number % len(PLAYS)]
        tried = survive(case, kind, rng, rng.randrange(3, 24), play)
        seen.update(("honest claims", f"hostile play: {play}"))
        seen.update({f"evidence {each} refused": count for each, count in tried.items()})
        if seen["honest claims"] % 50 == 0:
            report(f"{seen['honest claims']} honest claims survived, {time.monotonic() - start:.0f} s")
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lies", type=int, default=5000)
    parser.add_argument("--honest", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sybils", type=int, default=SYBILS, help="accounts among which a lie is disputed")
    given = parser.parse_args()
    seen = run(given.lies, given.honest, given.seed, given.sybils, lambda line: print(line, flush=True))
    for name, count in sorted(seen.items()):
        print(f"{count:8}  {name}")


if __name__ == "__main__":
    main()
