"""The section `server`: where metrics and status are served."""

from typing import Annotated, Literal

from pydantic import Field

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Duration, HeadSize, Listen, PageUrl, Text, between, from_text, parse_listen


class TlsConfig(ConfigSection):
    """The server's certificate with its chain, and its key, in PEM form."""

    cert_file: Text
    key_file: Text


class ServerLimitsConfig(ConfigSection):
    """Limits for clients of the server: concurrent connections, and bytes of a request head.

    `request_timeout` is how long a request may take to arrive, and its answer to be read.
    """

    connections: int = Field(default=512, ge=8)
    max_header: HeadSize = 16 * 2**10
    request_timeout: Annotated[Duration, between("1s", "5m")] = 10.0
    idle_timeout: Annotated[Duration, between("1s", "1h")] = 90.0


class ServerConfig(ConfigSection):
    """Where metrics and status are served, and which clients are authorized.

    `hosts` are the names by which clients address a server that listens on a loopback address, for example of a reverse
    proxy; other names than `localhost` are refused there. `view` is the URL at which `watchslo view` shows all
    instances; the page links to it.
    Without `page` there are only metrics and probes: no page, no API, no past figures.
    """

    listen: Annotated[Listen, from_text(parse_listen)] = Listen("", 9477)
    page: bool = True
    tls: TlsConfig | None = None
    authorization: Literal["none", "kubernetes"] = "none"
    limits: ServerLimitsConfig = ServerLimitsConfig()
    hosts: tuple[Text, ...] = ()
    view: PageUrl | None = None
