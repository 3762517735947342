"""An operator from its owner's side: registration, balances, admission, readiness."""
