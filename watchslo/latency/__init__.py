"""How late was it? Pure statistics of interval-censored latencies."""
