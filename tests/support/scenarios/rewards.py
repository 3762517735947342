"""Directed sequences about network rewards and datasets; see `opening`. Walks over the same are in `test_rewards`."""

from tests.support.job_driver import Offer
from tests.support.lockstep.stage import Stage
from tests.support.scenarios.admissions import admit
from tests.support.scenarios.auctions import AGGREGATORS, SLOTS, scenario
from zoo_compute.spec import audit_ends, audits, rewards
from zoo_compute.spec.auditing import Role, Verdicts, verdicts_of
from zoo_compute.spec.params import CLAIM_EPOCHS, Flow
from zoo_compute.spec.state import Receipt

GBPS = 125_000_000  # bytes a second
ROOT = b"r" * 32
NAME, NO_NAME = b"zoo-dataset-v2".ljust(32, b"\0"), bytes(32)


def worked(s: Stage, **changes: int) -> tuple[int, int]:
    """A job of one round, settled; and the epoch in which it was."""
    job = s.running(SLOTS, AGGREGATORS, rounds=1, **changes)
    s.play_round(job)
    s.settle(job)
    return job, rewards.epoch_of(s.world, s.now)


def audited(s: Stage, job: int) -> None:
    """The auditors of the first turn's units call them clean; job and audits are settled."""
    s.wait(1)
    s.ok("audits", "draw_units", "stranger", job, 0)
    s.wait(s.preset.draw_blocks + 2)
    s.ok("audits", "draw_units", "stranger", job, 0)
    draw, claims = s.world.draws[job, 0], s.claims(job)
    units: dict[int, list[int]] = {}
    for claim in claims:
        for unit in audit_ends.units_of(claim):
            units.setdefault(audits.judge_of(s.world, draw, unit, claim.operator, Role.AUDITOR), []).append(unit)
    for operator, of in units.items():
        s.ok("audits", "give_verdicts", s.world.operator(operator).hot, job, 0, operator, verdicts_of(of, []))
    s.settle(job)
    for operator, of in units.items():
        args = (job, 0, operator, int(Role.AUDITOR), verdicts_of(of, []), claims, Verdicts())
        s.ok("audits", "settle_verdicts", "stranger", *args)


def to_epoch(s: Stage, epoch: int) -> None:
    s.to(epoch * s.preset.epoch_s)


@scenario
def rewards_share_an_epochs_budget_up_to_a_part_of_the_fees_paid(s: Stage) -> None:
    s.register_all()
    alice, bob = s.ids["alice"], s.ids["bob"]
    s.no("rewards: zero amount", "rewards", "fund", "stranger", 0)
    s.no("erc20: transfer amount exceeds balance", "rewards", "fund", "stranger", 2 * 10**27)
    # Bob's machine was shown, carol's was not.
    admit(s, "bob")
    job = s.running({"alice": Offer(60, 2), "bob": Offer(70, 2), "carol": Offer(80)}, AGGREGATORS, rounds=1)
    s.play_round(job)
    s.to(s.deadline(job, *s.claims(job)) + 1)
    epoch = rewards.epoch_of(s.world, s.now)
    s.ok("settlement", "finalise", "stranger", job, s.claims(job))
    for when, of in ((s.now, epoch), (s.now, epoch + 1), ((epoch + 1) * s.preset.epoch_s - 1, epoch)):
        s.to(when)
        s.no("rewards: epoch not over", "rewards", "claim", "stranger", alice, of, (job,))
    to_epoch(s, epoch + 1)
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", alice, epoch, (job,))  # the pool is empty
    s.ok("rewards", "fund", "stranger", 10)
    for operator, of in ((99, epoch), (s.ids["dave"], epoch), (alice, epoch - 1)):
        s.no("rewards: nothing to claim", "rewards", "claim", "stranger", operator, of, (job,))
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", alice, epoch, ())
    # Alice is consumer class (100 %), bob professional (150 %): of compute's 5 of a budget of 10 she gets 2, he 3.
    assert s.ok("rewards", "claim", "stranger", alice, epoch, (job,)) == 2
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", alice, epoch, (job,))
    s.ok("rewards", "fund", "stranger", 10**6)
    assert s.ok("rewards", "claim", "stranger", bob, epoch, (99, job, job)) == 3
    assert s.world.pool == 10**6


