"""Everything between this package and the contracts: connection, reads, events, sending, keys, deployment."""
