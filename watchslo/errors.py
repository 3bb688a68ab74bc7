"""The errors a user may see: each message is one sentence with what, where and what to do."""


class WatchsloError(Exception):
    """Something the user can mend; its text is all they are shown."""


class ConfigError(WatchsloError):
    """A configuration that cannot be used."""


class ConnectError(WatchsloError):
    """Credentials or an address that cannot be used."""


class ServeError(WatchsloError):
    """An address that cannot be listened on, or a certificate that cannot be shown there."""


class UnavailableError(WatchsloError):
    """An answer that cannot be given at this moment; whoever asked may try again."""


def whereabouts(error: BaseException) -> str:
    """The kind of a mistake of ours and where it was raised: no values, which could be data of the cluster."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}" if trace else "unknown"
    return f"{type(error).__name__} in {where}"
