"""Admissions: a class earns more once its machine passed a trial (docs/protocol/admissions.md).

How fast a machine is, wall time says: it computes while the chain is halted. Whether a trial is false, and whether a recall was
left unanswered, is read in the protocol's time.
"""

from dataclasses import replace

from eth_utils.crypto import keccak

from zoo_compute.spec import merkle, node_registry, params
from zoo_compute.spec.auditing import chance
from zoo_compute.spec.clocks import End
from zoo_compute.spec.disputed_claims import Terms
from zoo_compute.spec.frames import EMPTY, Work
from zoo_compute.spec.params import (
    BPS,
    FALSE_TRIAL_BPS,
    FINDER_BPS,
    LAPSE_BPS,
    MAX_FLOPS,
    MAX_STEPS,
    MAX_VRAM_GB,
    MAX_WORKLOADS,
    RECALL_BPS,
    RECALLER_BPS,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import ZERO_ADDRESS, Claim, Message, World
from zoo_compute.spec.trials import Entry, Recall, Trial, Workload


def window_s(w: World) -> int:
    """How long an answered trial can be disputed."""
    return params.window_s(w.config.preset, w.config.preset.benchmark_s, 1)


def workload_of(w: World, operator: int) -> Workload:
    """That of the largest VRAM size not above the operator's; the empty one when there is none."""
    fitting = [size for size in w.workloads if size <= w.operator(operator).vram_gb]
    return w.workloads[max(fitting)] if fitting else Workload()


def seed(block_hash: bytes, operator: int, workload: Workload) -> bytes:
    """Unknown at the entry, another for every operator, and for every change of the workload."""
    numbers = (operator.to_bytes(32, "big"), workload.steps.to_bytes(32, "big"), workload.flops.to_bytes(32, "big"))
    return keccak(block_hash + numbers[0] + workload.program_root + workload.state_root + numbers[1] + numbers[2])


def work_of(workload: Workload) -> Work:
    """As a job's: one program, segments of one step. Of a batch of zeros nobody asks which row is which example."""
    return Work((workload.program_root, EMPTY, EMPTY), workload.steps, 1, 0, 1)


def claim_of(operator: int, workload: Workload, seed: bytes, segment_root: bytes) -> Claim:
    """An answered trial as a claim of slot 0, at which nothing is paid. Its end and its update nobody asks for."""
    root = merkle.result_root(0, workload.state_root, segment_root, EMPTY, EMPTY)
    return Claim(operator, int.from_bytes(seed, "big"), 0, operator, 1, 0, workload.state_root, root)


def known(w: World, claim: Claim) -> Trial | None:
    """The answered trial, where it is this one."""
    trial = w.trials.get(claim.operator)
    return trial if trial is not None and trial.claim == claim else None


def is_drawn(block_hash: bytes, epoch: int, operator: int) -> bool:
    return chance(block_hash, epoch, operator) % BPS < RECALL_BPS


def set_workload(w: World, msg: Message, vram_gb: int, workload: Workload) -> None:
    require(msg.sender == w.config.governor, "admissions: not the governor")
    require(1 <= vram_gb <= MAX_VRAM_GB, "admissions: VRAM out of range")
    require(1 <= workload.steps <= MAX_STEPS, "admissions: steps out of range")
    require(1 <= workload.flops <= MAX_FLOPS, "admissions: flops out of range")
    require(vram_gb in w.workloads or len(w.workloads) < MAX_WORKLOADS, "admissions: too many workloads")
    w.workloads[vram_gb] = workload


def enter(w: World, msg: Message, operator: int) -> None:
    require(node_registry.is_eligible(w, operator, msg.sender), "admissions: operator not eligible")
    require(operator not in w.trials, "admissions: trial pending")
    require(
        msg.block_time > _entry(w, operator).entered_at + w.config.preset.benchmark_s, "admissions: entry still open"
    )
    require(workload_of(w, operator).steps > 0, "admissions: no workload")
    w.entries[operator] = Entry(msg.block_time, msg.block + 1)


def answer(w: World, msg: Message, operator: int, named: bytes, root: bytes) -> None:
    """The root found from the seed that the caller names; a recall is answered."""
    require(node_registry.is_eligible(w, operator, msg.sender), "admissions: operator not eligible")
    entry, workload = _entry(w, operator), workload_of(w, operator)
    require(entry.block != 0, "admissions: not entered")
    require(msg.block_time <= entry.entered_at + w.config.preset.benchmark_s, "admissions: answer too late")
    block_hash = _hash_of(w, entry.block)
    require(named == seed(block_hash, operator, workload), "admissions: seed does not match")
    seconds = max(1, msg.block_time - entry.entered_at)
    w.entries[operator] = Entry()
    claim = claim_of(operator, workload, named, root)
    w.trials[operator] = Trial(claim, work_of(workload).root, workload.flops // seconds, msg.now + window_s(w))
    w.recalls[operator] = replace(_recall(w, operator), due=0)


def dispute_terms(w: World, job: int, claim: Claim) -> Terms:
    """As of a job's claim: one slot, and a re-execution takes as long as an answer may."""
    trial = _require_pending(w, claim)
    return Terms(trial.work_root, w.config.preset.benchmark_s, 1, trial.deadline)


def open_dispute(w: World, msg: Message, job: int, claim: Claim) -> None:
    """A pending trial is not settled before its dispute is closed; `job` is TRIALS."""
    require(msg.sender == w.config.referee, "admissions: not the referee")
    w.trials[claim.operator] = replace(_require_pending(w, claim), is_disputed=True)


def close_dispute(w: World, msg: Message, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None:
    """A trial that nobody showed to be false can be settled; one without an end is neither admitted nor slashed."""
    require(msg.sender == w.config.referee, "admissions: not the referee")
    trial = known(w, claim)
    if trial is None:
        return
    if outcome == End.FINAL:
        w.trials[claim.operator] = replace(trial, is_disputed=False)
        return
    del w.trials[claim.operator]
    if outcome != End.AGED:
        _end(w, claim.operator)
        bps = FINDER_BPS if outcome == End.JUDGED else 0
        _, w.trial_shares[claim] = node_registry.slash_for(w, claim.operator, FALSE_TRIAL_BPS, bps, ZERO_ADDRESS)


def reward_finder(w: World, msg: Message, job: int, claim: Claim, finder: str) -> None:
    """What is kept of a judged trial's cost goes to the finder; of nobody, it burns."""
    require(msg.sender == w.config.referee, "admissions: not the referee")
    amount = w.trial_shares.get(claim, 0)
    if amount:
        w.trial_shares[claim] = 0
        node_registry.pay_share(w, finder, amount)


def settle(w: World, msg: Message, claim: Claim) -> None:
    """The trial stood: its operator is admitted."""
    trial = _require_pending(w, claim)
    require(not trial.is_disputed, "admissions: in dispute")
    require(msg.now > trial.deadline, "admissions: window open")
    require(w.operator(claim.operator).stake > 0, "admissions: nothing staked")
    del w.trials[claim.operator]
    w.scores[claim.operator] = trial.score
    node_registry.set_admitted(w, claim.operator, True)


def schedule(w: World, msg: Message) -> None:
    """The block that draws who is recalled in this epoch."""
    epoch = msg.block_time // w.config.preset.epoch_s
    require(epoch not in w.recall_blocks, "admissions: already scheduled")
    w.recall_blocks[epoch] = msg.block + 1


def recall(w: World, msg: Message, operator: int) -> None:
    epoch = msg.block_time // w.config.preset.epoch_s
    require(epoch in w.recall_blocks, "admissions: not scheduled")
    block_hash, last = _hash_of(w, w.recall_blocks[epoch]), _recall(w, operator)
    require(w.operator(operator).is_admitted, "admissions: not admitted")
    require(operator not in w.trials, "admissions: trial pending")
    require(last.due == 0 and last.epoch != epoch, "admissions: already recalled")
    require(is_drawn(block_hash, epoch, operator), "admissions: not drawn")
    w.recalls[operator] = Recall(epoch, msg.now + 2 * w.config.preset.benchmark_s, msg.sender)


def lapse(w: World, msg: Message, operator: int) -> None:
    """Who was recalled and did not answer: it loses a small part of its stake, half of it to whoever recalled it."""
    last = _recall(w, operator)
    require(last.due != 0, "admissions: not recalled")
    require(msg.now > last.due, "admissions: recall not over")
    require(w.operator(operator).is_admitted, "admissions: not admitted")  # who left with its stake, and came back
    _end(w, operator)
    if node_registry.is_eligible(w, operator, w.operator(operator).hot):  # else it could not answer
        node_registry.slash_for(w, operator, LAPSE_BPS, RECALLER_BPS, last.caller)


def _end(w: World, operator: int) -> None:
    w.recalls[operator] = replace(_recall(w, operator), due=0)
    w.scores[operator] = 0
    node_registry.set_admitted(w, operator, False)


def _entry(w: World, operator: int) -> Entry:
    return w.entries.get(operator, Entry())


def _recall(w: World, operator: int) -> Recall:
    return w.recalls.get(operator, Recall())


def _require_pending(w: World, claim: Claim) -> Trial:
    trial = known(w, claim)
    require(trial is not None, "admissions: unknown trial")
    assert trial is not None
    return trial


def _hash_of(w: World, block: int) -> bytes:
    block_hash = w.block_hashes.get(block)
    require(block_hash is not None, "admissions: block hash not known")
    assert block_hash is not None
    return block_hash
