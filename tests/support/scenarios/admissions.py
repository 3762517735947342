"""Directed sequences about trials, admission and recalls; see `opening`."""

from dataclasses import replace

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage, block_hash
from tests.support.scenarios.auctions import AGGREGATORS, scenario
from zoo_compute.spec import admissions
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import MAX_FLOPS, MAX_STEPS, MAX_VRAM_GB, MAX_WORKLOADS
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS, Workload

ROOT = b"r" * 32
WORK = Workload(b"p" * 32, b"s" * 32, 64, 10**15)


def small(s: Stage) -> None:
    """A datacenter operator of 48 GB, a professional one, and a workload that both are large enough for."""
    s.register("alice", gpu_class=3)
    s.register("bob", gpu_class=2)
    s.ok("admissions", "set_workload", "deployer", 40, WORK)


def no(s: Stage, reason: str, function: str, sender: str, *args: object) -> None:
    s.no(f"admissions: {reason}", "admissions", function, sender, *args)


def seed(s: Stage, name: str) -> bytes:
    entry = s.world.entries[s.ids[name]]
    return admissions.seed(block_hash(entry.block), s.ids[name], admissions.workload_of(s.world, s.ids[name]))


def enter(s: Stage, name: str) -> None:
    s.ok("admissions", "enter", f"{name} hot", s.ids[name])


def answered(s: Stage, name: str, seconds: int = 5, root: bytes = ROOT) -> Claim:
    """The operator enters a trial and answers it so many seconds later."""
    enter(s, name)
    s.mine(2)
    s.wait(seconds)
    s.ok("admissions", "answer", f"{name} hot", s.ids[name], seed(s, name), root)
    return s.world.trials[s.ids[name]].claim


def trial_deadline(s: Stage, claim: Claim) -> int:
    return s.world.trials[claim.operator].deadline


def admitted(s: Stage, name: str) -> None:
    claim = answered(s, name)
    s.to(trial_deadline(s, claim) + 1)
    s.ok("admissions", "settle", "stranger", claim)


def admit(s: Stage, name: str) -> None:
    """The operator's machine is, by a workload that all are large enough for."""
    s.ok("admissions", "set_workload", "deployer", 1, WORK)
    admitted(s, name)


def lapsed(s: Stage, name: str) -> None:
    """Recalled and silent."""
    drawn_epoch(s, name)
    s.ok("admissions", "recall", "stranger", s.ids[name])
    s.to(s.world.recalls[s.ids[name]].due + 1)
    s.ok("admissions", "lapse", "stranger", s.ids[name])


def drawn_epoch(s: Stage, name: str) -> None:
    """The first epoch from here on whose draw picks the operator; its draw's block is known."""
    for _ in range(200):
        epoch = s.now // s.preset.epoch_s + 1
        s.to(epoch * s.preset.epoch_s)
        if admissions.is_drawn(block_hash(s.block + 1), epoch, s.ids[name]):
            break
        s.mine(1)
    s.ok("admissions", "schedule", "stranger")
    s.mine(2)


@scenario
def workloads_are_the_governors_and_an_operators_is_the_largest_that_fits(s: Stage) -> None:
    alice = s.register("alice", gpu_class=3)
    no(s, "no workload", "enter", "alice hot", alice)
    no(s, "not the governor", "set_workload", "guardian", 0, Workload())
    for vram_gb in (0, MAX_VRAM_GB + 1):
        no(s, "VRAM out of range", "set_workload", "deployer", vram_gb, Workload())
    for steps in (0, MAX_STEPS + 1):
        no(s, "steps out of range", "set_workload", "deployer", 8, replace(WORK, steps=steps, flops=0))
    for flops in (0, MAX_FLOPS + 1):
        no(s, "flops out of range", "set_workload", "deployer", 8, replace(WORK, flops=flops))
    s.ok("admissions", "set_workload", "deployer", MAX_VRAM_GB, replace(WORK, flops=MAX_FLOPS, steps=MAX_STEPS))
    s.ok("admissions", "set_workload", "deployer", 49, WORK)
    no(s, "no workload", "enter", "alice hot", alice)
    for vram_gb in (48, 16, 40):
        s.ok("admissions", "set_workload", "deployer", vram_gb, replace(WORK, steps=vram_gb))
    assert admissions.workload_of(s.world, alice).steps == 48
    enter(s, "alice")
    for vram_gb in range(100, 100 + MAX_WORKLOADS - 5):
        s.ok("admissions", "set_workload", "deployer", vram_gb, WORK)
    no(s, "too many workloads", "set_workload", "deployer", 99, WORK)
    s.ok("admissions", "set_workload", "deployer", 48, replace(WORK, steps=1))


