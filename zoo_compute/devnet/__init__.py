"""A chain on this machine: anvil, with the protocol deployed."""
