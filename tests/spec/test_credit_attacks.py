"""No attack on burn and mint pays: each is played on the specification, and its profit is at most what docs/design/burn-and-mint.md says."""

import pytest

from tests.support.attacks import Attack, play
from tests.support.credit_attacks import CREDIT_ATTACKS, new_stage
from zoo_compute.spec import credits, jobs
from zoo_compute.spec.params import fee_of
from zoo_compute.spec.state import MintEpoch, World

FEES = fee_of(4 * 100) + fee_of(50)  # of a lone bidder's job of one round, at its reserves


@pytest.mark.parametrize("attack", CREDIT_ATTACKS, ids=lambda attack: attack.title)
def test_attack__earns_no_more_than_its_bound(attack: Attack) -> None:
    outcome = play(attack)
    assert outcome.profit <= outcome.limit == 0
    assert outcome.how


def profit_of(title: str) -> int:
    (attack,) = [each for each in CREDIT_ATTACKS if each.title == title]
    return play(attack).profit


def test_the_table__names_every_attack_once() -> None:
    titles = [attack.title for attack in CREDIT_ATTACKS]
    assert len(titles) == len(set(titles)) >= 14


def test_wash_work__costs_the_fees_at_every_rate_and_in_every_epoch() -> None:
    for title in ("wash work", "a rate for friends", "a stale rate", "a rate that fell after the purchase"):
        assert profit_of(title) == -FEES
    assert profit_of("waiting for an empty epoch") == -FEES
    assert profit_of("wash work in a crowded epoch") < -FEES


def test_wash_work__without_the_cap__would_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mint that is paid out whole, whatever was burned."""

    def uncapped(w: World, account: str, net: int, fee: int, *, now: int) -> None:
        record(w, account, net, fee, now=now)
        epoch = credits.epoch_of(w, now)
        total = w.mint_epochs[epoch]
        more = w.config.preset.mint_per_epoch - total.budget
        w.mint_epochs[epoch] = MintEpoch(total.accepted, total.budget + more, total.paid)
        w.mint_pool -= more

    record = credits.record
    monkeypatch.setattr(credits, "record", uncapped)
    monkeypatch.setattr("tests.support.lockstep.stage.check_invariants", lambda world: None)
    monkeypatch.setattr(new_stage, "__defaults__", (10**24,))
    assert profit_of("wash work") > 0


def test_refunds__if_they_counted_as_work__would_bring_the_mint_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(w: World, job: int, kept: int = 0) -> None:
        refunded = w.jobs[job].escrow
        close(w, job, kept)
        credits.record(w, w.jobs[job].submitter, refunded, 0, now=0)

    close = jobs.close
    monkeypatch.setattr(jobs, "close", counted)
    with pytest.raises(AssertionError, match=r"earned|claim"):
        profit_of("a refund claimed as work")


def test_credits__that_accepted_work_did_not_use_up__would_pay_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "_used_up", lambda *_: 0)
    monkeypatch.setattr("tests.support.lockstep.stage.check_invariants", lambda world: None)
    with pytest.raises(AssertionError, match="expected 'erc20: transfer amount exceeds balance', got None"):
        profit_of("credits spent twice")
