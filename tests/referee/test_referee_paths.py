"""Whole paths of an exploration, each call in step with the specification."""

from dataclasses import replace

import pytest

from tests.referee.exploration_driver import JOB
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import RESULT, claim_key
from zoo_compute.spec.exploration import Status, Tree
from zoo_compute.spec.frames import Kind


def ended(exploring, name="bob"):
    return exploring.world.claims[claim_key(JOB, exploring.claims[name])].end


@pytest.mark.parametrize("leaf", [None, 2])
def test_path__from_the_claim_to_one_part__convicts(exploring, explorer, leaf):
    exploring.set_parts(700)
    id = explorer.first("bob", slot=5, leaf=leaf)
    if leaf is None:
        id = explorer.down(id, 2)
    id = explorer.down(explorer.answer(id), 3)
    id = explorer.down(explorer.answer(id), 3)
    shown = explorer.down(explorer.answer(id), 10)
    parts = explorer.ask_parts(shown, 128 * 10 + 5)
    part = explorer.down(explorer.answer(parts), 4)
    explorer.convict(part, child=0)
    assert ended(exploring) == End.JUDGED
    assert set(exploring.reasons) == {""}


@pytest.mark.parametrize("leaf", [None, 0])
def test_path__to_the_state_at_step_0__convicts_at_an_entry_that_nobody_is_asked_for(exploring, explorer, leaf):
    id = explorer.first("bob", leaf=leaf)
    if leaf is None:
        id = explorer.down(id, 0)
    state = explorer.answer(id)
    exploring.no("referee: nothing to answer", "ask", "dave", *explorer.ask_args(state, 1), value=10**18)
    explorer.convict(state, child=1)
    assert ended(exploring) == End.JUDGED


@pytest.mark.parametrize(("name", "kind"), [("bob", Kind.UPDATE), ("carol", Kind.AGGREGATION)])
def test_path__of_an_update_and_an_aggregation__begins_at_the_trace(exploring, explorer, name, kind):
    slot = 0 if name == "carol" else 6
    trace = explorer.answer(explorer.first(name, kind, slot))
    node = explorer.answer(explorer.down(trace, 0))
    assert explorer.known[node][1].position.shows_words == (kind == Kind.UPDATE)
    state = explorer.ask_state(trace)
    if kind == Kind.UPDATE:  # its state has one entry
        assert explorer.known[state][2] == Status.ANSWERED
        explorer.convict(state)
    else:
        explorer.convict(explorer.answer(state), child=16)
    assert ended(exploring, name) == End.JUDGED


def test_result__that_the_bundle_does_not_show__is_asked_for_and_answered_by_anybody(exploring, explorer):
    id = explorer.first("bob", RESULT, 5)
    exploring.wait(1_800)
    explorer.answer(id, by="eve")
    assert explorer.known[id][1].position.tree == Tree.RESULT
    exploring.no("referee: not here", "ask", "dave", id, explorer.known[id][1], 0, exploring.claims["bob"].root, ())


def test_segment__of_one_step__leads_to_its_trace_and_is_heavy_on_both_ways(exploring, explorer):
    """Seven steps in segments of three: the last has one."""
    shown = explorer.first("bob", leaf=3)
    assert explorer.known[shown][1].payment.is_heavy
    explorer.answer(shown)
    assert explorer.known[shown][1].position.tree == Tree.NODES
    other = explorer.down(explorer.first("bob", slot=6), 3)
    assert explorer.known[other][1].payment.is_heavy


def test_segment_leaf__shown_and_reached__has_one_id(exploring, explorer):
    root = explorer.answer(explorer.first("bob"))
    explorer.first("bob", leaf=2)
    exploring.no("referee: asked already", "ask", "eve", *explorer.ask_args(root, 2), value=10**18)
    reached = explorer.ask(root, 1)
    args = explorer.first_args("bob", 0, 4, 1)
    exploring.no("referee: asked already", "ask_claim", "eve", *args, value=10**18)
    assert explorer.known[reached][1].position.height == 0


def test_padding__alone_under_a_node_of_words__is_answered_with_no_bytes(exploring, explorer):
    """Twenty-one leaves stand in a tree of thirty-two: the last eleven are padding."""
    trace = explorer.answer(explorer.first("bob", leaf=3))
    elements = explorer.answer(explorer.down(trace, 3))
    exploring.no("referee: nothing to answer", "ask", "dave", *explorer.ask_args(elements, 31), value=10**18)
    exploring.set_parts(128 * 129)
    leaf = explorer.ask(elements, 0)
    parts = explorer.answer(explorer.ask_parts(explorer.answer(leaf), 7))
    assert explorer.known[parts][1].position.height == 8  # 129 leaves: the last two levels are shown together
    padding = explorer.ask(parts, 60)
    assert explorer.known[padding][1].position.shows_words
    assert explorer.words(padding) == b""
    explorer.answer(padding)
    exploring.no("referee: no such leaf", "judge", "dave", *explorer.judge_args(padding, 0))
    last = explorer.answer(explorer.ask(parts, 32))
    assert len(explorer.words(last)) == 512
    explorer.convict(last, child=0)


def test_padding__of_a_tree_of_leaves__is_not_askable_and_another_hash_there_is(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    below = explorer.answer(explorer.ask(trace, 8))
    args = explorer.ask_args(below, 7)  # node 71 of 70
    exploring.no("referee: nothing to answer", "ask", "dave", *args, value=10**18)
    exploring.no("referee: no such leaf", "judge", "dave", *explorer.judge_args(below, 7))


def test_steps__leaf_0__is_not_askable(exploring, explorer):
    steps = explorer.answer(explorer.first("bob", leaf=1))
    exploring.no("referee: nothing to answer", "ask", "dave", *explorer.ask_args(steps, 0), value=10**18)


def test_second_challenger__of_an_explored_lie__needs_one_call(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    shown = explorer.answer(explorer.down(trace, 2))
    explorer.convict(shown, child=1, by="eve")
    exploring.no("referee: not pending", "judge", "dave", *explorer.judge_args(shown, 1))


def test_node__whose_record_is_changed__is_another(exploring, explorer):
    root = explorer.answer(explorer.first("bob"))
    node = explorer.known[root][1]
    _, _, *rest = explorer.ask_args(root, 1)
    changes = (
        {"root": bytes(32)},
        {"answerer": exploring.accounts["eve"]},
        {"clocks": replace(node.clocks, asker_left_s=9)},
    )
    for change in changes:
        exploring.no("referee: other node", "ask", "dave", root, replace(node, **change), *rest, value=10**18)
    exploring.no("referee: other node", "ask", "dave", bytes(32), node, *rest, value=10**18)
