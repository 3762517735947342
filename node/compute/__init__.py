"""What a slot-round computes on this machine: training, aggregation, re-execution."""
