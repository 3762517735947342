"""Every refusal of Referee and Descent, in step with the specification; the last test counts them."""

import re
from dataclasses import replace

import pytest

from tests.referee.exploration_driver import JOB, TRAINER
from tests.support.explorations.exploration_moves import NO_STATES
from tests.support.explorations.hashed_computation import TRAINING, UPDATE, WORK, Tree, noise
from tests.support.sources import CONTRACTS
from zoo_compute.spec import merkle
from zoo_compute.spec.clocks import PRODUCTION
from zoo_compute.spec.descents import Answer, ResultAnswer
from zoo_compute.spec.disputed_claims import RESULT, claim_key, unit_of
from zoo_compute.spec.exploration import path_id, segment_id
from zoo_compute.spec.frames import EMPTY, Kind, Program, Result
from zoo_compute.spec.params import COIN
from zoo_compute.spec.verdicts import sealed

MUCH = 10**18
OTHER_PROGRAM = Program(bytes(20), EMPTY, EMPTY)


def refused(exploring, cause, function, by, *args, value=0):
    exploring.no(f"referee: {cause}", function, by, *args, value=value)


def changed(args, at, value):
    return (*args[:at], value, *args[at + 1 :])


def test_ask_claim__of_what_is_not_the_claims__is_refused(exploring, explorer):
    args = explorer.first_args("bob", 0, 5, 2)

    def no(cause, **changes):
        at = {"job": 0, "claim": 1, "kind": 2, "slot": 3, "work": 4, "result": 5, "index": 6, "states": 7, "path": 8}
        bent = args
        for name, value in changes.items():
            bent = changed(bent, at[name], value)
        refused(exploring, cause, "ask_claim", "dave", *bent, value=MUCH)

    no("not of this kind", kind=Kind.AGGREGATION)
    no("not of this kind", kind=4)
    no("not of this kind", kind=Kind.UPDATE, job=0)
    no("not of this kind", claim=exploring.claims["carol"])
    exploring.no("settlement: no such claim", "ask_claim", "dave", *changed(args, 0, 2), value=MUCH)
    no("work does not match", work=replace(WORK, inner_steps=8))
    no("work does not match", work=replace(WORK, segment_steps=0))
    for slot in (3, 7, 2**256 - 1):
        no("no such slot", slot=slot)
    no("result does not match", result=replace(args[5], end_root=EMPTY))
    no("result does not match", slot=4)
    no("states do not match", index=1)
    no("states do not match", index=4)
    no("states do not match", path=args[8][:-1])
    states = args[7]
    for change in ({"after": EMPTY}, {"before": EMPTY}, {"path": states.path[:-1]}, {"path": (*states.path, EMPTY)}):
        no("states do not match", states=replace(states, **change))
    no("no such slot", kind=RESULT, slot=3)
    carol = explorer.first_args("carol", Kind.AGGREGATION, 0)
    refused(exploring, "no such slot", "ask_claim", "dave", *changed(carol, 3, 1), value=MUCH)
    refused(exploring, "fee too small", "ask_claim", "dave", *args, value=explorer.fee("bob", at_leaf()) - 1)
    explorer.first("bob", slot=5, leaf=2)


def test_ask_claim__of_an_aggregator_that_the_work_has_no_program_of__is_refused(exploring, explorer):
    second = replace(exploring.claims["carol"], seat=129)
    exploring.keep("carol", second, 1, exploring.deadline)
    refused(
        exploring,
        "no such program",
        "ask_claim",
        "dave",
        *explorer.first_args("carol", Kind.AGGREGATION, 0),
        value=MUCH,
    )


def at_leaf():
    from zoo_compute.spec.exploration import segments_position

    return segments_position(7, 3, 2)


def test_ask_claim__after_the_deadline__is_refused_and_in_its_last_second_not(exploring, explorer):
    exploring.to(exploring.deadline)
    explorer.first("bob")
    exploring.to(exploring.deadline + 1)
    for slot in (4, 5):
        refused(exploring, "window closed", "ask_claim", "dave", *explorer.first_args("bob", 0, slot, 2), value=MUCH)


