"""A simulated cluster, run as a process of its own; it shares no code with the client it tests."""
