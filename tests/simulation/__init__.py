"""The real services on real Postgres, under a virtual clock and seeded faults."""
