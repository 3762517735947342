"""Written by programs: the compiled contracts and their typed bindings."""
