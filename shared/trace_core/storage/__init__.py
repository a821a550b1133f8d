"""Rows and objects of dataset versions: written under a fence, read at a pin."""
