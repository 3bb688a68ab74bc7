"""The resources whose reactions are known."""

PODS, SLICES = "pods", "endpointslices.discovery.k8s.io"
WORKLOADS = frozenset({"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"})
"""Resources whose controllers always set `status.observedGeneration`."""
