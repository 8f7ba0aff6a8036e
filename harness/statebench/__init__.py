"""STATE-Bench: what its training runs show, and how well it can be found again."""
