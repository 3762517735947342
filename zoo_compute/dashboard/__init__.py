"""`zoo dashboard`: a page on this machine that shows jobs, operators, the network and disputes, from an index of the chain's events."""
