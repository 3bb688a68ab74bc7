"""The errors a user may see: each message is one sentence with what, where and what to do."""


class WatchsloError(Exception):
    """Something the user can mend; its text is all they are shown."""


class ConfigError(WatchsloError):
    """A configuration that cannot be used."""


class ConnectError(WatchsloError):
    """Credentials or an address that cannot be used."""


class ServeError(WatchsloError):
    """An address that cannot be listened on."""
