"""Many runs of one job on many machines: what begins them, watches them and says how it all ended."""
