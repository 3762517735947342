"""How explored claims are resolved; whose the fees are then; seals (docs/protocol/referee.md)."""

from __future__ import annotations

from dataclasses import replace

from eth_utils.crypto import keccak

from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import GWEI, End
from zoo_compute.spec.descents import require_frame
from zoo_compute.spec.disputed_claims import (
    Explorations,
    Finder,
    Place,
    Verdict,
    claim_key,
    heavy_price,
    is_final,
    price_of,
    require_node,
    require_open,
    require_pending,
    unit_of,
    with_deadline,
)
from zoo_compute.spec.exploration import Node, Status, Tree, TreePosition, abi_words
from zoo_compute.spec.frames import EMPTY, Frame, Hashes, Position
from zoo_compute.spec.params import COIN
from zoo_compute.spec.revert import Refused, require
from zoo_compute.spec.state import Claim, Message
from zoo_compute.spec.watching import NOBODY

# --- how claims are resolved


def judge(
    w: Explorations, msg: Message, job: int, claim: Claim, frame: Frame, place: Place, kind: int, data: bytes
) -> None:
    """At a node, or at a child of one: the evidence shows that the claim is false."""
    node, position, root = place.node, place.node.position, place.node.root
    require_node(w, place.id, node, place.status)
    require_frame(node, frame)
    if place.is_child:
        require(place.status == Status.ANSWERED, "referee: not answered")
        position, root = position.below(root, place.number, place.child, place.path), place.child
    is_whole = position.tree == Tree.ELEMENT or node.position == TreePosition(Tree.NODES)
    require(is_whole or not position.is_beyond, "referee: no such leaf")
    is_open = place.status == Status.ANSWERED and node.position.shows_words and position.height == 0
    judged = Position(position.tree, position.height, position.index, root, root if is_open else EMPTY)
    w.court.judge(kind, frame, judged, data)
    require_open(w, w.claims[node.claim], msg.now)
    w.verdicts[node.claim] = Verdict(node.origin.unit, node.origin.asked_at, msg.now)
    _resolve(w, job, claim, node.claim, End.JUDGED, frame.slot)


def expire(w: Explorations, msg: Message, job: int, claim: Claim, id: bytes, node: Node) -> None:
    """An ask past its clock convicts by silence."""
    require_node(w, id, node, Status.ASKED)
    require(clocks.is_expired(node.clocks, msg.now), "referee: time left")
    w.verdicts[node.claim] = Verdict(node.origin.unit)
    _resolve(w, job, claim, node.claim, End.EXHAUSTED if node.clocks.exhausted else End.SILENT)


def close(w: Explorations, msg: Message, job: int, claim: Claim) -> None:
    """Final once every clock has passed; void by age where nobody expired what was not answered, or where its data is lost."""
    key = claim_key(job, claim)
    require(key in w.claims, "referee: not pending")
    word = with_deadline(w, w.claims[key])
    require_pending(word)
    end = End.AGED
    if _is_kept(w, job, claim):
        if is_final(w, word, msg.now):
            end = End.FINAL
        else:
            is_aged = word.deadline > 0 and msg.now > clocks.aged_at(word.deadline, word.reexecute_s, w.preset)
            require(is_aged, "referee: not final")
    _resolve(w, job, claim, key, end)


def _is_kept(w: Explorations, job: int, claim: Claim) -> bool:
    """Neither paid, convicted nor void where it is kept: Availability convicts beside disputes."""
    try:
        w.court.dispute_terms(job, claim)
    except Refused:
        return False
    return True


def _resolve(w: Explorations, job: int, claim: Claim, key: bytes, end: End, slot: int = 0) -> None:
    require(claim_key(job, claim) == key, "referee: other claim")
    word = w.claims[key]
    require_pending(word)
    holder = word.job, word.operator
    w.heavy[holder] = w.heavy.get(holder, 0) - word.heavy_open
    w.claims[key] = replace(word, heavy_open=0, end=end, slot=slot)
    burned = 0
    if end == End.EXHAUSTED:
        _, price = heavy_price(w, job, claim.is_aggregation, price_of(claim))
        burned = word.heavy_made * clocks.heavy_shares(price, end, True).burned
    w.court.close_dispute(job, claim, end, word.used_s, burned)


