"""Who gives what the ports ask for."""
