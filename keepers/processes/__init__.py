"""The processes of an operator, and networks of several."""
