"""What must leave the database: rows written with the change that needs them, and their relay."""
