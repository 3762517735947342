"""What an operator that answers requests and its client share: services, questions, receipts, vouchers. No torch, no chain."""
