"""An entry of the section `clients`: a program with informers, whose page of metrics is read."""

from typing import Literal, Self

from pydantic import model_validator

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import ClientName, MetricsUrl, ResourceName, Text


class ClientConfig(ConfigSection):
    """A program that exports the revisions of its informers at `url`.

    If the host has several addresses, such as a headless Service, each is a process of the program. With
    `authorization: kubernetes`, the token of this instance is sent. The certificate must be valid by the CAs of
    the system or by those in `ca_file`, in PEM form, unless `insecure_skip_verify` is true. `selected` are the
    resources whose informers have selectors: they do not receive every event.
    """

    name: ClientName
    url: MetricsUrl
    authorization: Literal["none", "kubernetes"] = "none"
    ca_file: Text | None = None
    insecure_skip_verify: bool = False
    selected: tuple[ResourceName, ...] = ()

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.url.startswith("http://"):
            if self.authorization == "kubernetes":
                raise ValueError(
                    "`authorization: kubernetes` would send the token unencrypted; write https:// in `url`"
                )
            if self.ca_file is not None or self.insecure_skip_verify:
                raise ValueError(
                    "`caFile` and `insecureSkipVerify` are for certificates, which http:// has none of; remove them"
                )
        if self.ca_file is not None and self.insecure_skip_verify:
            raise ValueError("`insecureSkipVerify` ignores `caFile`; remove one of them")
        return self
