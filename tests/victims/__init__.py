"""Jobs that tests kill, stop, freeze and starve."""
