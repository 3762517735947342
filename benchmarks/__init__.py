"""One file per question. Peers are measured in the same run."""
