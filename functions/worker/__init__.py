"""Work of `runtime: worker` as a Lambda."""
