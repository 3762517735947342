"""The key of queues that live in one process of a test."""

from keepers.queue.seals import KEY_BYTES, Seals

SEALS = Seals(bytes(KEY_BYTES))
