"""Services of a keeper: each reads the chain, asks workers, and sends transactions."""
