"""Seeded simulations: several runs on one store, and one record's attempts, with time and deaths made up."""
