"""How informers write the plural of a resource: the kind in lower case and an `s`, whatever the kind."""


def informer_plurals(plural: str) -> tuple[str, ...]:
    """Return the ways in which an informer may write a resource: its plural, and the naive plurals of its kind.

    The kind is not needed: `ingresses` are of an `ingress` or an `ingresse`, so `ingresss` means nothing else.
    """
    kinds = [plural]
    if plural.endswith("s"):
        kinds.append(plural.removesuffix("s"))
    if plural.endswith("es"):
        kinds.append(plural.removesuffix("es"))
    if plural.endswith("ies"):
        kinds.append(plural.removesuffix("ies") + "y")
    return tuple(dict.fromkeys((plural, *(f"{kind}s" for kind in kinds))))
