"""What a terminal shows."""

from rich.console import Console


def lines_of(picture, width=200):
    """The lines that are shown, without what pads them."""
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(picture)
    return [line.rstrip() for line in captured.get().splitlines()]
