"""A chain of our own on this machine, for tests, the demo and the bench: a real EVM node."""
