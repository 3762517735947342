"""What the contracts' views must show for a world of the specification, key by key."""

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from eth_abi import encode
from eth_utils import keccak

from tests.support.evm import chain
from tests.support.lockstep import referee_records as records
from tests.support.lockstep.committed_results import claim_hash
from tests.support.lockstep.custody_records import checkpoint_message, committee_hash
from tests.support.lockstep.invariants import pending_claims
from zoo_compute.spec import (
    admissions,
    audits,
    convictions,
    credits,
    custodians,
    guardian,
    locks,
    node_registry,
    promises,
    rewards,
    seats,
    serving,
    watching,
)
from zoo_compute.spec.auditing import Role, Verdicts
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.court import WorldCourt
from zoo_compute.spec.params import Flow
from zoo_compute.spec.receipts import RECEIPTS
from zoo_compute.spec.requirements import Requirements
from zoo_compute.spec.state import (
    EMPTY_BYTES32,
    ZERO_ADDRESS,
    CalledFees,
    Channel,
    Citation,
    Claim,
    ClaimStatus,
    Dataset,
    Declaration,
    Earned,
    Epoch,
    Message,
    MintEpoch,
    Pause,
    Posted,
    Seal,
    SetAside,
    Share,
    Signed,
    Traffic,
    World,
)
from zoo_compute.spec.trials import TRIALS, Entry, Recall, Workload

SEAL_BYTES = 20  # a bid's word keeps the upper 160 bits


@dataclass(frozen=True)
class View:
    """One call of a view, and what it must answer: a value, or a record whose fields it must show."""

    contract: str
    name: str
    args: tuple[Any, ...]
    expected: Any


def seal_bytes(seal: Seal) -> bytes:
    values = (seal.job, seal.kind, seal.attempt, seal.operator, seal.price, seal.capacity, seal.salt)
    return keccak(encode(["uint256"] * 6 + ["bytes32"], values))


def stored_seal(seal: Seal | None) -> bytes:
    return seal_bytes(seal)[:SEAL_BYTES].ljust(32, b"\0") if seal else EMPTY_BYTES32


def claim_word(posted: Posted | None) -> bytes:
    """30 bytes of the claim's hash, one of whether it is disputed, one of status."""
    if posted is None:
        return EMPTY_BYTES32
    return claim_hash(posted.claim)[:30] + bytes([posted.is_disputed, posted.status])


def _record(contract: str, name: str, source: Callable[[World, Any], Any]) -> Callable[[World, Any], Iterator[View]]:
    def views(w: World, key: Any) -> Iterator[View]:
        args = key if isinstance(key, tuple) else (key,)
        yield View(contract, name, args, source(w, key))

    return views


def _answer_key_views(w: World, key: tuple[int, str, str]) -> Iterator[View]:
    operator, _, account = key
    yield View("registry", "may_answer", (operator, account), node_registry.may_answer(w, operator, account))


def _operator_views(w: World, key: int) -> Iterator[View]:
    record = w.operator(key)
    points = node_registry.reputation(w, key, int(chain.timestamp))
    yield View("registry", "operators", (key,), replace(record, reputation=points))
    yield View("registry", "discount_bps", (key,), points)
    is_eligible = record.exit_at == 0 and record.stake >= w.config.preset.min_stake
    yield View("registry", "is_eligible", (key, record.hot), is_eligible)
    for account in (record.hot, record.owner):
        yield View("registry", "may_answer", (key, account), node_registry.may_answer(w, key, account))
    yield View("registry", "is_admitted", (key,), record.is_admitted)
    yield View("registry", "multiplier_of", (key,), node_registry.multiplier_of(w, key))
    yield View("registry", "vram_of", (key,), record.vram_gb)
    yield View("registry", "is_eligible", (key, w.config.registry), False)
    yield _capability_view(w, key)
    yield View("registry", "operator_count", (), len(w.operators))


