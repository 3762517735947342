"""The SDK: submit jobs, follow them, fetch what they trained."""
