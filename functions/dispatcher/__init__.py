"""The Dispatcher as a Lambda."""
