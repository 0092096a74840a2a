"""What the engine asks of the world, in prose. Adapters live in `sources`, `sinks` and `store`; `runner` joins them."""
