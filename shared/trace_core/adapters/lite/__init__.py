"""The adapters of one machine."""
