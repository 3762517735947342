"""A model of the clocks of openings: all small trees exhaustively, large ones at random (docs/design/clocks.md)."""
