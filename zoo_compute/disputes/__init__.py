"""Evidence against claims, and openings of their data, as the contracts read them."""
