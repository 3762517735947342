"""What a keeper does: each lane reads the chain, asks its workers, and sends transactions."""
