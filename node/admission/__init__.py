"""What a machine shows before it is trusted: conformance, speed, the trial of its admission."""
