"""What a round computes: examples, updates, aggregation, the next checkpoint."""
