"""Ethereum's ABI with the standard library alone: EMR's workers have nothing else."""
