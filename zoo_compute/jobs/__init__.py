"""A job before it is on chain: its configuration, its price, its files, its submission."""
