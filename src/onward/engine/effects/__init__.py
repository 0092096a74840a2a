"""An effect in a run: its turns at the worker, its course, and its calls."""
