"""What a stranger's program costs here, measured before a bid: in a child process with limits, so that it can harm nothing else."""
