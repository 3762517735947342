"""The operator's work queue: broker, Celery application, what runs and what was lost."""
