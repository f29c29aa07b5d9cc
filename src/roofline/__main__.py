"""`python -m roofline`, and the command `roofline`."""

from __future__ import annotations

import os


def start() -> None:
    """Run the command line; an interrupt while it still loads ends it as one later does, with 130."""
    try:
        from roofline.cli import main

        main()
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    start()
