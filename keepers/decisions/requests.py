"""Requests of a keeper to its workers, in plain JSON, and their names: asking twice is asking once.

A request carries everything a worker needs and nothing it could be robbed of: content addresses, roots, numbers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keepers.queue.names import DISPUTE_PREFIX, KEY_DIGITS, PREPARE_PREFIX
from repops.merkle import sha256
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Claim, Commit, JobView, Run
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.formats.manifest import MAX_CARRY
from zoo_compute.json_codec import encode
from zoo_compute.spec import state
from zoo_compute.spec.carry import claim_before, is_restart
from zoo_compute.spec.clocks import ClockPreset
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.frames import Result
from zoo_compute.store.cid import raw_cid

COUNTS = ("rounds", "slots", "aggregators")  # in the terms as in the manifest
FETCH_TIMEOUT_S = 120.0  # for one file; what came in until then is kept
# Of a job whose manifest my worker has not read, or whose record is gone: a request then names all rounds before, and a worker begins at
# the restart that the manifest says.
UNKNOWN_CARRY = 2**63


def _base(view: JobView, turn: int, round_: int, start_root: bytes) -> dict[str, Any]:
    made_by = view.made_checkpoint(round_, start_root, turn) if round_ else ()
    return {
        "job": view.job,
        "manifest": raw_cid(view.terms.manifest),
        "round": round_,
        "checkpoint": _pointers([each.cid for each in made_by]),
        "start_root": start_root.hex(),
        "work_root": view.terms.work_root.hex(),
        "data_root": view.terms.data_root.hex(),
        "flops": view.terms.flops,
        "terms": {name: getattr(view.terms, name) for name in COUNTS} | {"policy_bits": view.terms.policy},
    }


def _pointers(cids: Sequence[bytes]) -> str | list[str] | None:
    """As a request's `checkpoint` has them."""
    pointers = [raw_cid(cid) for cid in cids]
    return pointers if len(pointers) > 1 else pointers[0] if pointers else None


def _share(view: JobView, seat: int) -> int | None:
    """Of an aggregator, where there are several."""
    return seat - AGGREGATOR_SEAT if view.terms.aggregators > 1 else None


def _run(view: JobView) -> Run:
    assert view.run is not None, "work is asked for after the award"
    return view.run


def prepare_name(view: JobView) -> str:
    return f"{PREPARE_PREFIX}{view.job}-{view.terms.manifest.hex()[:16]}"


def prepare_request(view: JobView) -> dict[str, Any]:
    return _base(view, 0, 0, view.checkpoint_roots[0])


def train_name(view: JobView, slot: int, carry: int = 1) -> str:
    """The same for a round done again from the same states: what was trained is used again."""
    run = _run(view)
    return _train_name(view.job, run.round, slot, view.slots_root, _training(view, slot, carry))


def _train_name(job: int, round_: int, slot: int, start_root: bytes, before: Sequence[Commit]) -> str:
    """before: the claims that the slot goes on from, oldest first."""
    went = sha256(b"".join(commit.start_root for commit in before)).hex()[:8] if before else ""
    return "-".join(filter(None, (f"train-{job}-{round_}-{slot}-{start_root.hex()[:16]}", went)))


def train_request(view: JobView, slot: int, carry: int = 1, private: str | None = None) -> dict[str, Any]:
    """private: what my worker kept of the slot's last round."""
    run = _run(view)
    training = {"slot": slot, "before": _links(view, _training(view, slot, carry)), "private": private}
    return {**_base(view, run.turn, run.round, view.slots_root), **training, "asked_at": view.now}


def previous_training_name(view: JobView, slot: int, carry: int) -> str | None:
    """The name under which the round was trained that the slot goes on from; None where there is none."""
    before = _training(view, slot, carry)
    return _train_name(view.job, before[-1].round, slot, before[-1].start_root, before[:-1]) if before else None


def _training(view: JobView, slot: int, carry: int) -> list[Commit]:
    """The claims that a slot of the open turn goes on from, oldest first: those of who committed it, else of who holds it."""
    run = _run(view)
    if is_restart(run.round, carry):
        return []
    made = [commit.operator for commit in present_claims(view) if slot in commit.slots]
    holders = [seat.operator for seat in view.slot_seats.values() if slot in seat.slots]
    operator = (made + holders)[0]
    return _before(view, ClaimSlot(run.turn, run.round, operator), slot)[-(run.round % carry) :]


