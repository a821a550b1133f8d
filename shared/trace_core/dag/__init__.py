"""The DAG file: text with positions -> checked model, its graph, its filters and its fingerprints.

`load.load_dag` is the way in. This room sees the kernel only; which operators exist is an argument.
"""
