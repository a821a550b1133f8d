"""What datasets hold: their commits, what each was made from, and what can be read."""
