"""Ways to show a result: JSON records and terminal text. Nothing here computes what it shows."""
