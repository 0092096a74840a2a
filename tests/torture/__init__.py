"""Kills, dying disks and cut power: what may happen to a run, and what must not."""