class ClaimSlot(NamedTuple):
    """The turn, round and operator of a claim that is not made yet."""

    turn: int
    round: int
    operator: int


def _before(view: JobView, claim: ClaimSlot | Claim, slot: int) -> list[Commit]:
    """The claims that a slot of a claim goes on from, one from another, oldest first. Whoever trains knows which restart to begin at."""
    made = {each.turn: each for each in view.checkpoints if each.seat == AGGREGATOR_SEAT}
    turns = defaultdict[int, list[Commit]](list)
    for commit in view.commits:
        turns[commit.turn].append(commit)
    claims: list[Commit] = []
    last: ClaimSlot | Claim | None = claim
    while last is not None and len(claims) < MAX_CARRY - 1:
        aggregation = made.get(last.turn - 1)
        last = claim_before(last, slot, aggregation, _of(aggregation, turns[last.turn - 1]))
        claims += [last] if last is not None else []
    return claims[::-1]


def _of(made: Checkpoint | None, commits: Sequence[Commit]) -> list[Commit]:
    """Of a turn's claims those that were aggregated, in slot order: of a seat that committed twice the later one."""
    by_seat = {c.seat: c for c in commits if made is not None and made.mask >> c.seat & 1}
    return sorted(by_seat.values(), key=lambda c: c.first)


def _links(view: JobView, before: Sequence[Commit]) -> list[dict[str, Any]]:
    """As `before` of a request (node.inputs.carried_state)."""
    names, links = ("round", "checkpoint", "start_root"), []
    for each in before:
        base = _base(view, each.turn, each.round, each.start_root)
        claim = {"bundle": raw_cid(each.bundle), "root": each.root.hex(), "operator": each.operator}
        links.append({**{name: base[name] for name in names}, **claim})
    return links


def present_claims(view: JobView) -> list[Commit]:
    """The claims that the open turn's aggregation combines, in slot order."""
    run = _run(view)
    commits = view.committed(run.turn).values()
    by_seat = {commit.seat: commit for commit in commits if not run.missing >> commit.seat & 1}
    return sorted(by_seat.values(), key=lambda commit: commit.first)


def present_mask(view: JobView, run: Run) -> int:
    """The seats that committed in the open turn, a bitmap."""
    return sum(1 << number for number in view.slot_seats if not run.missing >> number & 1)


def aggregate_name(view: JobView, seat: int = AGGREGATOR_SEAT) -> str:
    """Of the results combined, not of the turn: the same ones in a turn done again are not combined again."""
    share = _share(view, seat)
    return f"aggregate-{_combination(view)}" + ("" if share is None else f"-{share}")


def precompute_name(view: JobView) -> str:
    """Of the same by who need not post it."""
    return f"advance-{_combination(view)}"


def precompute_work(view: JobView) -> tuple[str, dict[str, Any]]:
    """Its name, and the aggregator's request of what is in the store: what is not, is left to the aggregator."""
    return precompute_name(view), {**aggregate_request(view, {}), "share": None, "peers": []}


def _combination(view: JobView) -> str:
    run = _run(view)
    results = sha256(b"".join(c.scope.to_bytes(32, "big") + c.start_root + c.root for c in present_claims(view)))
    return f"{view.job}-{run.round}-{run.start_root.hex()[:16]}-{results.hex()[:16]}"


def aggregate_request(view: JobView, fetched: Mapping[int, str], seat: int = AGGREGATOR_SEAT) -> dict[str, Any]:
    """The open turn's bundles, each with the committed root and the slots it must prove, in slot order. fetched: by seat."""
    run = _run(view)
    bundles = [
        {
            "bundle": fetched.get(c.seat, raw_cid(c.bundle)),
            "root": c.root.hex(),
            "operator": c.operator,
            "slots": list(c.slots),
            "start_root": c.start_root.hex(),
        }
        for c in present_claims(view)
    ]
    base = _base(view, run.turn, run.round, run.start_root)
    return {**base, "share": _share(view, seat), "bundles": bundles, "asked_at": view.now}


