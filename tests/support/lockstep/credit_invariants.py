"""What must hold of credits after every step, in the words of money (docs/design/invariants.md)."""

from collections import Counter

from zoo_compute.spec.state import World


def credit_dues(w: World) -> Counter[str]:
    """What Credits has for somebody, and what was burned there."""
    mints = sum(epoch.budget - epoch.paid for epoch in w.mint_epochs.values())
    return Counter({w.config.zen: w.zen_burned + sum(w.pledges.values()) + w.mint_pool + mints})


def check_credits(w: World) -> None:
    """A credit is a ZEN that was put in for it; an epoch mints no more than its work used up, and all of it was owed."""
    token = w.config.credits
    supply = sum(amount for (of, _), amount in w.balances.items() if of == token)
    assert supply == w.zen_burned + sum(w.pledges.values()) - w.credits_used, f"{supply} credits, another sum of ZEN"
    for account, amount in w.credits_earned.items():
        assert amount <= w.owed.get((token, account), 0), f"{account} earned {amount} credits that nobody owes it"
    open_shares: Counter[int] = Counter()
    for (_, epoch), share in w.mint_shares.items():
        open_shares[epoch] += share
    for epoch, total in w.mint_epochs.items():
        most = min(w.config.preset.mint_per_epoch, total.accepted)
        assert total.paid <= total.budget <= most, f"epoch {epoch}: mints {total.budget} of {most}"
        assert open_shares[epoch] <= total.accepted, f"epoch {epoch}: shares are more than the whole"
        due = open_shares[epoch] * total.budget // max(1, total.accepted)
        assert due <= total.budget - total.paid or total.paid == total.budget, f"epoch {epoch}: a share is not covered"
