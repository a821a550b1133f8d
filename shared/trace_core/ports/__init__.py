"""What the rooms need from outside, named by the need; adapters give it."""
