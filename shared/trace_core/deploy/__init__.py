"""From a checked DAG file to a version that runs."""
