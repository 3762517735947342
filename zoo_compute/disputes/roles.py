"""Who takes part in a dispute: the claim's author, a stranger that defends the claim, and who asks about it."""

AUTHOR, DEFENDER, ASKER = "author", "defender", "asker"