@scenario
def the_pool_moves_to_a_successor_but_for_what_open_epochs_may_pay(s: Stage) -> None:
    s.register_all()
    emission, successor = s.preset.emission_per_epoch, s.accounts["successor"]
    s.ok("rewards", "fund", "stranger", 3 * emission + 7)
    for sender in ("deployer", "guardian", "stranger"):
        s.no("rewards: not the governor", "rewards", "move_pool", sender, successor, 0)
    s.no("rewards: zero amount", "rewards", "move_pool", "timelock", successor, 0)
    s.ok("rewards", "move_pool", "timelock", successor, 1)
    job, epoch = worked(s)
    s.no("rewards: reserved for epochs", "rewards", "move_pool", "timelock", successor, 2 * emission + 7)
    s.ok("rewards", "move_pool", "timelock", successor, emission)
    to_epoch(s, epoch + CLAIM_EPOCHS)
    s.no("rewards: reserved for epochs", "rewards", "move_pool", "timelock", successor, emission + 7)
    room = (2 * 80 - 2 * 80 * 95 // 100) * 7 // 10
    assert s.ok("rewards", "claim", "stranger", s.ids["alice"], epoch, (job,)) == room
    # The budget is fixed now: it left the pool, and nothing else is reserved.
    s.no("rewards: reserved for epochs", "rewards", "move_pool", "timelock", successor, emission + 7)
    s.ok("rewards", "move_pool", "timelock", successor, emission + 6)
    assert s.world.pool == 0
    assert s.ok("rewards", "claim", "stranger", s.ids["bob"], epoch, (job,)) > 0


@scenario
def what_is_recorded_last_is_reserved_until_its_claims_expire(s: Stage) -> None:
    s.register_all()
    emission, successor = s.preset.emission_per_epoch, s.accounts["successor"]
    s.ok("rewards", "fund", "stranger", emission)
    _, epoch = worked(s)
    s.to((epoch + CLAIM_EPOCHS + 1) * s.preset.epoch_s - 1)
    s.no("rewards: reserved for epochs", "rewards", "move_pool", "timelock", successor, 1)
    s.wait(1)
    s.ok("rewards", "move_pool", "timelock", successor, emission)


@scenario
def a_reward_never_exceeds_its_part_of_the_fee_and_what_is_left_returns_to_the_pool(s: Stage) -> None:
    s.register_all()
    emission = s.preset.emission_per_epoch
    s.ok("rewards", "fund", "stranger", emission + 5)
    job, epoch = worked(s)
    room = (2 * 80 - 2 * 80 * 95 // 100) * 7 // 10
    to_epoch(s, epoch + CLAIM_EPOCHS)
    s.no("rewards: claims still open", "rewards", "recycle", "stranger", epoch)
    assert s.ok("rewards", "claim", "stranger", s.ids["alice"], epoch, (job,)) == room
    assert s.world.pool == 5
    to_epoch(s, epoch + CLAIM_EPOCHS + 1)
    s.no("rewards: epoch expired", "rewards", "claim", "stranger", s.ids["bob"], epoch, (job,))
    s.no("rewards: epoch expired", "rewards", "claim_data", "stranger", s.accounts["guardian"], job, epoch)
    assert s.ok("rewards", "recycle", "stranger", epoch) == emission - room
    s.no("rewards: nothing to recycle", "rewards", "recycle", "stranger", epoch)
    assert s.world.pool == emission + 5 - room


@scenario
def signs_of_life_and_receipts_are_paid_within_the_room_of_compute(s: Stage) -> None:
    s.register_all()
    s.ok("rewards", "fund", "stranger", 10)
    admit(s, "bob")
    job, epoch = worked(s)
    alice, bob, carol = (s.ids[name] for name in ("alice", "bob", "carol"))
    hot = {number: s.operator(name).hot for name, number in s.ids.items()}
    link = GBPS * s.preset.epoch_s

    def redeem(server: int, client: int, total: int, of: int = epoch, signer: int = 0) -> str | None:
        receipt = Receipt(hot[signer or client], server, signer or client, of, total)
        return s.attempt("rewards", "redeem", hot[server], server, client, of, total, receipt)

    receipt = Receipt(hot[bob], alice, bob, epoch, 5)
    s.no("rewards: not the hot key", "rewards", "redeem", hot[bob], alice, bob, epoch, 5, receipt)
    assert redeem(alice, bob, 5, epoch - 1) == "rewards: not the current epoch"
    assert redeem(alice, alice, 5) == "rewards: own receipt"
    assert redeem(alice, bob, 5, signer=carol) == "rewards: receipt not signed"
    assert redeem(alice, bob, 0) == "rewards: nothing new"
    assert redeem(alice, bob, link + 1) == "rewards: beyond the server's link"
    assert redeem(alice, bob, link - 1) is None
    assert redeem(carol, bob, 2) is None  # bob signed for more than its link carries
    assert redeem(alice, bob, link) == "rewards: signer has violated"
    assert s.operator("bob").stake == s.preset.min_stake * 99 // 100
    assert redeem(bob, alice, 7) is None
    for name in ("alice", "carol"):
        s.ok("registry", "heartbeat", f"{name} hot", s.ids[name])
    to_epoch(s, epoch + 1)
    # Alice: of compute's 5 her two parts of five, half of uptime's 2, and of bandwidth's 1 nothing whole; her room is 5.
    assert s.ok("rewards", "claim", "stranger", alice, epoch, (job,)) == 2 + 1
    # Bob: three of five parts, and nearly nothing of the bytes.
    assert s.ok("rewards", "claim", "stranger", bob, epoch, (job,)) == 3
    s.no("rewards: nothing to claim", "rewards", "claim", "stranger", carol, epoch, (job,))  # alive, and without work


@scenario
def audits_and_data_are_paid_from_their_jobs_own_fees(s: Stage) -> None:
    s.register_all()
    s.ok("rewards", "fund", "stranger", 10_000)
    submitter, erin, dave = s.accounts["submitter"], s.ids["erin"], s.ids["dave"]
    s.no("datasets: zero root", "datasets", "contribute", "guardian", bytes(32), ROOT, 0, NAME)
    for size in (0, 2**64):
        s.no("datasets: size out of range", "datasets", "contribute", "guardian", ROOT, ROOT, size, NAME)
    first = s.ok("datasets", "contribute", "guardian", ROOT, ROOT, 300, NAME)
    s.no("datasets: name taken", "datasets", "contribute", "stranger", ROOT, ROOT, 100, NAME)
    second = s.ok("datasets", "contribute", "stranger", ROOT, ROOT, 100, NO_NAME)
    for name in ("erin", "dave"):
        s.ok("audits", "deposit", f"{name} owner", s.ids[name], s.tokens["zen"], s.preset.audit_bond + 10**5)
        s.ok("audits", "offer", f"{name} owner", s.ids[name], 1)
    job = s.running(SLOTS, AGGREGATORS, rounds=1, audit_bps=10_000)
    s.ok("audits", "fund", "submitter", job, 1_000)
    s.no("datasets: not the submitter", "datasets", "cite", "stranger", job, (first,))
    s.no("datasets: nothing cited", "datasets", "cite", "submitter", job, ())
    s.no("datasets: unknown dataset", "datasets", "cite", "submitter", job, (first, 99))
    s.no("datasets: out of order", "datasets", "cite", "submitter", job, (second, first))
    s.no("datasets: nothing cited", "datasets", "score", "submitter", job, ())
    s.ok("datasets", "cite", "submitter", job, (first, second))
    s.no("datasets: already cited", "datasets", "cite", "submitter", job, (first,))
    s.play_round(job)
    s.no("datasets: job is over", "datasets", "cite", "submitter", job, (first,))
    s.no("datasets: job not settled", "datasets", "score", "submitter", job, (100, 100))
    audited(s, job)
    epoch, fees = rewards.epoch_of(s.world, s.now), s.world.job_fees[job].fees
    s.no("datasets: one score each", "datasets", "score", "submitter", job, (100,))
    s.no("datasets: score out of range", "datasets", "score", "submitter", job, (100, 101))
    s.ok("datasets", "score", "submitter", job, (100, 100))
    s.no("datasets: already scored", "datasets", "score", "submitter", job, (100, 100))
    assert (fees, s.world.job_fees[job].verification, s.world.job_fees[job].data) == (16, 3, 1)
    s.no("rewards: epoch not over", "rewards", "claim_verification", "stranger", erin, job, epoch)
    to_epoch(s, epoch + 1)
    shares = {of: s.world.works.get((Flow.VERIFICATION, of, job, epoch), 0) for of in (erin, dave)}
    for of, share in shares.items():
        if paid := 3 * share // sum(shares.values()):
            assert s.ok("rewards", "claim_verification", "stranger", of, job, epoch) == paid
        s.no("rewards: nothing to claim", "rewards", "claim_verification", "stranger", of, job, epoch)
    s.no("rewards: nothing to claim", "rewards", "claim_data", "stranger", submitter, job, epoch)
    # Three quarters of an allowance of 1 are nothing: data is paid where fees are larger.
    s.no("rewards: nothing to claim", "rewards", "claim_data", "stranger", s.accounts["guardian"], job, epoch)


@scenario
def a_dataset_is_paid_by_a_tenth_of_the_fee_of_the_job_that_cites_it(s: Stage) -> None:
    s.register_all()
    s.ok("rewards", "fund", "stranger", 10_000)
    dataset = s.ok("datasets", "contribute", "guardian", ROOT, ROOT, 2**64 - 1, NO_NAME)
    prices = dict.fromkeys(("reserve", "max_price", "aggregator_reserve", "aggregator_max_price"), 5_000)
    job = s.awarded({"alice": Offer(4_000, 4), "bob": Offer(4_500, 4)}, AGGREGATORS, rounds=1, **prices)
    s.ok("datasets", "cite", "submitter", job, (dataset,))
    s.ready(job, "alice")
    s.play_round(job)
    s.settle(job)
    epoch = rewards.epoch_of(s.world, s.now)
    s.ok("datasets", "score", "submitter", job, (50,))
    to_epoch(s, epoch + 1)
    fees = s.world.job_fees[job].fees
    assert fees == 4 * 4_500 * 5 // 100
    assert s.ok("rewards", "claim_data", "stranger", s.accounts["guardian"], job, epoch) == fees // 10 // 2
