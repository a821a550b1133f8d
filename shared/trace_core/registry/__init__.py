"""Datasets, versions and current pointers: the room of versioned data, which comes next."""
