"""EVM chains: follow, backfill and check them. Nothing in the core knows of this package."""
