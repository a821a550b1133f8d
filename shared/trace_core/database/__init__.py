"""Connections, transactions, named SQL, migrations: with adapters, the only place of psycopg."""
