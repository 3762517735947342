"""A few bodies on a tiled floor in a low sun: what `make demo-render` renders. x goes right, y up, z towards the camera; time is in seconds."""

import torch


def length(x, y, z):
    return torch.sqrt(x * x + y * y + z * z + 1e-9)


def ring(x, y, z, radius, thickness):
    """Lies in the plane of x and y."""
    outwards = torch.sqrt(x * x + y * y + 1e-9) - radius
    return torch.sqrt(outwards * outwards + z * z + 1e-9) - thickness


def melted(a, b, width):
    """Both bodies, joined by a soft seam."""
    share = torch.clamp(0.5 + 0.5 / width * (b - a), 0.0, 1.0)
    return b + share * (a - b - width + width * share)


def bodies(x, y, z, time):
    """The distance to each."""
    turn = 0.8 + 0.9 * time
    cosine, sine, right, front = torch.cos(turn), torch.sin(turn), x - 1.25, z + 0.2
    neck = 0.15 - 0.25 * torch.sin(2.5 * time)
    foot, head = length(x - 0.1, y + 0.62, z - 1.3) - 0.38, length(x - 0.1, y + neck, z - 1.3) - 0.24
    return {
        "floor": y + 1.0,
        "mirror": length(x + 1.15, y + 0.1, z + 0.5) - 0.9,
        "ring": ring(right * cosine + front * sine, y + 0.05, front * cosine - right * sine, 0.75, 0.2),
        "figure": melted(foot, head, 0.35),
        "bead": length(x + 1.1, y + 0.75, z - 1.45) - 0.25,
    }


def nearest(distances):
    first, *others = distances.values()
    for other in others:
        first = torch.minimum(first, other)
    return first


def scene(x, y, z, time):
    return nearest(bodies(x, y, z, time))


COLOURS = {
    "ring": (0.92, 0.42, 0.10),
    "figure": (0.10, 0.50, 0.46),
    "bead": (0.75, 0.10, 0.22),
    "mirror": (0.9, 0.9, 0.9),
}


def colour(x, y, z, time):
    distances = bodies(x, y, z, time)
    here = nearest(distances)
    tiles = 0.5 + 0.5 * torch.sign(torch.sin(2.2 * x) * torch.sin(2.2 * z))
    colours = (0.26 + 0.44 * tiles, 0.25 + 0.40 * tiles, 0.27 + 0.33 * tiles)
    for body, own in COLOURS.items():
        colours = [torch.where(distances[body] <= here, mine, other) for mine, other in zip(own, colours, strict=True)]
    return (*colours, torch.where(distances["mirror"] <= here, 0.92, 0.05))


def camera(time):
    turn = 0.25 * time - 0.2
    return (5.2 * torch.sin(turn), 1.5, 5.2 * torch.cos(turn)), (0.0, -0.25, 0.0)


def light(time):
    return (-0.75, 0.55, 0.6), (2.6, 1.9, 1.25)


def sky(x, y, z, time):
    height = torch.sqrt(torch.clamp(y, 0.0, 1.0))
    glow = 0.3 * torch.relu(0.6 * z - 0.75 * x) ** 3
    return 0.80 - 0.62 * height + glow, 0.62 - 0.34 * height + 0.6 * glow, 0.62 - 0.02 * height + 0.2 * glow
