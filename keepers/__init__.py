"""The operator's Celery application: watch the chain, decide, dispatch to own GPU workers, commit, withdraw."""
