"""The adapters of AWS."""
