"""Who takes part in a dispute: the claim's author, a stranger that defends the claim, and who asks about it."""

AUTHOR, DEFENDER, ASKER = "author", "defender", "asker"
AUTHORS, FALSE = "needs the operator's key", "the claim is false"  # why an ask is not answered