@scenario
def a_trial_is_answered_under_a_seed_that_its_entry_did_not_know(s: Stage) -> None:
    small(s)
    alice, bob, answer = s.ids["alice"], s.ids["bob"], "answer"
    for sender in ("alice owner", "bob hot"):
        no(s, "operator not eligible", "enter", sender, alice)
        no(s, "operator not eligible", answer, sender, alice, ROOT, ROOT)
    no(s, "operator not eligible", "enter", "alice hot", 99)
    no(s, "not entered", answer, "alice hot", alice, ROOT, ROOT)
    enter(s, "alice")
    enter(s, "bob")
    assert seed(s, "alice") != seed(s, "bob")
    no(s, "block hash not known", answer, "alice hot", alice, seed(s, "alice"), ROOT)
    s.mine(1)
    no(s, "block hash not known", answer, "alice hot", alice, seed(s, "alice"), ROOT)
    s.mine(1)
    for wrong in (seed(s, "bob"), block_hash(s.block - 1), bytes(32)):
        no(s, "seed does not match", answer, "alice hot", alice, wrong, ROOT)
    s.wait(s.preset.benchmark_s)
    s.ok("admissions", answer, "bob hot", bob, seed(s, "bob"), ROOT)
    no(s, "not entered", answer, "bob hot", bob, seed(s, "alice"), ROOT)
    no(s, "entry still open", "enter", "alice hot", alice)
    s.wait(1)
    no(s, "answer too late", answer, "alice hot", alice, seed(s, "alice"), ROOT)
    no(s, "trial pending", "enter", "bob hot", bob)
    enter(s, "alice")
    s.mine(2 + 256)
    no(s, "block hash not known", answer, "alice hot", alice, seed(s, "alice"), ROOT)
    s.wait(s.preset.benchmark_s + 1)
    enter(s, "alice")
    s.mine(1 + 256)
    before = seed(s, "alice")
    s.ok("admissions", "set_workload", "deployer", 40, replace(WORK, state_root=ROOT))
    no(s, "seed does not match", answer, "alice hot", alice, before, ROOT)
    s.ok("admissions", answer, "alice hot", alice, seed(s, "alice"), ROOT)


