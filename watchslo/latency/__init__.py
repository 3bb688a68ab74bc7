"""Statistics of interval-censored latencies, without I/O."""
