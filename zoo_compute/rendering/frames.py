"""The folder that a rendering's frames are written to, one PNG each, and the film of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

from repops.commitments import Array
from zoo_compute.atomic import write_atomically
from zoo_compute.errors import UserError
from zoo_compute.rendering.layout import Layout
from zoo_compute.rendering.pictures import Picture, png

RECORD = "rendering.json"
FILM = "film.mp4"


class FramesFolder:
    """Belongs to one rendering: a scene's file and a layout. Raises UserError where the folder has other frames."""

    def __init__(self, path: Path, scene: Path, layout: Layout) -> None:
        self.path, self.layout = path.expanduser(), layout
        self._content = {"scene": sha256(scene.read_bytes()).hexdigest(), "layout": layout.numbers}
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{path} is no folder", hint="choose another --out")
        record = self.path / RECORD
        if record.exists():
            if _read(record) != self._content:
                raise UserError(
                    f"{path} has the frames of another rendering (other frames, size, samples or scene)",
                    hint="choose another --out, or remove that folder",
                )
        elif next(self.path.glob("*.png"), None) is not None:
            raise UserError(f"{path} has pictures that are no rendering's", hint="choose another --out")

    def begin(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / RECORD, (json.dumps(self._content) + "\n").encode(), mode=0o644)

    def file(self, frame: int) -> Path:
        return self.path / f"{frame:06d}.png"

    def draw(self, frame: int, rows: Array) -> None:
        """Write what is there of a frame. rows: what the renderer made of its first items, (N, pixels of a tile, 3)."""
        first, picture = self.layout.items_of(frame).start, Picture(self.layout)
        picture.add(self.layout.items[first : first + len(rows)], rows)
        write_atomically(self.file(frame), png(picture.pixels()), mode=0o644)

    def film(self) -> Path | None:
        """All frames as a film; None where there is no ffmpeg. Raises UserError where it fails."""
        program = shutil.which("ffmpeg")
        if program is None:
            return None
        made = self.path / FILM
        options = ["-framerate", str(self.layout.fps), "-start_number", str(self.layout.first), "-i", "%06d.png"]
        output = ["-pix_fmt", "yuv420p", "-movflags", "+faststart", made.name]
        command = [program, "-nostdin", "-loglevel", "error", "-y", *options, *output]
        ended = subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise UserError(f"ffmpeg failed: {ended.stderr.strip()[-400:]}", hint=f"the frames are in {self.path}")
        return made


def _read(record: Path) -> object:
    try:
        return json.loads(record.read_bytes())
    except ValueError:
        return None
