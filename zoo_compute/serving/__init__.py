"""What an operator that answers requests and its client share: the file of a service, questions, their execution, receipts. No torch."""
