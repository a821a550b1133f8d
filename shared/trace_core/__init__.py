"""Trace: the rooms of the control plane, one folder for each concept."""
