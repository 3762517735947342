"""Random walks over contracts and specification from fixed seeds. `make campaign` walks on from others."""

import subprocess
import sys

import pytest

from tests.stateful.machine import ProtocolWalk, WalkFailed, walk_from
from tests.stateful.rules import shrink
from tests.support.lockstep.contract_mirror import Disagreement
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import Stage

# As many as it takes to meet all of the below: with 64 nothing was sealed twice.
SEEDS, STEPS = range(96), 80

# What walks must find by themselves; the directed sequences reach the rest (tests/differential).
MUST_ACCEPT = {
    *(f"registry.{name}" for name in ("withdraw", "declare", "declare_region", "heartbeat", "breach")),
    *(f"tasks.{name}" for name in ("post", "withdraw")),
    *(f"auction.{name}" for name in ("bid", "reveal", "reopen", "clear", "award", "reclaim")),
    *(f"settlement.{name}" for name in ("ready", "decline", "commit", "time_out", "take_over", "post_checkpoint")),
    *(f"settlement.{name}" for name in ("abandon", "finalise", "open_dispute", "close_dispute")),
    *(
        f"referee.{name}"
        for name in ("ask_claim", "ask", "answer", "answer_stage", "judge", "expire", "close", "settle")
    ),
    *(f"referee.{name}" for name in ("withdraw", "seal", "open_seal", "reward")),
    *(f"availability.{name}" for name in ("demand", "demand_of_signer", "answer", "close")),
    *(f"audits.{name}" for name in ("deposit", "pay_out", "offer", "leave", "fund", "refund", "draw_units")),
    *(f"audits.{name}" for name in ("give_verdicts", "settle_verdicts", "withdraw")),
    *(f"admissions.{name}" for name in ("enter", "answer", "settle", "close_dispute", "recall", "lapse")),
    *(
        f"custody.{name}"
        for name in ("request", "fund", "refund", "deposit", "withdraw", "note_stake", "offer", "retire")
    ),
    *(f"custody.{name}" for name in ("schedule", "draw", "note_key", "resign", "hold_start")),
    *(f"custody.{name}" for name in ("hold_inputs", "leave_out", "post_checkpoint", "hold_turn")),
    *(f"custody.{name}" for name in ("count", "lapse", "forfeit", "expel", "release")),
    *("locks.release", "rewards.fund", "rewards.redeem", "datasets.cite", "treasury.collect", "treasury.fund"),
    *("registry.offer_owner", "registry.accept_owner", "guardian.pause"),
}
MUST_CHANGE = {
    *("job: RUNNING>ENDED", "claim: PENDING>PAID", "claim: PENDING>CONVICTED", "claim: PENDING>VOID"),
    *(f"dispute: EXPLORED>{end}" for end in ("FINAL", "JUDGED", "SILENT")),
    *("custodian: OFFERED>CUSTODIAN", "custodian: CUSTODIAN>LEFT", "record: SHORT>INPUTS", "record: INPUTS>CHECKPOINT"),
    *("demand: NONE>OPEN", "demand: OPEN>ENDED", "draw: NAMED>DRAWN", "verdicts: GIVEN>ENDED"),
}
# Of the referee, which the reasons of docs/protocol that a walk reaches do not count.
MUST_REFUSE = {
    *("window closed", "work does not match", "result does not match", "no such slot", "not of this kind"),
    *("fee too small", "asked already", "not the committer", "not pending", "out of time"),
    *("time left", "not final", "not resolved", "nothing owed", "sealed already", "no such seal", "not open to seals"),
    *("nothing to reward",),
}


@pytest.mark.long
def test_random_walks__contracts_and_specification_agree_and_money_is_conserved() -> None:
    coverage = Coverage()
    for seed in SEEDS:
        walk_from(seed, STEPS, coverage)
    print(coverage.summary())
    assert set(coverage.accepts) >= MUST_ACCEPT, MUST_ACCEPT - set(coverage.accepts)
    assert set(coverage.transitions) >= MUST_CHANGE, MUST_CHANGE - set(coverage.transitions)
    refused = {reason.removeprefix("referee: ") for reason in coverage.reasons}
    assert refused >= MUST_REFUSE, MUST_REFUSE - refused
    assert coverage.unlisted() == {}


def test_a_walk_that_fails__is_told_by_the_steps_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = Stage.attempt

    def wrong(self: Stage, contract: str, function: str, *args: object, value: int = 0) -> str | None:
        if function == "bid":
            raise Disagreement("planted")
        return attempt(self, contract, function, *args, value=value)  # type: ignore[arg-type]

    monkeypatch.setattr(Stage, "attempt", wrong)
    with pytest.raises(WalkFailed, match=r"seed 1: planted\n") as caught:
        walk_from(1, 20, Coverage())
    assert len(str(caught.value).splitlines()) <= 3  # a job to bid for, and what bids


def test_no_rule_of_a_walk__hides_another_concepts() -> None:
    """A rule by the same name in another class would never be drawn."""
    concepts = [each for each in ProtocolWalk.__mro__ if each.__module__.startswith("tests.stateful.")]
    rules = [name for each in concepts for name, method in vars(each).items() if hasattr(method, "choices")]
    assert sorted(set(rules)) == sorted(rules)


def test_shrinking__leaves_the_steps_that_a_failure_needs() -> None:
    needs = {3, 17}
    steps = [(str(index), {}) for index in range(40)]
    shrunk = shrink(steps, lambda some: AssertionError() if needs <= {int(name) for name, _ in some} else None)
    assert [int(name) for name, _ in shrunk] == sorted(needs)


def test_the_same_seed__takes_the_same_walk() -> None:
    first, second = Coverage(), Coverage()
    walk_from(2, 20, first)
    walk_from(2, 20, second)
    assert first.pairs == second.pairs
    assert first.accepts == second.accepts


@pytest.mark.parametrize(("seed", "steps"), [(12, 20), pytest.param(14, 300, marks=pytest.mark.long)])
def test_a_walk__on_revm_and_on_py_evm__has_the_same_results_logs_and_gas(seed: int, steps: int) -> None:
    """In a process of its own, whose chain is both."""
    command = [sys.executable, "-m", "tests.stateful.evms", "--seed", str(seed), "--steps", str(steps)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert int(done.stdout) > 5 * steps, "calls that were compared"
