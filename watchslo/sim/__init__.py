"""A simulated Kubernetes cluster that runs as its own process. It shares no code with the client under test."""
