"""The machine room: attempts, the group commit, the worker, the feed and the children."""
