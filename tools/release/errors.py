"""What a release can fail with."""


class ReleaseError(Exception):
    """The release is refused; the message says why and what to do, in one sentence."""