def fetch_name(commit: Commit, job: int, shares: Sequence[int] = ()) -> str:
    own = "".join(f"-{share}" for share in shares)
    return f"fetch-{job}-{commit.turn}-{commit.seat}-{commit.bundle.hex()[:16]}{own}"


def fetch_request(
    view: JobView, commit: Commit, bundle: str, answer_s: int, shares: Sequence[int] = ()
) -> dict[str, Any]:
    """A commitment's results, or these shares of them. Half of the time in which they can be demanded is left for demanding them."""
    left_s = commit.deadline - 2 * answer_s - view.now
    return {
        **_base(view, commit.turn, commit.round, commit.start_root),
        "slots": list(commit.slots),
        "operator": commit.operator,
        "bundle": bundle,
        "shares": list(shares),
        "root": commit.root.hex(),
        "timeout_s": min(FETCH_TIMEOUT_S, max(1.0, left_s / 2)),
        "asked_at": view.now,
    }


def verify_name(commit: Commit, job: int, slot: int, revealed: Result | None = None) -> str:
    """Another one once the slot's result is shown on chain: what was without answer before has one now."""
    return f"verify-{job}-{commit.turn}-{slot}-{commit.root.hex()[:16]}" + ("-shown" if revealed else "")


def verify_request(view: JobView, commit: Commit, slot: int, revealed: Result | None) -> dict[str, Any]:
    """Judged by the state the claim itself says it starts from. shown: the slot's result as an answer on chain has it."""
    return {
        **_base(view, commit.turn, commit.round, commit.start_root),
        "slot": slot,
        "slots": list(commit.slots),
        "operator": commit.operator,
        "bundle": raw_cid(commit.bundle),
        "root": commit.root.hex(),
        "shown": encode(revealed),
        "before": _links(view, _before(view, commit, slot)),
    }


def aggregation_check_name(made: Checkpoint, job: int) -> str:
    return f"check-{job}-{made.turn}-{made.root.hex()[:16]}"


def aggregation_check_request(view: JobView, made: Checkpoint) -> dict[str, Any]:
    """An aggregation, combined again."""
    return {
        **_base(view, made.turn, made.round, made.start_root),
        "operator": made.operator,
        "root": made.root.hex(),
        "share": _share(view, made.seat),
        "bundles": _combined(view, made),
    }


def _combined(view: JobView, made: Checkpoint) -> list[dict[str, Any]]:
    """The claims that an aggregation was made of, in slot order."""
    return [
        {
            "bundle": raw_cid(c.bundle),
            "root": c.root.hex(),
            "operator": c.operator,
            "slots": list(c.slots),
            "start_root": c.start_root.hex(),
            "claim": encode(c.fields),
        }
        for c in _of(made, [c for c in view.commits if c.turn == made.turn])
    ]


def pin_name(view: JobView) -> str:
    digests = sha256(b"".join(view.checkpoint_cids[view.completed_rounds]))
    return f"keep-{view.job}-{digests.hex()[:16]}"


def pin_request(view: JobView) -> dict[str, Any]:
    """The newest checkpoint."""
    pointers = _pointers(view.checkpoint_cids[view.completed_rounds])
    return {"job": view.job, "manifest": raw_cid(view.terms.manifest), "checkpoint": pointers}


def hold_name(view: JobView, made: Checkpoint | None) -> str:
    """Of what a job starts from, or of a checkpoint."""
    return _hold_name(view.job, made.turn, made.root, made.cid) if made else f"hold-{view.job}-start"


def hold_request(view: JobView, made: Checkpoint | None) -> dict[str, Any]:
    """What a custodian signs that it holds."""
    if made is None:
        return _base(view, 0, 0, view.checkpoint_roots[0])
    base = _base(view, 0, 0, view.checkpoint_roots[0])
    posted = {"checkpoint": raw_cid(made.cid), "start_root": made.root.hex(), "share": _share(view, made.seat)}
    return {**base, "round": made.round + 1, **posted}


