"""Training: FLOP-counting conventions, the step as a ledger, its memory, what is sent, and the best plan."""
