"""Evidence and openings: what is shown on chain about a claim."""
