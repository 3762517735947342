"""Random explorations in step: right calls, bent ones, calls of other nodes and jumps to the clocks' boundaries."""

import random
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from tests.referee.exploration_driver import AHEAD_S, JOB
from tests.support.evm import chain
from tests.support.explorations.hashed_computation import noise
from zoo_compute.spec.disputed_claims import RESULT, claim_key
from zoo_compute.spec.exploration import Status, Tree
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim

STEPS = 150
FIRST = [
    ("bob", kind, slot, leaf)
    for kind, leaf in ((0, None), (0, 0), (0, 2), (0, 3), (1, None), (RESULT, None))
    for slot in (4, 5, 6)
]
FIRST.append(("carol", Kind.AGGREGATION, 0, None))


def bent(rng: random.Random, value: Any) -> Any:
    """The same with one thing changed; a claim stays, it has tests of its own."""
    if isinstance(value, Claim | bool):
        return value
    if isinstance(value, int):
        return rng.choice((value + 1, max(value - 1, 0), 0, 2**256 - 1))
    if isinstance(value, bytes):
        at = rng.randrange(len(value)) if value else 0
        return value[:at] + bytes([value[at] ^ 1 << rng.randrange(8)]) + value[at + 1 :] if value else value
    if isinstance(value, tuple):
        if not value or rng.random() < 0.3:
            return value[:-1] if value and rng.random() < 0.5 else (*value, noise("more"))[:4]
        at = rng.randrange(len(value))
        return (*value[:at], bent(rng, value[at]), *value[at + 1 :])
    if is_dataclass(value) and not isinstance(value, type):
        name = rng.choice([each.name for each in fields(value) if each.name not in ("entries", "nodes")])
        changed = bent(rng, getattr(value, name))
        return replace(value, **{name: changed})
    return value


def step(exploring, explorer, rng):
    """One call that could be right."""
    waiting = [id for id, each in explorer.known.items() if each[2] == Status.ASKED]
    answered = [
        id for id, each in explorer.known.items() if each[2] == Status.ANSWERED and each[1].position.tree != Tree.RESULT
    ]
    by = rng.choice(("dave", "dave", "eve", "mallory"))
    draw = rng.random()
    if draw < 0.15 or not explorer.known:
        explorer.first(*rng.choice(FIRST), by=by)
    elif draw < 0.5 and waiting:
        explorer.answer(rng.choice(waiting), by=rng.choice(("", "", "", "eve")))
    elif draw < 0.55 and waiting:
        id = rng.choice(waiting)
        name, node, _, _ = explorer.known[id]
        if rng.random() < 0.1:
            exploring.to(max(chain.timestamp, node.clocks.since + node.clocks.committer_left_s + rng.choice((0, 1))))
        exploring.call("expire", by, JOB, exploring.claims[name], id, node)
    elif draw < 0.56 and answered:
        id = rng.choice(answered)
        explorer.convict(id, rng.choice((None, 0)), by=by)
    elif draw < 0.62:
        exploring.call("close", by, JOB, exploring.claims[rng.choice(("bob", "carol"))])
    elif draw < 0.66 and explorer.known:
        id = rng.choice(list(explorer.known))
        _, node, status, _ = explorer.known[id]
        exploring.call("settle", by, (id,), (node,), (status,))
    elif answered:
        id = rng.choice(answered)
        _, node, _, frame = explorer.known[id]
        if node.position.shows_words and rng.random() < 0.5:
            explorer.ask_parts(id, rng.randrange(max(1, node.position.count)), by=by)
        elif frame.trace_root == node.root and rng.random() < 0.3:
            explorer.ask_state(id, by=by)
        else:
            span = node.position.height if node.position.shows_words else node.position.span
            explorer.ask(id, rng.randrange(1 << span), by=by)


def renew(exploring, explorer):
    """Of a resolved claim the next turn's is disputed."""
    for name in ("bob", "carol"):
        claim = exploring.claims[name]
        word = exploring.world.claims.get(claim_key(JOB, claim))
        if word and word.end:
            exploring.deadline = chain.timestamp + AHEAD_S
            exploring.keep(name, replace(claim, turn=claim.turn + 1), 3, exploring.deadline)
            explorer.known = {id: each for id, each in explorer.known.items() if each[0] != name}


def bent_call(exploring, explorer, rng):
    """A right answer or ask with one thing changed."""
    id = rng.choice(list(explorer.known))
    _, node, status, _ = explorer.known[id]
    if node.position.tree == Tree.RESULT:
        return
    if status == Status.ASKED:
        function, args = explorer.answer_args(id)
        value = 0
    else:
        function, value = "ask", 10**18
        span = node.position.height if node.position.shows_words else node.position.span
        args = explorer.ask_args(id, rng.randrange(1 << span))
    at = rng.randrange(2, len(args))
    stage_changes = {2: 9, 3: replace(explorer.known[id][3], step=99)}  # data of another kind is not decoded
    change = stage_changes.get(at) if function == "answer_stage" else None
    change = change or bent(rng, args[at])
    exploring.call(
        function, "hot" if status == Status.ASKED else "dave", *args[:at], change, *args[at + 1 :], value=value
    )


@pytest.mark.parametrize("seed", range(6))
def test_random_explorations__agree_with_the_specification_at_every_call(exploring, explorer, seed):
    rng = random.Random(seed)
    accepted = 0
    for _ in range(STEPS):
        exploring.base_fee = rng.choice((0, 10**9, 10**11))
        exploring.set_parts(rng.choice((1, 3, 128, 129, 700)))
        if rng.random() < 0.1:
            exploring.wait(rng.choice((1, 1_799, 1_800, 5_000)))
        if rng.random() < 0.2:
            renew(exploring, explorer)
        try:
            if explorer.known and rng.random() < 0.15:
                bent_call(exploring, explorer, rng)
            else:
                step(exploring, explorer, rng)
                accepted += 1
        except Refused:
            pass
    assert accepted > 30, exploring.reasons