@scenario
def a_trial_that_stood_admits_and_only_then_the_class_counts(s: Stage) -> None:
    small(s)
    alice = s.ids["alice"]
    claim = answered(s, "alice", seconds=7)
    assert s.world.trials[alice].deadline == s.now + max(s.preset.min_window_s, 3 * s.preset.benchmark_s)
    for forged in (
        replace(claim, operator=s.ids["bob"]),
        replace(claim, turn=s.ids["bob"]),
        replace(claim, round=1),
        replace(claim, root=b"x" * 32),
    ):
        no(s, "unknown trial", "settle", "stranger", forged)
    s.to(trial_deadline(s, claim))
    no(s, "window open", "settle", "stranger", claim)
    s.wait(1)
    s.ok("admissions", "settle", "stranger", claim)
    assert (s.world.scores[alice], s.operator("alice").is_admitted) == (10**15 // 7, True)
    no(s, "unknown trial", "settle", "stranger", claim)
    again = answered(s, "alice", seconds=0)
    assert s.world.trials[alice].score == WORK.flops
    s.ok("registry", "request_exit", "alice owner", alice)
    no(s, "operator not eligible", "enter", "alice hot", alice)
    s.to(max(s.operator("alice").exit_at, trial_deadline(s, again) + 1))
    s.ok("registry", "withdraw_stake", "alice owner", alice)
    assert not s.operator("alice").is_admitted
    no(s, "nothing staked", "settle", "stranger", again)
    s.ok("registry", "add_stake", "alice owner", alice, s.preset.min_stake)
    s.ok("admissions", "settle", "stranger", again)
    s.no("registry: not a protocol contract", "registry", "set_admitted", "alice owner")


@scenario
def a_false_trial_costs_the_admission_and_a_fifth_of_the_stake(s: Stage) -> None:
    small(s)
    alice = s.ids["alice"]
    admitted(s, "alice")
    claim = answered(s, "alice")
    finder = s.accounts["stranger"]
    for function, args in (("open_dispute", ()), ("close_dispute", (2, 0, 0)), ("reward_finder", (finder,))):
        no(s, "not the referee", function, "stranger", TRIALS, claim, *args)
    s.to(trial_deadline(s, claim))
    opened(s, claim)
    s.wait(1)
    no(s, "in dispute", "settle", "stranger", claim)
    no(s, "unknown trial", "open_dispute", "referee", TRIALS, replace(claim, price=9))
    closed(s, replace(claim, price=9), End.JUDGED)
    closed(s, claim, End.JUDGED)
    assert not s.operator("alice").is_admitted
    assert s.world.scores[alice] == 0
    assert s.operator("alice").stake == s.preset.min_stake * 4 // 5
    closed(s, claim, End.JUDGED)
    # Two fifths of it are kept for whoever found it, who is paid once.
    zen, share = s.tokens["zen"], s.preset.min_stake // 5 * 2 // 5
    before = s.world.balances[zen, finder]
    assert (s.world.trial_shares[claim], s.world.pots[zen]) == (share, share)
    for _ in range(2):
        s.ok("admissions", "reward_finder", "referee", TRIALS, claim, finder)
        assert s.world.balances[zen, finder] - before == share
    assert s.world.burned[zen] == s.preset.min_stake // 5 - share
    assert s.operator("alice").stake == s.preset.min_stake * 4 // 5
    no(s, "operator not eligible", "enter", "alice hot", alice)
    s.ok("registry", "add_stake", "alice owner", alice, s.preset.min_stake)
    later = answered(s, "alice")
    closed(s, claim, End.JUDGED)
    s.to(trial_deadline(s, later))
    opened(s, later)
    closed(s, later, End.FINAL)
    s.wait(1)
    s.ok("admissions", "settle", "stranger", later)


@scenario
def a_trial_ends_as_its_dispute_does(s: Stage) -> None:
    small(s)
    alice = s.ids["alice"]
    for end, costs in ((End.AGED, 0), (End.SILENT, 1), (End.EXHAUSTED, 1)):
        s.ok("registry", "add_stake", "alice owner", alice, s.preset.min_stake)
        admitted(s, "alice")
        stake, claim = s.operator("alice").stake, answered(s, "alice")
        opened(s, claim)
        closed(s, claim, end)
        assert (s.operator("alice").stake, s.operator("alice").is_admitted) == (stake - costs * stake // 5, not costs)
        no(s, "unknown trial", "settle", "stranger", claim)


def opened(s: Stage, claim: Claim) -> None:
    s.ok("admissions", "open_dispute", "referee", TRIALS, claim)


def closed(s: Stage, claim: Claim, end: End) -> None:
    s.ok("admissions", "close_dispute", "referee", TRIALS, claim, int(end), 0, 0)


@scenario
def chance_recalls_the_admitted_and_who_does_not_answer_lapses(s: Stage) -> None:
    small(s)
    alice, bob = s.ids["alice"], s.ids["bob"]
    no(s, "not scheduled", "recall", "stranger", alice)
    no(s, "not recalled", "lapse", "stranger", alice)
    admitted(s, "alice")
    drawn_epoch(s, "alice")
    no(s, "already scheduled", "schedule", "stranger")
    no(s, "not admitted", "recall", "stranger", bob)
    s.ok("admissions", "recall", "stranger", alice)
    due = s.world.recalls[alice].due
    assert due == s.now + 2 * s.preset.benchmark_s
    no(s, "already recalled", "recall", "stranger", alice)
    claim = answered(s, "alice")
    assert s.world.recalls[alice].due == 0
    no(s, "trial pending", "recall", "stranger", alice)
    no(s, "not recalled", "lapse", "stranger", alice)
    s.to(max(trial_deadline(s, claim) + 1, due + 1))
    s.ok("admissions", "settle", "stranger", claim)
    drawn_epoch(s, "alice")
    s.ok("admissions", "recall", "bob hot", alice)
    due = s.world.recalls[alice].due
    assert s.world.recalls[alice].caller == s.accounts["bob hot"]
    s.to(due)
    no(s, "recall not over", "lapse", "stranger", alice)
    drawn_epoch(s, "alice")
    no(s, "already recalled", "recall", "stranger", alice)
    zen, stake, accounts = s.tokens["zen"], s.operator("alice").stake, ("bob hot", "stranger")
    before = [s.world.balances[zen, s.accounts[name]] for name in accounts]
    s.ok("admissions", "lapse", "stranger", alice)
    assert (s.operator("alice").is_admitted, s.world.scores[alice]) == (False, 0)
    # It costs 1 % of the stake; half of that goes to whoever recalled, whoever calls.
    assert stake - s.operator("alice").stake == stake // 100
    assert [s.world.balances[zen, s.accounts[name]] for name in accounts] == [before[0] + stake // 200, before[1]]
    assert s.world.burned[zen] == stake // 200
    no(s, "not recalled", "lapse", "stranger", alice)


@scenario
def a_lapse_of_an_operator_that_could_not_answer_costs_it_its_admission_alone(s: Stage) -> None:
    small(s)
    alice = s.ids["alice"]
    admitted(s, "alice")
    drawn_epoch(s, "alice")
    s.ok("registry", "request_exit", "alice owner", alice)
    s.ok("admissions", "recall", "stranger", alice)
    no(s, "operator not eligible", "enter", "alice hot", alice)
    s.to(s.world.recalls[alice].due + 1)
    s.ok("admissions", "lapse", "stranger", alice)
    assert (s.operator("alice").stake, s.operator("alice").is_admitted) == (s.preset.min_stake, False)


@scenario
def a_recall_ends_when_its_operator_leaves_with_its_stake(s: Stage) -> None:
    """Else whoever comes back loses a part of the new stake, half of it to whoever recalled."""
    small(s)
    alice = s.ids["alice"]
    admitted(s, "alice")
    drawn_epoch(s, "alice")
    s.ok("registry", "request_exit", "alice owner", alice)
    s.ok("admissions", "recall", "stranger", alice)
    s.to(max(s.operator("alice").exit_at, s.world.recalls[alice].due + 1))
    stake = s.operator("alice").stake
    s.ok("registry", "withdraw_stake", "alice owner", alice)
    no(s, "not admitted", "lapse", "stranger", alice)
    s.ok("registry", "add_stake", "alice owner", alice, stake)
    no(s, "not admitted", "lapse", "stranger", alice)
    # It can be admitted again, and then recalled.
    admitted(s, "alice")
    assert s.world.recalls[alice].due == 0
    no(s, "not recalled", "lapse", "stranger", alice)
    drawn_epoch(s, "alice")
    s.ok("admissions", "recall", "stranger", alice)
    assert s.operator("alice").stake == stake


@scenario
def a_recall_is_asked_within_its_epoch_and_answered_once_in_it(s: Stage) -> None:
    small(s)
    alice = s.ids["alice"]
    admitted(s, "alice")
    s.to((s.now // s.preset.epoch_s + 1) * s.preset.epoch_s)
    while admissions.is_drawn(block_hash(s.block + 1), s.now // s.preset.epoch_s, alice):
        s.mine(1)
    s.ok("admissions", "schedule", "stranger")
    s.mine(1)
    no(s, "block hash not known", "recall", "stranger", alice)
    s.mine(1)
    no(s, "not drawn", "recall", "stranger", alice)
    s.mine(256)
    no(s, "block hash not known", "recall", "stranger", alice)
    drawn_epoch(s, "alice")
    s.ok("admissions", "recall", "stranger", alice)
    claim = answered(s, "alice", seconds=0)
    s.to(trial_deadline(s, claim) + 1)
    s.ok("admissions", "settle", "stranger", claim)
    no(s, "already recalled", "recall", "stranger", alice)
    s.to((s.now // s.preset.epoch_s + 1) * s.preset.epoch_s)
    no(s, "not scheduled", "recall", "stranger", alice)


@scenario
def work_of_an_operator_that_lapsed_weighs_as_a_consumers(s: Stage) -> None:
    small(s)
    s.register("carol")
    for name in AGGREGATORS:
        s.register(name)
    s.ok("rewards", "fund", "stranger", 10**6)
    s.ok("registry", "add_stake", "alice owner", s.ids["alice"], s.preset.min_stake)  # a lapse costs some of it
    slots = {"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(80, 2)}
    weights = []
    for change in (None, admitted, lapsed):
        if change:
            change(s, "alice")
        job = s.running(slots, AGGREGATORS, rounds=1)
        s.play_round(job)
        s.settle(job)
        epoch = s.now // s.preset.epoch_s
        weights.append(s.world.share(s.ids["alice"], epoch, job).weight)
    assert weights == [2 * 10**12, 6 * 10**12, 2 * 10**12]