def _capability_view(w: World, key: int) -> View:
    """Whether the operator meets all that it is, no more: what it has in this epoch and in the next, the less of both."""
    block_time = int(chain.timestamp)
    has = promises.capability(w, key, block_time // w.config.preset.epoch_s)
    word = Requirements(has.region, has.vram_gb, 1 << has.gpu_class, has.hours, has.tier, has.is_admitted).word
    return View("registry", "meets", (key, word), node_registry.meets(w, key, word, block_time=block_time))


def _declaration_views(w: World, key: int) -> Iterator[View]:
    yield View("registry", "declarations", (key,), w.declarations.get(key, Declaration()))
    yield _capability_view(w, key)


def _job_views(w: World, key: int) -> Iterator[View]:
    yield View("tasks", "jobs", (key,), w.job(key))
    yield View("tasks", "job_count", (), len(w.jobs))
    yield View("auction", "requirements", (key,), w.terms[key].requirements)
    for is_aggregation in (False, True):
        price = WorldCourt(w, Message(w.config.referee, 0)).reexecution_price(key, is_aggregation)
        yield View("tasks", "reexecution_price", (key, is_aggregation), price)


def _run_views(w: World, key: int) -> Iterator[View]:
    yield View("settlement", "runs", (key,), w.run(key))


def _record_word(w: World, key: tuple[int, int]) -> int:
    record = w.record_of(*key)
    return record.parked << 24 | record.void_before


def _stake_views(w: World, key: tuple[int, int, bool]) -> Iterator[View]:
    yield View("locks", "stakes", key, w.stake_of(*key))
    yield View("locks", "slots_of", key[:2], w.stake_of(*key[:2], False).slots)
    yield View("locks", "seats_of", key[:2], locks.seats_of(w, *key[:2]))


def _seat_views(w: World, key: tuple[int, int]) -> Iterator[View]:
    job, seat = key
    yield View("settlement", "seats", key, w.seat(job, seat))
    yield from _run_views(w, job)


def _pending_views(w: World, key: tuple[int, int]) -> Iterator[View]:
    job, turn = key
    bitmap = sum(1 << seat for seat, posted in pending_claims(w, job) if posted.claim.turn == turn)
    yield View("settlement", "pending", key, bitmap)
    yield View("settlement", "pending", (job, w.run(job).turn), UINT256_MAX)
    yield View("settlement", "claim_deadline", key, seats.claim_deadline(w, job, turn))
    yield View("settlement", "claim_deadline", (job, w.run(job).turn), UINT256_MAX)


def _parked_views(w: World, key: tuple[int, Claim]) -> Iterator[View]:
    job, claim = key
    yield View("settlement", "parked", (job, claim_hash(claim)), w.parked.get(key, 0))
    if w.parked.get(key) == ClaimStatus.PENDING:
        terms = convictions.dispute_terms(w, job, claim)
        yield View("settlement", "dispute_terms", (job, astuple(claim)), terms)


def _earned_views(w: World, key: tuple[int, int]) -> Iterator[View]:
    yield View("rewards", "earned", key, w.earned.get(key, Earned()))
    yield View("rewards", "return_bps", key, rewards.return_bps(w, *key))


def _pledge_views(w: World, key: str) -> Iterator[View]:
    yield View("credits", "pledges", (key,), w.pledges.get(key, 0))
    yield View("credits", "pledged", (), sum(w.pledges.values()))
    supply = sum(amount for (token, _), amount in w.balances.items() if token == w.config.credits)
    yield View("credits", "totalSupply", (), supply)


@dataclass(frozen=True)
class _Called:
    verification: int
    data: int


def _called_in(w: World, epoch: int) -> _Called:
    return _Called(*(w.called.get((flow, epoch), 0) for flow in (Flow.VERIFICATION, Flow.DATA)))


def _work_key(key: tuple[int, int | str, int, int]) -> tuple[int, ...]:
    """A contributor's address goes as a number."""
    flow, who, job, epoch = key
    return flow, int(who, 16) if isinstance(who, str) else who, job, epoch


@dataclass(frozen=True)
class _Cited:
    cited: list[int]
    scored: bool


def _citation(w: World, job: int) -> _Cited:
    citation = w.citations.get(job, Citation())
    return _Cited(list(citation.cited), citation.scored)


def _claim_views(w: World, key: tuple[int, int, int]) -> Iterator[View]:
    """One place of the ring; one beyond the job's depth is another name of a place, not a place of its own."""
    job, seat, place = key
    posted = w.claims.get(key)
    if place < max(w.run(job).depth, 1):
        turn = posted.claim.turn if posted else place
        yield View("settlement", "claims", (job, seat, turn), claim_word(posted))
    if posted and posted.status == ClaimStatus.PENDING:
        terms = convictions.dispute_terms(w, job, posted.claim)
        yield View("settlement", "dispute_terms", (job, astuple(posted.claim)), terms)


def _demand_views(w: World, key: tuple[int, Claim, int]) -> Iterator[View]:
    job, claim, lane = key
    yield View("availability", "demands", (job, claim_hash(claim), lane), w.demands.get(key, watching.Demand()))


def _custody_offer_views(w: World, key: int) -> Iterator[View]:
    """One place more than there are: it is empty again."""
    offers = w.custody_offers.get(key, ())
    for place in range(len(offers) + 1):
        expected = astuple(offers[place]) if place < len(offers) else (0, 0)
        yield View("custody", "offers", (key, place), expected)


def _verdicts_hash(verdicts: Verdicts) -> int:
    words = (list(verdicts.clean), list(verdicts.wrong))
    return int.from_bytes(keccak(encode(["(uint256[],uint256[])"], [words])), "big")


def _given_views(w: World, key: tuple[int, int, int, int]) -> Iterator[View]:
    """What verdicts are kept as: a hash and when they were given; a hash of what is not settled once something is."""
    given = w.statements[key]
    yield View("audits", "given", key, _verdicts_hash(given.verdicts) >> 40 << 40 | given.said_at)
    left = EMPTY_BYTES32 if given.left == given.verdicts else _verdicts_hash(given.left).to_bytes(32, "big")
    yield View("audits", "left", key, left)


def _place_views(w: World, key: int) -> Iterator[View]:
    """Who held a place before each of its changes, and now."""
    for at in {since + offset for _, since in w.places[key][-8:] for offset in (0, 1)}:
        yield View("audits", "holders", (key, 1, at), [audits.holder(w, key, at)])


def _draw_views(w: World, key: tuple[int, int]) -> Iterator[View]:
    draw = w.draw_of(*key)
    yield View("audits", "draws", key, draw)
    for unit in range(4):
        for role in Role:
            judge = audits.judge_of(w, draw, unit, unit + 1, role)
            yield View("audits", "assigned", (*key, unit, unit + 1, int(role)), judge)


def _of_claim(contract: str, name: str, source: Callable[[World, Any], Any]) -> Callable[[World, Any], Iterator[View]]:
    return lambda w, key: iter((View(contract, name, (key[0], claim_hash(key[1])), source(w, key)),))


def _only(contract: str, name: str, source: Callable[[World], Any]) -> Callable[[World, Any], Iterator[View]]:
    return lambda w, key: iter((View(contract, name, (), source(w)),))


def _kept(name: str, word: Callable[[Any], int], view: str = "") -> Callable[[World, Any], Iterator[View]]:
    """Of the referee."""

    def views(w: World, key: Any) -> Iterator[View]:
        args = key if isinstance(key, tuple) else (key,)
        yield View("referee", view or name, args, word(getattr(w.disputes, name).get(key)))

    return views


def _trial_views(w: World, key: int) -> Iterator[View]:
    trial = w.trials.get(key)
    word = claim_hash(trial.claim)[:30] + b"\0\1" if trial else EMPTY_BYTES32
    yield View("admissions", "claims", (TRIALS, 0, key), word)
    yield View("admissions", "claim_deadline", (TRIALS, key), trial.deadline if trial else 0)
    yield View("admissions", "is_disputed", (key,), bool(trial and trial.is_disputed))
    none = SimpleNamespace(work_root=EMPTY_BYTES32, score=0, deadline=0)
    yield View("admissions", "trials", (key,), trial or none)
    if trial:
        terms = admissions.dispute_terms(w, TRIALS, trial.claim)
        yield View("admissions", "dispute_terms", (TRIALS, astuple(trial.claim)), terms)


def _pause_views(w: World, key: str) -> Iterator[View]:
    pause = w.pauses.get(key, Pause())
    names = {w.config.registry: "registry", w.config.tasks: "tasks", w.config.auction: "auction"}
    yield View(names[key], "paused_until", (), pause.end)
    yield View("guardian", "ends", (key,), pause.end)
    yield View("guardian", "is_governed", (key,), pause.is_governed)
    yield View("guardian", "free_from", (key,), pause.free_from)


def _entry_views(w: World, key: int) -> Iterator[View]:
    entry, workload = w.entries.get(key, Entry()), admissions.workload_of(w, key)
    yield View("admissions", "entries", (key,), entry)
    yield View("admissions", "workload_of", (key,), workload)
    if entry.block in w.block_hashes:
        yield View("admissions", "seed_of", (key,), admissions.seed(w.block_hashes[entry.block], key, workload))
    elif entry.block == 0:
        yield View("admissions", "seed_of", (key,), EMPTY_BYTES32)


def _receipt_views(w: World, key: Claim) -> Iterator[View]:
    kept = w.receipts[key]
    yield View("serving", "admitted", (claim_hash(key),), kept)
    if kept.status == ClaimStatus.PENDING:
        yield View("serving", "dispute_terms", (RECEIPTS, astuple(key)), serving.dispute_terms(w, RECEIPTS, key))


# By the name of the World's dictionary: the views that show one of its keys.
VIEWS: dict[str, Callable[[World, Any], Iterator[View]]] = {
    "balances": lambda w, key: iter((View(f"token {key[0]}", "balanceOf", (key[1],), w.balances.get(key, 0)),)),
    "pauses": _pause_views,
    "appointed": _only("guardian", "account", guardian.account),
    "offered_owners": _record("registry", "offered_owners", lambda w, key: w.offered_owners.get(key, ZERO_ADDRESS)),
    "operators": _operator_views,
    "collateral": _record("registry", "collateral", lambda w, key: w.deposit_of(*key)),
    "declarations": _declaration_views,
    "beats": _record("registry", "beats", lambda w, key: w.beats.get(key, 0)),
    "total_beats": _record("registry", "total_beats", lambda w, key: w.total_beats.get(key, 0)),
    "last_beat": _only("registry", "last_beat", lambda w: w.last_beat),
    "stopped_s": _only("registry", "stopped_s", lambda w: w.stopped_s),
    "stopped_epochs": _record("registry", "is_stopped", lambda w, key: w.stopped_epochs.get(key, False)),
    "judged": _record("registry", "is_judged", lambda w, key: w.judged.get(key, False)),
    "nonces": _record("registry", "nonces", lambda w, key: w.nonces.get(key, 0)),
    "answer_keys": _answer_key_views,
    "pots": _record("registry", "pot", lambda w, key: w.pots.get(key, 0)),
    "burned": _record("registry", "burned", lambda w, key: w.burned.get(key, 0)),
    "allowed": _record("tasks", "is_allowed", lambda w, key: w.allowed.get(key, False)),
    "window_values": _record("tasks", "window_values", lambda w, key: w.window_values.get(key, 0)),
    "jobs": _job_views,
    "owed": _record("tasks", "owed", lambda w, key: w.owed.get(key, 0)),
    "deposits": _record("tasks", "deposits", lambda w, key: w.deposits.get(key, 0)),
    "posted_coin": lambda w, key: iter((View("chain", "balance", (w.config.tasks,), w.posted_coin),)),
    "lots": _record("auction", "lots", lambda w, key: w.lot(*key)),
    "bids": _record("auction", "bids", lambda w, key: w.bid(*key)),
    "runs": _run_views,
    "seats": _seat_views,
    "records": _record("settlement", "records", _record_word),
    "stakes": _stake_views,
    "set_aside": _record("locks", "set_aside", lambda w, key: w.set_aside.get(key, SetAside())),
    "kept": _record("locks", "kept", lambda w, key: w.kept.get(key, 0)),
    "job_pots": _record("locks", "pots", lambda w, key: w.job_pots.get(key, 0)),
    "closed_turns": _pending_views,
    "parked": _parked_views,
    "finder_shares": _of_claim("locks", "finder_shares", lambda w, key: w.finder_shares.get(key, 0)),
    "trial_shares": lambda w, key: iter(
        (View("admissions", "finder_shares", (claim_hash(key),), w.trial_shares.get(key, 0)),)
    ),
    "taken_of_lock": _of_claim("locks", "taken_of_lock", lambda w, key: w.taken_of_lock.get(key, 0)),
    "claims": _claim_views,
    "pool": _only("rewards", "pool", lambda w: w.pool),
    "epochs": _record("rewards", "epochs", lambda w, key: w.epochs.get(key, Epoch())),
    "shares": _record("rewards", "shares", lambda w, key: w.shares.get(key, Share())),
    "earned": _earned_views,
    "job_fees": _record("rewards", "job_fees", lambda w, key: w.fees_of(key)),
    "called": lambda w, key: iter((View("rewards", "called", (key[1],), _called_in(w, key[1])),)),
    "reward_calls": _record("rewards", "calls", lambda w, key: w.reward_calls.get(key, CalledFees())),
    "works": lambda w, key: iter((View("rewards", "works", _work_key(key), w.works.get(key, 0)),)),
    "total_bytes": _record("rewards", "total_bytes", lambda w, key: w.total_bytes.get(key, 0)),
    "served": _record("rewards", "served", lambda w, key: w.served.get(key, Traffic())),
    "pairs": _record("rewards", "pairs", lambda w, key: w.pairs.get(key, Traffic())),
    "signed": _record("rewards", "signed", lambda w, key: w.signed.get(key, Signed())),
    "datasets": _record("datasets", "datasets", lambda w, key: w.datasets.get(key, Dataset())),
    "dataset_names": _record("datasets", "named", lambda w, key: w.dataset_names.get(key, 0)),
    "citations": lambda w, key: iter((View("datasets", "citations", (key,), _citation(w, key)),)),
    "channels": _record("channels", "channels", lambda w, key: w.channels.get(key, Channel())),
    "channel_count": _only("channels", "channel_count", lambda w: w.channel_count),
    "channels_owed": _record("channels", "owed", lambda w, key: w.channels_owed.get(key, 0)),
    "demands": _demand_views,
    "signer_demands": _record("availability", "signer_demands", lambda w, key: w.signer_demands.get(key, 0)),
    "holdings": _record("availability", "holdings", lambda w, key: w.holdings.get(key, watching.Holding())),
    "spent": _record("availability", "held", lambda w, key: w.spent.get(key, watching.Spent())),
    "coin_owed": _record("availability", "owed", lambda w, key: w.coin_owed.get(key, 0)),
    "coin": lambda w, key: iter((View("chain", "balance", (w.config.availability,), w.coin),)),
    "audit_budgets": _record("audits", "budgets", lambda w, key: w.budget_of(key)),
    "audit_funds": _record("audits", "funds", lambda w, key: w.audit_funds_of(*key)),
    "places": _place_views,
    "place_count": _only("audits", "place_count", lambda w: w.place_count),
    "place_counts": _record("audits", "held", lambda w, key: w.place_counts.get(key, 0)),
    "draws": _draw_views,
    "statements": _given_views,
    "audit_owed": _record("audits", "owed", lambda w, key: w.audit_owed.get(key, 0)),
    "audits_burned": _record("audits", "burned", lambda w, key: w.audits_burned.get(key, 0)),
    "custody_requests": _record(
        "custody", "requests", lambda w, key: w.custody_requests.get(key, custodians.Request())
    ),
    "custody": _record("custody", "progress", lambda w, key: w.custody.get(key, custodians.Progress())),
    "custody_escrows": _record("custody", "escrows", lambda w, key: w.custody_escrows.get(key, 0)),
    "custody_offers": _custody_offer_views,
    "custody_roles": _record("custody", "roles", lambda w, key: w.custody_roles.get(key, custodians.Role())),
    "committees": _record("custody", "committees", lambda w, key: committee_hash(w.committees.get(key))),
    "custody_records": _record("custody", "records", lambda w, key: w.custody_records.get(key, custodians.Record())),
    "custody_checkpoints": _record(
        "custody", "checkpoints", lambda w, key: checkpoint_message(key[0], *w.custody_checkpoints[key])
    ),
    "stake_notes": _record("custody", "notes", lambda w, key: w.stake_notes.get(key, custodians.Note())),
    "custody_funds": _record("custody", "funds", lambda w, key: w.custody_funds.get(key, 0)),
    "custody_burned": _record("custody", "burned", lambda w, key: w.custody_burned.get(key, 0)),
    "disputes.claims": _kept("claims", records.claim_word),
    "disputes.nodes": _kept("nodes", records.node_word),
    "disputes.heavy": _kept("heavy", int, view="open_heavy"),
    "disputes.verdicts": _kept("verdicts", records.verdict_word),
    "disputes.finders": _kept("finders", records.finder_word),
    "disputes.seals": _kept("seals", int),
    "disputes.owed": _kept("owed", int),
    "disputes.burned": _kept("burned", int),
    "workloads": _record("admissions", "workloads", lambda w, key: w.workloads.get(key, Workload())),
    "entries": _entry_views,
    "trials": _trial_views,
    "scores": _record("admissions", "scores", lambda w, key: w.scores.get(key, 0)),
    "recalls": _record("admissions", "recalls", lambda w, key: w.recalls.get(key, Recall())),
    "recall_blocks": _record("admissions", "draws", lambda w, key: w.recall_blocks.get(key, 0)),
    "serving_seats": _record("serving", "seats", lambda w, key: w.serving_seats[key]),
    "receipts": _receipt_views,
    "receipt_shares": lambda w, key: iter(
        (View("serving", "finder_shares", (claim_hash(key),), w.receipt_shares.get(key, 0)),)
    ),
    "serving_burned": _only("serving", "burned", lambda w: w.serving_burned),
    "rate_posters": _only("credits", "poster", credits.poster_of),
    "rate": _only("credits", "rate", lambda w: w.rate),
    "rate_posted_at": _only("credits", "posted_at", lambda w: w.rate_posted_at),
    "zen_burned": _only("credits", "burned", lambda w: w.zen_burned),
    "pledges": _pledge_views,
    "credits_earned": _record("credits", "earned", lambda w, key: w.credits_earned.get(key, 0)),
    "mint_pool": _only("credits", "pool", lambda w: w.mint_pool),
    "mint_epochs": _record("credits", "epochs", lambda w, key: w.mint_epochs.get(key, MintEpoch())),
    "mint_shares": _record("credits", "shares", lambda w, key: w.mint_shares.get(key, 0)),
    "buckets": _record("treasury", "buckets", lambda w, key: w.buckets.get(key, 0)),
}


def expected_field(record: Any, name: str) -> Any:
    """A record's field as its contract shows it."""
    value = getattr(record, name)
    return stored_seal(value) if name == "seal" else value


def changed_keys(before: World, after: World) -> Iterator[tuple[str, Any]]:
    """Which keys of which dictionaries a step wrote or deleted; of what is no dictionary the key is None."""
    for name in VIEWS:
        of = attrgetter(name)
        old, new = of(before), of(after)
        if not isinstance(new, dict):
            if old != new:
                yield name, None
        elif old is not new and old != new:  # most are equal, which is soon seen
            for key in old.keys() | new.keys():
                was, now = old.get(key), new.get(key)
                if was is not now and was != now:
                    yield name, key
