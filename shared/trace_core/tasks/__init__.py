"""Tasks: made from events, claimed, kept alive, completed, retried, reaped, metered."""
