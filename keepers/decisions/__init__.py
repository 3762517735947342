"""What an operator owes a job: pure decisions over one snapshot of the chain."""