# --- fees


def settle(w: Explorations, msg: Message, ids: Hashes, records: tuple[Node, ...], statuses: tuple[int, ...]) -> None:
    """What was prepaid for these nodes of resolved claims goes where it belongs, once."""
    require(len(ids) == len(records) == len(statuses), "referee: other node")
    for id, node, status in zip(ids, records, statuses, strict=True):
        require_node(w, id, node, status)
        del w.nodes[id]
        word = w.claims[node.claim]
        end = word.end
        require(end is not None, "referee: not resolved")
        assert end is not None
        answerer = w.court.owner_of(word.operator) if node.answerer == NOBODY else node.answerer
        _share(w, COIN, node, answerer, clocks.answer_shares(node.payment.fee * GWEI, end))
        if node.payment.is_heavy:
            token, price = heavy_price(w, word.job, node.payment.is_of_aggregation, node.price)
            verdict = w.verdicts.get(node.claim)
            on_path = verdict is not None and verdict.unit == unit_of(id)
            _share(w, token, node, answerer, clocks.heavy_shares(price, end, on_path))


def _share(w: Explorations, token: str, node: Node, answerer: str, shares: clocks.Shares) -> None:
    _owe(w, token, node.payment.asker, shares.asker)
    _owe(w, token, answerer, shares.answerer)
    w.burned[token] = w.burned.get(token, 0) + shares.burned


def withdraw(w: Explorations, msg: Message, token: str, account: str) -> int:
    amount = w.owed.get((token, account), 0)
    require(amount > 0, "referee: nothing owed")
    w.owed[token, account] = 0
    require(w.court.send(token, account, amount), "referee: transfer failed")
    return amount


def _owe(w: Explorations, token: str, account: str, amount: int) -> None:
    w.owed[token, account] = w.owed.get((token, account), 0) + amount


# --- seals


def sealed(finder: str, unit: bytes, salt: bytes) -> bytes:
    """What a finder seals: the step by its unit."""
    word = int.from_bytes(unit, "big") << 80
    return bytes(keccak(abi_words(finder, word, salt)))


def seal(w: Explorations, msg: Message, hash: bytes) -> None:
    require(hash not in w.seals, "referee: sealed already")
    w.seals[hash] = msg.now


def open_seal(w: Explorations, msg: Message, job: int, claim: Claim, finder: str, salt: bytes) -> None:
    """The oldest counts that was placed long enough before the first ask at the convicted step."""
    key = claim_key(job, claim)
    verdict = w.verdicts.get(key)
    is_open = verdict is not None and verdict.judged_at > 0 and msg.now <= verdict.judged_at + w.preset.opening_s
    require(is_open, "referee: not open to seals")
    assert verdict is not None
    placed = w.seals.get(sealed(finder, verdict.unit, salt), 0)
    require(placed > 0 and placed + w.preset.seal_lead_s <= verdict.asked_at, "referee: no such seal")
    best = w.finders.get(key)
    require(best is None or placed < best.sealed_at, "referee: an older seal")
    w.finders[key] = Finder(finder, placed)


def reward(w: Explorations, msg: Message, job: int, claim: Claim) -> None:
    """After the day in which seals are opened; without one the share burns."""
    key = claim_key(job, claim)
    finder, verdict = w.finders.get(key), w.verdicts.get(key)
    is_judged = verdict is not None and verdict.judged_at > 0
    require(is_judged and not (finder and finder.is_rewarded), "referee: nothing to reward")
    assert verdict is not None
    require(msg.now > verdict.judged_at + w.preset.opening_s, "referee: time left")
    account = finder.account if finder else NOBODY
    w.finders[key] = Finder(account, 0, is_rewarded=True)
    w.court.reward_finder(job, claim, account)
