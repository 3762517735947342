"""Rendering: a scene written in torch becomes pictures, computed as a map job whose items are tiles of frames."""
