"""The trusted operators and their catalog; what operator code sees of the platform."""