def _hold_name(job: int, turn: int, root: bytes, cid: bytes) -> str:
    """Of a checkpoint behind one pointer: behind another there may be nothing."""
    return f"hold-{job}-{turn}-{root.hex()[:16]}-{cid.hex()[:16]}"


def proposal_work(view: JobView, root: bytes, cid: bytes, seat: int) -> tuple[str, dict[str, Any]]:
    """What an aggregator of the open turn shows: its name, and the request."""
    run = _run(view)
    base = _base(view, 0, 0, view.checkpoint_roots[0])
    name = _hold_name(view.job, run.turn, root, cid)
    proposed = {"checkpoint": raw_cid(cid), "start_root": root.hex(), "share": _share(view, seat)}
    return name, {**base, "round": run.round + 1, **proposed}


def dispute_name(
    dispute: DisputeView, role: str, acted_on: Sequence[bytes], places: Sequence[Any], skipped: Sequence[bytes]
) -> str:
    """Named by all that what is to be done follows from: the last event, which asks can be acted on by now, where something is false."""
    last = dispute.events[-1] if dispute.events else None
    at = [last.block_hash.hex(), last.log_index] if last else []
    asked = [*([each.hex() for each in ids] for ids in (acted_on, skipped)), places]
    digest = sha256(json.dumps([at, *asked]).encode()).hex()[:16]
    return f"{DISPUTE_PREFIX}{dispute.key.hex()[:KEY_DIGITS]}-{role}-{digest}"


def claim_names(view: JobView) -> set[str]:
    """Of all claims of a job, what names of answers and asks about them begin with."""
    return {claim_key(view.job, state.Claim(*claim.fields)).hex()[:KEY_DIGITS] for claim in view.claims}  # type: ignore[arg-type]


def dispute_request(
    view: JobView, claim: Claim, *, picture: Exploration, places: Sequence[Mapping[str, Any]], **options: Any
) -> dict[str, Any]:
    """What is to be answered, or asked, about a claim (node.disputes.player). folder: what is kept until the dispute is over."""
    aggregated = _kept_before(view, claim)
    follows = aggregated is not None and aggregated.turn == claim.turn - 1
    slots = {node.frame.slot for node in picture.nodes.values()} | {place["slot"] for place in places}
    request = {
        **_base(view, claim.turn, claim.round, claim.start_root),
        "bundles": _combined(view, claim) if isinstance(claim, Checkpoint) else [],
        "before": {str(slot): _links(view, _before(view, claim, slot)) for slot in sorted(slots)},
        "aggregated": aggregated and encode(aggregated.fields),
        "bundles_before": _combined(view, aggregated) if aggregated is not None and follows else [],
        **claim_fields(claim.fields, picture=picture, places=places, **options),
    }
    if isinstance(claim, Commit):
        own = {"bundle": raw_cid(claim.bundle), "root": claim.root.hex(), "slots": list(claim.slots)}
        request |= {**own, "operator": claim.operator}
    return request


def _kept_before(view: JobView, claim: Claim) -> Checkpoint | None:
    """What Settlement keeps in the aggregation's place of the turn before: its own, or one that is a ring older."""
    turn, ring = claim.turn - 1, _run(view).depth + 1
    first = [each for each in view.checkpoints if each.seat == AGGREGATOR_SEAT]
    candidates = [each for each in first if each.turn <= turn and (turn - each.turn) % ring == 0]
    return max(candidates, key=lambda each: each.turn, default=None)


def claim_fields(
    fields: tuple[Any, ...],
    *,
    role: str,
    picture: Exploration,
    now: int,
    clocks: ClockPreset,
    folder: Path,
    places: Sequence[Mapping[str, Any]] = (),
    skipped: Sequence[bytes] = (),
    failing: Sequence[bytes] = (),
) -> dict[str, Any]:
    """What every request about a dispute has. fields: the claim's."""
    return {
        "claim": encode(fields),
        "role": role,
        "picture": picture.plain,
        "now": now,
        "clocks": encode(clocks),
        "folder": str(folder),
        "places": [[place["kind"], place["slot"], place["result"]] for place in places],
        "skipped": encode(skipped),
        "failing": encode(failing),
    }