@pytest.mark.parametrize(("field", "bits"), [("turn", 20), ("operator", 28)])
def test_ask_claim__with_a_number_that_its_word_cannot_keep__is_refused(exploring, explorer, field, bits):
    claim = replace(exploring.claims["bob"], **{field: 2**bits})
    exploring.keep("bob", claim, 3, 0)
    account = exploring.accounts["dave"]
    from tests.support.evm import Reverted
    from tests.support.lockstep.referee_records import plain

    args = [plain(each) for each in explorer.first_args("bob", 0, 5, 2)]
    with pytest.raises(Reverted, match="referee: too large"):
        exploring.contract.ask_claim(*args, sender=account, value=MUCH)


def test_ask__of_no_child_or_of_what_is_not_answered__is_refused(exploring, explorer):
    root = explorer.first("bob")
    node = explorer.known[root][1]
    refused(exploring, "other node", "ask", "dave", root, node, 0, EMPTY, (), value=MUCH)
    explorer.answer(root)
    args = explorer.ask_args(root, 2)
    refused(exploring, "not that child", "ask", "dave", *changed(args, 2, 1), value=MUCH)
    refused(exploring, "not that child", "ask", "dave", *changed(args, 2, 4 + 2), value=MUCH)
    refused(exploring, "not that child", "ask", "dave", *changed(args, 4, args[4][:-1]), value=MUCH)
    refused(exploring, "fee too small", "ask", "dave", *args, value=1)
    leaf = explorer.ask(root, 3)
    refused(exploring, "asked already", "ask", "eve", *explorer.ask_args(root, 3), value=MUCH)
    shown = explorer.answer(explorer.down(explorer.answer(leaf), 2))
    refused(exploring, "not here", "ask", "dave", *explorer.ask_args(shown, 1), value=MUCH)


def test_ask__whose_token_is_refused__changes_nothing(exploring, explorer):
    steps = explorer.answer(explorer.first("bob", leaf=1))
    exploring.refuse_transfers()
    refused(exploring, "transfer failed", "ask", "dave", *explorer.ask_args(steps, 2), value=MUCH)


