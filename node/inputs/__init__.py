"""What a slot-round starts from: bundles, checkpoints and updates, fetched and checked against their roots."""
