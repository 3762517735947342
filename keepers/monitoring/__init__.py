"""What an operator sees of its processes: logs, metrics and health."""
