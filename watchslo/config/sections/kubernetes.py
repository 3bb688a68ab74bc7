"""The section `kubernetes`: the cluster, and which of its apiservers are asked."""

import os
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from watchslo.config.sections.section import ConfigSection
from watchslo.config.values import Text, parse_apiservers


class KubernetesConfig(ConfigSection):
    """The cluster to connect to. The defaults suit a pod, or a user with a kubeconfig.

    `apiservers` selects the apiservers whose watches are measured: `service` (the one that answers for the service),
    `each` (every one behind the service), or those at these URLs, which have a port and no slash at their end.
    `witnesses` says whether the announced apiservers that are not watched are ticked on: `auto` (those that answer) or
    `none`. `tls_server_name` is the name that certificates must have with `each`, with URLs and for witnesses. With
    `apiserver_metrics`, the metrics that apiservers publish of themselves are read as evidence for causes.
    """

    kubeconfig: Annotated[Text, AfterValidator(os.path.expanduser)] | None = None
    context: Text | None = None
    apiservers: Annotated[Literal["service", "each"] | tuple[str, ...], BeforeValidator(parse_apiservers)] = "service"
    witnesses: Literal["auto", "none"] = "auto"
    tls_server_name: Text | None = None
    apiserver_metrics: bool = False

    @model_validator(mode="after")
    def _check_tls_server_name(self) -> Self:
        if self.tls_server_name and self.apiservers == "service":
            raise ValueError(
                "`tlsServerName` is for the addresses of single apiservers; write apiservers: each, or remove it "
                "(for the service, set tls-server-name in the kubeconfig)"
            )
        return self
