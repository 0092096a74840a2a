"""Who is let in: gates, ceilings, outages and refusals, and what they have in common."""
