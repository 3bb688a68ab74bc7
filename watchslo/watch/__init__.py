"""The list and watch protocol of Kubernetes, without I/O."""
