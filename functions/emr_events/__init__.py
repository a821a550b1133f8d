"""State changes of Spark runs as a Lambda."""
