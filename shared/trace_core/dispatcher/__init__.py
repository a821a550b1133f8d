"""The Dispatcher: runs control operators, moves what is due, and sweeps up what was stranded."""
