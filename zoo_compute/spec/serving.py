"""Serving: seats of operators that answer requests off chain, and the receipts of their answers (docs/protocol/serving.md)."""

from dataclasses import replace

from eth_utils.crypto import keccak

from zoo_compute.spec import merkle, params
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import Terms
from zoo_compute.spec.exploration import abi_words
from zoo_compute.spec.frames import EMPTY, Work, claim_hash
from zoo_compute.spec.params import BPS, FINDER_BPS, MAX_STEPS
from zoo_compute.spec.receipts import Admitted, AnswerReceipt, Offer, ReceiptSignature, ServingSeat
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import ZERO_ADDRESS, Claim, ClaimStatus, Message, World


def window_s(w: World) -> int:
    """How long after it was issued a receipt can be admitted, and after that be disputed."""
    return params.window_s(w.config.preset, w.config.preset.receipt_s, 1)


def work_of(receipt: AnswerReceipt) -> Work:
    """As a job's: one program, one segment. Of a batch of zeros nobody asks which row is which example."""
    return Work((receipt.program, EMPTY, EMPTY), receipt.steps, receipt.steps, 0, 1)


def question_of(receipt: AnswerReceipt) -> int:
    """All that the answer follows from; random draws come from it."""
    return int.from_bytes(keccak(abi_words(receipt.program, receipt.steps, receipt.start, receipt.nonce)), "big")


def claim_of(operator: int, receipt: AnswerReceipt) -> Claim:
    """A receipt as a claim of slot 0, at which nothing is paid."""
    root = merkle.result_root(0, receipt.start, receipt.segments, receipt.end, EMPTY)
    return Claim(receipt.seat, question_of(receipt), 0, operator, 1, 0, receipt.start, root)


def take(w: World, msg: Message, operator: int, signer: str, lock: int, offer: Offer) -> int:
    """Returns the seat's number."""
    require(msg.sender == w.operator(operator).owner, "serving: not the owner")
    require(signer != ZERO_ADDRESS, "serving: zero signer")
    require(lock > 0, "serving: zero lock")
    seat = len(w.serving_seats) + 1
    w.serving_seats[seat] = ServingSeat(operator, signer, lock)
    w.move(w.config.zen, msg.sender, w.config.serving, lock, by="serving")
    return seat


def offer(w: World, msg: Message, seat: int, changed: Offer) -> None:
    require(_operated(w, msg, seat).left_at == 0, "serving: seat left")


def leave(w: World, msg: Message, seat: int) -> None:
    """Its receipts count for a window longer."""
    place = _operated(w, msg, seat)
    require(place.left_at == 0, "serving: seat left")
    w.serving_seats[seat] = replace(place, left_at=msg.now)


def release(w: World, msg: Message, seat: int) -> None:
    """Sends the lock to the operator's owner."""
    place = w.serving_seats.get(seat)
    require(place is not None and place.left_at != 0, "serving: seat not left")
    assert place is not None
    is_over = msg.now > place.left_at + 2 * window_s(w)
    require(is_over and place.pending == 0, "serving: receipts open")
    require(place.lock > 0, "serving: nothing locked")
    w.serving_seats[seat] = replace(place, lock=0)
    w.move(w.config.zen, w.config.serving, w.operator(place.operator).owner, place.lock, by="serving")


def admit(w: World, msg: Message, receipt: AnswerReceipt, signature: ReceiptSignature) -> bytes:
    """Makes a receipt a claim; returns its hash."""
    place = w.serving_seats.get(receipt.seat)
    require(place is not None, "serving: no such seat")
    assert place is not None
    require(1 <= receipt.steps <= MAX_STEPS, "serving: steps out of range")
    require(receipt.issued <= msg.now, "serving: not issued yet")
    require(msg.now <= receipt.issued + window_s(w), "serving: window closed")
    is_open = place.left_at == 0 or receipt.issued <= place.left_at + window_s(w)
    require(is_open, "serving: seat left")
    require(signature == ReceiptSignature(place.signer, receipt), "serving: receipt not signed")
    claim = claim_of(place.operator, receipt)
    require(claim not in w.receipts, "serving: already admitted")
    w.receipts[claim] = Admitted(ClaimStatus.PENDING, work_of(receipt).root, msg.now + window_s(w))
    w.serving_seats[receipt.seat] = replace(place, pending=place.pending + 1)
    return claim_hash(claim)


def drop(w: World, msg: Message, claim: Claim) -> None:
    """Nobody asked about an admitted receipt in its window."""
    kept = _require_pending(w, claim)
    require(not kept.is_disputed, "serving: in dispute")
    require(msg.now > kept.deadline, "serving: window open")
    _end(w, claim, kept, ClaimStatus.VOID)


def dispute_terms(w: World, job: int, claim: Claim) -> Terms:
    """As of a job's claim: one slot."""
    kept = _require_pending(w, claim)
    return Terms(kept.work_root, w.config.preset.receipt_s, 1, kept.deadline)


def open_dispute(w: World, msg: Message, job: int, claim: Claim) -> None:
    """A pending receipt is not dropped before its dispute is closed; `job` is RECEIPTS."""
    require(msg.sender == w.config.referee, "serving: not the referee")
    w.receipts[claim] = replace(_require_pending(w, claim), is_disputed=True)


def close_dispute(w: World, msg: Message, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None:
    """A conviction takes the lock, and keeps a part of it for the finder where evidence convicted."""
    require(msg.sender == w.config.referee, "serving: not the referee")
    kept = w.receipts.get(claim)
    if kept is None or kept.status != ClaimStatus.PENDING:
        return
    if outcome in (End.FINAL, End.AGED):
        _end(w, claim, kept, ClaimStatus.VOID)
        return
    _end(w, claim, kept, ClaimStatus.CONVICTED)
    place = w.serving_seats[claim.turn]
    w.serving_seats[claim.turn] = replace(place, lock=0)
    w.receipt_shares[claim] = share = place.lock * FINDER_BPS // BPS if outcome == End.JUDGED else 0
    w.serving_burned += place.lock - share


def reward_finder(w: World, msg: Message, job: int, claim: Claim, finder: str) -> None:
    """What is kept of a judged receipt's lock goes to the finder; of nobody, it burns."""
    require(msg.sender == w.config.referee, "serving: not the referee")
    amount = w.receipt_shares.get(claim, 0)
    if amount == 0:
        return
    w.receipt_shares[claim] = 0
    if finder == ZERO_ADDRESS:
        w.serving_burned += amount
    else:
        w.move(w.config.zen, w.config.serving, finder, amount, by="serving")


def _operated(w: World, msg: Message, seat: int) -> ServingSeat:
    place = w.serving_seats.get(seat)
    operator = w.operator(place.operator) if place is not None else None
    require(operator is not None and msg.sender in (operator.owner, operator.hot), "serving: not the operator")
    assert place is not None
    return place


def _require_pending(w: World, claim: Claim) -> Admitted:
    kept = w.receipts.get(claim)
    require(kept is not None and kept.status == ClaimStatus.PENDING, "serving: unknown receipt")
    assert kept is not None
    return kept


def _end(w: World, claim: Claim, kept: Admitted, status: ClaimStatus) -> None:
    w.receipts[claim] = replace(kept, status=status)
    place = w.serving_seats[claim.turn]
    w.serving_seats[claim.turn] = replace(place, pending=place.pending - 1)
