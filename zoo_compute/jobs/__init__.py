"""A job before it is on chain: configuration, prices, files, submission."""
