"""Both sides of answers that are paid live: seats and channels on chain, books of vouchers, and who asks whom."""
