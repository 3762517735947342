"""One file a question, peers measured in the same run."""