def test_ask_stage__away_from_its_place__is_refused(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    _, node, _, frame = explorer.known[trace]
    program = TRAINING.opened
    stage = ("ask_stage", "dave")
    refused(exploring, "other frame", *stage, trace, node, 1, replace(frame, step=1), program, value=MUCH)
    refused(exploring, "other program", *stage, trace, node, 1, frame, OTHER_PROGRAM, value=MUCH)
    refused(exploring, "not here", *stage, trace, node, 3, frame, program, value=MUCH)
    refused(exploring, "other frame", *stage, trace, node, 3, replace(frame, step=1), program, value=MUCH)
    shown = explorer.answer(explorer.down(trace, 2))
    node, frame = explorer.known[shown][1], explorer.known[shown][3]
    refused(exploring, "not here", *stage, shown, node, 1, frame, program, value=MUCH)
    args = explorer.element_args(shown, 129)
    refused(exploring, "not here", *stage, *changed(changed(explorer.element_args(shown, 129), 0, trace), 1, explorer.known[trace][1])[:3],
            explorer.known[trace][3], args[4], value=MUCH)  # fmt: skip
    given = args[4]
    bent = {
        "other descriptor": ({"descriptor": TRAINING.descriptor(8)},),
        "no such element": (
            {"element": 127}, {"element": 300}, {"element": 2**255}, {"leaf": EMPTY}, {"path": given.path[:-1]},
        ),
    }  # fmt: skip
    for cause, changes in bent.items():
        for change in changes:
            refused(exploring, cause, *stage, *changed(args, 4, replace(given, **change)), value=MUCH)
    exploring.set_parts(1)
    refused(exploring, "one part", *stage, *args, value=MUCH)
    exploring.set_parts(2**48)
    refused(exploring, "too many elements", *stage, *args, value=MUCH)
    exploring.set_parts(3)
    explorer.ask_parts(shown, 129)
    refused(exploring, "asked already", *stage, *args, value=MUCH)


def test_ask_stage__of_a_state_of_one_entry__takes_no_coin_and_is_there_once(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", Kind.UPDATE, 4))
    _, node, _, frame = explorer.known[trace]
    args = (trace, node, 1, frame, UPDATE.opened)
    refused(exploring, "nothing to answer", "ask_stage", "dave", *args, value=1)
    explorer.ask_state(trace)
    refused(exploring, "asked already", "ask_stage", "dave", *args)
    other = explorer.answer(explorer.first("bob", Kind.UPDATE, 5))
    explorer.convict(explorer.answer(explorer.ask(other, 0)), 0)
    _, node, _, frame = explorer.known[other]
    refused(exploring, "not pending", "ask_stage", "dave", other, node, 1, frame, UPDATE.opened)


def test_answer__that_does_not_match__is_refused(exploring, explorer):
    root = explorer.first("bob")
    _, (id, node, children) = explorer.answer_args(root)
    for false in (children[:-1], children[::-1], (), children * 2):
        refused(exploring, "children do not match", "answer", "hot", id, node, false)
    refused(exploring, "bytes do not match", "answer_words", "hot", id, node, b"")
    explorer.answer(root)
    refused(exploring, "other node", "answer", "hot", id, node, children)
    leaf = explorer.ask(root, 3)
    refused(exploring, "not here", "answer", "hot", leaf, explorer.known[leaf][1], (explorer.known[leaf][1].root,))


def test_words__of_another_length_or_hash__are_refused(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    elements = explorer.answer(explorer.down(trace, 3))
    leaf = explorer.ask(elements, 20)
    data, node = explorer.words(leaf), explorer.known[leaf][1]
    assert len(data) == 4 * (2580 - 2560)
    for false in (b"", data[:-1], data + b"\0", bytes(len(data)), data.ljust(512, b"\0")):
        refused(exploring, "bytes do not match", "answer_words", "hot", leaf, node, false)
    explorer.answer(leaf)


def test_stage__of_another_kind_or_frame_or_program__is_refused(exploring, explorer):
    segment = explorer.first("bob", leaf=2)
    _, args = explorer.answer_args(segment)
    frame = args[3]
    refused(exploring, "other frame", "answer_stage", "hot", *changed(args, 3, replace(frame, rows=9)))
    refused(exploring, "not here", "answer_stage", "hot", *changed(args, 2, 8))
    refused(exploring, "other frame", "answer_stage", "hot", *changed(changed(args, 2, 0), 3, replace(frame, rows=9)))
    answers = {int(args[2]): args[4]}
    begin = explorer.first("bob", leaf=0)
    one = explorer.first("bob", leaf=3)
    trace = explorer.first("bob", Kind.UPDATE, 4)
    result = explorer.first("bob", RESULT, 4)
    for id in (begin, one, trace, result):
        _, (_, _, kind, _, data) = explorer.answer_args(id)
        answers[kind] = data
    node = explorer.down(explorer.answer(one), 2)
    answers[2] = explorer.answer_args(node)[1][4]
    parts = explorer.ask_parts(explorer.answer(node), 5)
    answers[7] = explorer.answer_args(parts)[1][4]
    assert sorted(answers) == [int(each) for each in Answer]
    for id, right in ((segment, 4), (begin, 1), (trace, 6), (result, 3), (parts, 7)):
        args = explorer.answer_args(id)[1]
        for kind, data in answers.items():
            if kind == right or (id == segment and kind == 5):
                continue
            refused(exploring, "not here", "answer_stage", "hot", *changed(changed(args, 2, kind), 4, data))
    refused(
        exploring,
        "several steps",
        "answer_stage",
        "hot",
        *changed(changed(explorer.answer_args(segment)[1], 2, 5), 4, answers[5]),
    )
    other = explorer.first("bob", slot=5, leaf=3)
    args = explorer.answer_args(other)[1]
    refused(exploring, "one step", "answer_stage", "hot", *changed(changed(args, 2, 4), 4, answers[4]))
    for id in (begin, trace):
        args = explorer.answer_args(id)[1]
        data = replace(args[4], program=OTHER_PROGRAM)
        refused(exploring, "other program", "answer_stage", "hot", *changed(args, 4, data))
        refused(
            exploring, "children do not match", "answer_stage", "hot", *changed(args, 4, replace(args[4], children=()))
        )


def test_stage__whose_states_or_steps_do_not_match__is_refused(exploring, explorer):
    reached = explorer.down(explorer.first("bob"), 2)
    shown = explorer.first("bob", slot=5, leaf=2)
    begin = explorer.first("bob", leaf=0)
    args = explorer.answer_args(reached)[1]
    data = args[4]

    def no(cause, id, **changes):
        args = explorer.answer_args(id)[1]
        refused(exploring, cause, "answer_stage", "hot", *changed(args, 4, replace(args[4], **changes)))

    for change in (
        {"before": EMPTY},
        {"after": EMPTY},
        {"path": data.states.path[:-1]},
        {"path": (*data.states.path, EMPTY)},
    ):
        no("states do not match", reached, states=replace(data.states, **change))
    no("states do not match", begin, root=noise("other"))
    for id in (reached, shown):
        steps = explorer.answer_args(id)[1][4].steps
        for change in ({"root": EMPTY}, {"first_path": ()}, {"last_path": ()}, {"last_path": steps.first_path}):
            no("steps do not match", id, steps=replace(steps, **change))
        no("children do not match", id, steps=replace(steps, children=steps.children[:-1]))
        explorer.answer(id)
    step = explorer.down(reached, 2)
    args = explorer.answer_args(step)[1]
    for change in ({"before": EMPTY}, {"after": EMPTY}, {"path": ()}):
        no("states do not match", step, states=replace(args[4].states, **change))
    no("other program", step, trace=replace(args[4].trace, program=OTHER_PROGRAM))
    explorer.answer(step)


def test_result__of_another_claim_or_result__is_refused(exploring, explorer):
    id = explorer.first("bob", RESULT, 5)
    args = explorer.answer_args(id)[1]
    given = args[4]
    other = replace(given, claim=exploring.claims["carol"])
    refused(exploring, "other claim", "answer_stage", "hot", *changed(args, 4, other))
    bent = replace(given, result=replace(given.result, end_root=EMPTY))
    refused(exploring, "result does not match", "answer_stage", "hot", *changed(args, 4, bent))
    explorer.answer(id)


def test_result__of_a_root_that_has_two_for_a_slot__is_the_one_at_the_height_of_the_claims_tree(exploring, explorer):
    """A committer puts an inner node over another result of slot 5 where slot 4's belongs."""
    claim, side = exploring.claims["bob"], exploring.sides["bob", 5]
    one, other = side.result, replace(side.result, update_root=noise("another update"))
    leaf = [
        merkle.result_root(5, claim.start_root, each.segment_root, each.end_root, each.update_root)
        for each in (one, other)
    ]
    inner = Tree((noise("nothing"), leaf[1])).root
    root = Tree((inner, leaf[0], noise("slot 6")))
    exploring.keep("bob", replace(claim, root=root.root), 3, exploring.deadline)
    one = replace(one, path=root.path(1))
    other = replace(other, path=(noise("nothing"), leaf[0], root.path(1)[1]))
    assert merkle.climb(leaf[1], 1, other.path) == root.root
    args = (JOB, exploring.claims["bob"], 1, 5, WORK)
    nothing = (0, NO_STATES, ())
    refused(exploring, "result does not match", "ask_claim", "dave", *args, other, *nothing, value=MUCH)
    exploring.call("ask_claim", "dave", *args, one, *nothing, value=MUCH)
    id, node, frame = exploring.call("ask_claim", "dave", *args[:2], RESULT, *args[3:], Result(), *nothing, value=MUCH)
    shown = (id, node, int(Answer.RESULT), frame)
    refused(
        exploring, "result does not match", "answer_stage", "hot", *shown, ResultAnswer(exploring.claims["bob"], other)
    )
    exploring.call("answer_stage", "hot", *shown, ResultAnswer(exploring.claims["bob"], one))


@pytest.mark.parametrize("node", [2, 3])
def test_node__of_another_descriptor_or_tensor__is_refused(exploring, explorer, node):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    id = explorer.down(trace, node)
    args = explorer.answer_args(id)[1]
    given = args[4]
    for cause, change in (
        ("other program", {"program": OTHER_PROGRAM}),
        ("other descriptor", {"descriptor": TRAINING.descriptor(node + 6)}),
        ("other descriptor", {"path": given.path[:-1]}),
        ("other descriptor", {"path": (*given.path, EMPTY)}),
        ("tensor does not match", {"elements_root": EMPTY}),
        ("children do not match", {"children": given.children[:-1]})
        if node == 3
        else ("bytes do not match", {"words": b""}),
    ):
        refused(exploring, cause, "answer_stage", "hot", *changed(args, 4, replace(given, **change)))
    explorer.answer(id)


@pytest.mark.parametrize("parts", [3, 512, 700])
def test_parts__whose_last_is_not_the_element__are_refused(exploring, explorer, parts):
    exploring.set_parts(parts)
    shown = explorer.answer(explorer.down(explorer.answer(explorer.first("bob", leaf=3)), 2))
    id = explorer.ask_parts(shown, 129)
    args = explorer.answer_args(id)[1]
    given, is_tree = args[4], parts == 700
    refused(exploring, "not the committer", "answer_stage", "eve", *args)
    refused(exploring, "bytes do not match", "answer_stage", "hot", *changed(args, 4, replace(given, leaf=bytes(512))))
    last = given.last[:-4] + b"\1\2\3\4"
    changes = [("parts do not match", {"last": each}) for each in (b"", given.last[:-4], last)] if is_tree else []
    if is_tree:
        changes += [("parts do not match", {"path": given.path[:-1]}), ("parts do not match", {"root": noise("other")})]
        other = Tree((*(noise(each) for each in range(5)), noise_leaf(last)))
        changes.append(("parts do not match", {"root": other.root, "last": last, "path": other.path(5)}))
    else:
        changes += [("bytes do not match", {"words": b""}), ("bytes do not match", {"root": noise("other")})]
        changes.append(("parts do not match", {"words": given.words[:-4] + b"\1\2\3\4"}))
    for cause, change in changes:
        refused(exploring, cause, "answer_stage", "hot", *changed(args, 4, replace(given, **change)))
    explorer.answer(id)


def noise_leaf(data):
    from hashlib import sha256

    return sha256(b"\0" + data).digest()


def test_answers__of_strangers__are_theirs_after_a_while_and_what_is_new_is_the_hot_keys(exploring, explorer):
    early, root, trace = explorer.first("bob", slot=6), explorer.first("bob"), explorer.first("bob", Kind.UPDATE, 5)
    exploring.wait(PRODUCTION.exclusive_s - 1)
    explorer.answer(early, by="eve")
    assert explorer.known[early][1].answerer == COIN  # nobody: the owner is paid
    exploring.wait(1)
    explorer.answer(root, by="eve")
    assert explorer.known[root][1].answerer == exploring.accounts["eve"]
    function, args = explorer.answer_args(trace)
    exploring.wait(PRODUCTION.committer_s - PRODUCTION.exclusive_s)
    refused(exploring, "not the committer", function, "eve", *args)
    explorer.answer(trace)


def test_answer__by_an_answer_key__is_the_authors(exploring, explorer):
    trace = explorer.first("bob", Kind.UPDATE, 5)
    function, args = explorer.answer_args(trace)
    exploring.court.answer_keys[TRAINER] = exploring.accounts["eve"]
    exploring.double.allow_answers(TRAINER, exploring.accounts["eve"])
    refused(exploring, "not the committer", function, "dave", *args)
    explorer.answer(trace, by="eve")
    assert explorer.known[trace][1].answerer == COIN  # nobody: the owner is paid


def test_answer__in_the_last_second__is_in_time_and_from_the_next_on_silence_convicts(exploring, explorer):
    root = explorer.first("bob")
    clocks = explorer.known[root][1].clocks
    last = clocks.since + clocks.committer_left_s
    bob = JOB, exploring.claims["bob"], root, explorer.known[root][1]
    exploring.to(last)
    refused(exploring, "time left", "expire", "eve", *bob)
    with exploring.fork() as late:
        late.to(last + 1)
        function, args = explorer.answer_args(root)
        refused(late, "out of time", function, "hot", *args)
        refused(late, "other claim", "expire", "eve", JOB, late.claims["carol"], root, bob[3])
        late.call("expire", "eve", *bob)
        refused(late, "not pending", "expire", "eve", *bob)
    explorer.answer(root)
    refused(exploring, "other node", "expire", "eve", *bob)


def test_ask__after_the_askers_time__is_refused(exploring, explorer):
    root = explorer.answer(explorer.first("bob"))
    exploring.to(exploring.deadline + PRODUCTION.asker_s)
    with exploring.fork() as late:
        late.wait(1)
        refused(late, "askers out of time", "ask", "dave", *explorer.ask_args(root, 2), value=MUCH)
        refused(late, "final", "judge", "dave", *explorer.judge_args(root, 2))
    explorer.ask(root, 2)


def test_judge__of_other_evidence_frame_claim_or_place__is_refused(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    asked = explorer.ask(trace, 0)
    shown = explorer.answer(explorer.down(asked, 2))
    args = explorer.judge_args(shown, 1)
    job, claim, frame, place, kind, data = args
    exploring.no("evidence: it does not hold", "judge", "dave", job, claim, frame, place, kind + 1, data)
    refused(exploring, "other frame", "judge", "dave", job, claim, replace(frame, node=9), place, kind, data)
    refused(exploring, "other claim", "judge", "dave", job, exploring.claims["carol"], frame, place, kind, data)
    refused(exploring, "other node", "judge", "dave", job, claim, frame, replace(place, status=1), kind, data)
    refused(exploring, "not that child", "judge", "dave", job, claim, frame, replace(place, number=0), kind, data)
    refused(exploring, "not that child", "judge", "dave", job, claim, frame, replace(place, path=()), kind, data)
    beyond = explorer.answer(explorer.ask(trace, 8))
    refused(exploring, "no such leaf", "judge", "dave", *explorer.judge_args(beyond, 7))
    waiting = explorer.ask(trace, 3)
    bent = replace(explorer.place(waiting), is_child=True)
    frame = explorer.known[waiting][3]
    refused(exploring, "not answered", "judge", "dave", job, claim, frame, bent, kind, data)
    exploring.call("judge", "eve", *args)
    function, args = explorer.answer_args(waiting)
    refused(exploring, "not pending", function, "hot", *args)
    refused(exploring, "not pending", "ask", "dave", *explorer.ask_args(trace, 4), value=MUCH)


def test_close_settle_withdraw__before_their_time__are_refused(exploring, explorer):
    bob = JOB, exploring.claims["bob"]
    refused(exploring, "not pending", "close", "eve", *bob)
    root = explorer.first("bob")
    refused(exploring, "not final", "close", "eve", *bob)
    refused(exploring, "not resolved", "settle", "eve", (root,), (explorer.known[root][1],), (1,))
    refused(exploring, "other node", "settle", "eve", (root,), (explorer.known[root][1],), (2,))
    refused(exploring, "other node", "settle", "eve", (root,), (), ())
    refused(exploring, "nothing owed", "withdraw", "eve", COIN, exploring.accounts["dave"])
    explorer.answer(root)
    exploring.to(exploring.deadline + PRODUCTION.asker_s)
    refused(exploring, "not final", "close", "eve", *bob)
    exploring.wait(1)
    exploring.call("close", "eve", *bob)
    refused(exploring, "not pending", "close", "eve", *bob)
    exploring.call("settle", "eve", (root,), (explorer.known[root][1],), (2,))
    refused(exploring, "other node", "settle", "eve", (root,), (explorer.known[root][1],), (2,))


def test_withdraw__of_a_token_that_refuses__changes_nothing(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    explorer.convict(explorer.answer(explorer.down(trace, 2)), 0)
    exploring.call("settle", "eve", (trace,), (explorer.known[trace][1],), (2,))
    exploring.refuse_transfers()
    dave = exploring.accounts["dave"]
    refused(exploring, "transfer failed", "withdraw", "eve", exploring.token.address, dave)
    exploring.refuse_transfers(False)
    exploring.call("withdraw", "eve", exploring.token.address, dave)
    exploring.call("withdraw", "eve", COIN, dave)


def test_seals__that_are_late_or_other_or_younger__are_refused(exploring, explorer):
    bob, eve, dave = (JOB, exploring.claims["bob"]), exploring.accounts["eve"], exploring.accounts["dave"]
    unit = unit_of(segment_id(unit_of(path_id(claim_key(*bob), 4, 0)), 3))
    salt = noise("salt")
    exploring.call("seal", "eve", sealed(eve, unit, salt))
    refused(exploring, "sealed already", "seal", "dave", sealed(eve, unit, salt))
    exploring.wait(100)
    exploring.call("seal", "dave", sealed(dave, unit, salt))
    exploring.wait(PRODUCTION.seal_lead_s)
    late = exploring.accounts["mallory"]
    exploring.call("seal", "mallory", sealed(late, unit, salt))
    refused(exploring, "not open to seals", "open_seal", "eve", *bob, eve, salt)
    refused(exploring, "nothing to reward", "reward", "eve", *bob)
    trace = explorer.answer(explorer.first("bob", leaf=3))
    explorer.convict(explorer.answer(explorer.down(trace, 2)), 0)
    refused(exploring, "no such seal", "open_seal", "eve", *bob, eve, noise("other"))
    refused(exploring, "no such seal", "open_seal", "eve", *bob, late, salt)
    exploring.call("open_seal", "mallory", *bob, dave, salt)
    exploring.call("open_seal", "mallory", *bob, eve, salt)
    refused(exploring, "an older seal", "open_seal", "mallory", *bob, dave, salt)
    exploring.wait(86_400)
    refused(exploring, "time left", "reward", "dave", *bob)
    exploring.wait(1)
    refused(exploring, "not open to seals", "open_seal", "eve", *bob, eve, salt)
    exploring.call("reward", "dave", *bob)
    refused(exploring, "nothing to reward", "reward", "dave", *bob)


@pytest.mark.parametrize("leaf", [None, 0])
def test_a_seal_of_a_path_without_a_heavy_ask__counts_from_its_first_ask(exploring, explorer, leaf):
    """Whoever sees that ask seals too late, however long the place that is judged is asked for afterwards."""
    bob, eve, mallory = (JOB, exploring.claims["bob"]), exploring.accounts["eve"], exploring.accounts["mallory"]
    unit, salt = unit_of(path_id(claim_key(*bob), 4, Kind.TRAINING)), noise("salt")
    exploring.call("seal", "eve", sealed(eve, unit, salt))
    exploring.wait(PRODUCTION.seal_lead_s)
    state = explorer.first("bob", leaf=leaf)
    exploring.call("seal", "mallory", sealed(mallory, unit, salt))
    exploring.wait(PRODUCTION.seal_lead_s)
    if leaf is None:
        state = explorer.down(state, 0)
    explorer.convict(explorer.answer(state), child=1)
    refused(exploring, "no such seal", "open_seal", "mallory", *bob, mallory, salt)
    exploring.call("open_seal", "eve", *bob, eve, salt)


def test_every_refusal_of_the_contracts__was_met_here(claimed):
    """The last of this file: it counts what the tests before it met."""
    sources = [
        CONTRACTS / name for name in ("Referee.vy", "Descent.vy", "modules/exploration.vy", "modules/path_clocks.vy")
    ]
    written = {each for path in sources for each in re.findall(r'"(referee: [a-z0-9 ]+)"', path.read_text())}
    elsewhere = {
        "referee: too many asks",  # 65,535 of a claim: test_referee_ends.py writes its word
        "referee: too large",  # the specification has no word
    }
    assert written - elsewhere - set(claimed.reasons) == set()
