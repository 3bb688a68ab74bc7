"""The errors that users see. Each message is one sentence: what is wrong, where, and what to do."""

UNDECODABLE = (ValueError, RecursionError)
"""What decoding of JSON from others raises: it is malformed, of another form or not UTF-8, or nested too deeply."""


class WatchsloError(Exception):
    """An error that the user can correct; only its text is shown."""


class ConfigError(WatchsloError):
    """A configuration that cannot be used."""


class ConnectError(WatchsloError):
    """Credentials or an address that cannot be used."""


class ServeError(WatchsloError):
    """An address that cannot be listened on, or a certificate that cannot be used there."""


class UnavailableError(WatchsloError):
    """An answer that is not available at this moment; the client may try again."""


def error_location(error: BaseException) -> str:
    """Return the type of an internal error and where it was raised, without values, which could be cluster data."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}" if trace else "unknown"
    return f"{type(error).__name__} in {where}"


def install_extra(extra: str) -> str:
    """Return how to install an optional part, for an error."""
    return f"pip install 'watchslo[{extra}]', or pipx install --force 'watchslo[{extra}]' if pipx installed it"
