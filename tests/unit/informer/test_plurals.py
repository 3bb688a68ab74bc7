"""The naive plural that an informer exports is found for the plural that discovery names."""

import pytest

from watchslo.informer.plurals import informer_plurals


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Pod", "pods"),
        ("Endpoints", "endpoints"),
        ("Ingress", "ingresses"),
        ("IngressClass", "ingressclasses"),
        ("StorageClass", "storageclasses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Lease", "leases"),
        ("EndpointSlice", "endpointslices"),
        ("CSIStorageCapacity", "csistoragecapacities"),
        ("Sheep", "sheep"),
    ],
)
def test_plural_and_naive_plural_of_the_kind_are_known(kind: str, plural: str) -> None:
    known = informer_plurals(plural)
    assert plural in known
    assert f"{kind.lower()}s" in known
