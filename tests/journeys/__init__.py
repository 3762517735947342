"""What the docs print, run as a newcomer would run it: `python -m tests.journeys` (`make journeys`)."""
