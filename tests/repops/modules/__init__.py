"""What is traced and what is refused: one list of cases, from which docs/guides/tracing.md is made (`python -m tests.repops.modules`)."""
