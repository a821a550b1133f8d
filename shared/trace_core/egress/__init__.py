"""The way out for operators: they reach one named upstream through it, and never see its key."""
