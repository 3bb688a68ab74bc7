"""Kubeconfigs as client-go reads and merges them.

kubernetes_asyncio takes the last `current-context` instead of the first, fails for empty files, and does not take null
or empty values as absent ones. Source: `loader.go` and `api/v1` of k8s.io/client-go/tools/clientcmd.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from watchslo.bounded import LONGEST_CREDENTIAL_BYTES, TooLongError, check_yaml, read_file
from watchslo.errors import UNDECODABLE, ConnectError

Entry = dict[str, Any]
"""A context, cluster or user, with the keys of the file, without absent, null and empty values; paths are absolute."""

FILES = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}


@dataclass(frozen=True, slots=True)
class MergedKubeconfig:
    """What several files say together; entries by name. `origin` is how the files are named in errors."""

    origin: str
    current_context: str = ""
    contexts: dict[str, Entry] = field(default_factory=dict)
    clusters: dict[str, Entry] = field(default_factory=dict)
    users: dict[str, Entry] = field(default_factory=dict)


def read_kubeconfigs(paths: Sequence[str]) -> MergedKubeconfig:
    """Return what the files say together: the first that defines a name or the current context decides.

    A file that does not exist is left out, and an empty one says nothing. Raises ConnectError.
    """
    found = MergedKubeconfig(os.pathsep.join(paths))
    contents = {path: content for path in paths if (content := _read(path)) is not None}
    if not contents:
        raise ConnectError(f"{found.origin}: no such file; put the kubeconfig there")
    for path, content in contents.items():
        folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - all of these are strings
        for kind, merged in (("contexts", found.contexts), ("clusters", found.clusters), ("users", found.users)):
            for name, entry in _by_name(getattr(content, kind), f"{path}: {kind}"):
                merged.setdefault(name, _located(msgspec.to_builtins(entry), FILES.get(kind, ()), folder))
    current = next((content.current_context for content in contents.values() if content.current_context), "")
    return replace(found, current_context=current)


# The form of a file: `v1.Config`. A default is what client-go takes for an absent value.


class _Dashed(msgspec.Struct, omit_defaults=True, rename="kebab"):
    pass


class _Camel(msgspec.Struct, omit_defaults=True, rename="camel"):
    pass


class _Extension(_Camel):
    name: str = ""
    extension: Any = None


class _ClusterContent(_Dashed):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[_Extension] = []


class _Variable(_Camel):
    name: str = ""
    value: str = ""


class _Plugin(_Camel):
    command: str = ""
    args: list[str] = []
    env: list[_Variable] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _Provider(_Camel):
    name: str = ""
    config: dict[str, str] = {}


class _UserContent(_Dashed):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    username: str = ""
    password: str = ""
    auth_provider: _Provider | None = None
    exec: _Plugin | None = None


class _ContextContent(_Dashed):
    cluster: str = ""
    user: str = ""


class _NamedCluster(_Camel):
    name: str = ""
    cluster: _ClusterContent = msgspec.field(default_factory=_ClusterContent)


class _NamedUser(_Camel):
    name: str = ""
    user: _UserContent = msgspec.field(default_factory=_UserContent)


class _NamedContext(_Camel):
    name: str = ""
    context: _ContextContent = msgspec.field(default_factory=_ContextContent)


class _KubeconfigFile(_Dashed):
    api_version: Literal["", "v1"] = msgspec.field(default="", name="apiVersion")
    kind: Literal["", "Config"] = ""
    current_context: str = ""
    contexts: list[_NamedContext] = []
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []


CONTENTS: dict[Any, str] = {_NamedContext: "context", _NamedCluster: "cluster", _NamedUser: "user"}


class _UndatedLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # libyaml, which Go's decoder follows
    """Reads dates as texts, as the decoder of client-go does."""


_UndatedLoader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def decode_yaml(data: bytes) -> Any:
    """Return the first document of YAML or JSON, without null values; None if it is empty.

    Raises one of UNDECODABLE, or yaml.YAMLError.
    """
    check_yaml(data)
    loader = _UndatedLoader(data)
    try:
        return _present(loader.get_data()) if loader.check_data() else None
    finally:
        loader.dispose()


def _present(value: Any) -> Any:
    match value:
        case dict():
            return {key: _present(content) for key, content in value.items() if content is not None}
        case list():
            return [_present(content) for content in value if content is not None]
        case _:
            return value


def _read(path: str) -> _KubeconfigFile | None:
    """Return the content of a file; None if it does not exist."""
    if Path(path).is_fifo():
        raise ConnectError(f"{path}: is a pipe, which cannot be read again; write its content into a file")
    try:
        content = decode_yaml(read_file(path, LONGEST_CREDENTIAL_BYTES))
        return msgspec.convert({} if content is None else content, _KubeconfigFile)
    except FileNotFoundError:
        return None
    except TooLongError as error:
        raise ConnectError(f"{path}: {error.strerror}; put a readable kubeconfig there") from None
    except OSError as error:
        reason = (error.strerror or "not readable").lower()
        raise ConnectError(f"{path}: {reason}; put a readable kubeconfig there") from None
    except msgspec.ValidationError as error:
        raise ConnectError(f"{path}: {_wrong_type(error)}; correct it") from None
    except (*UNDECODABLE, yaml.YAMLError):  # their texts may contain secrets
        raise ConnectError(f"{path}: not a kubeconfig; look at it with `kubectl config view`") from None


def _wrong_type(error: msgspec.ValidationError) -> str:
    """Return what has another type than it must have; the text has values of enumerations only."""
    what, _, place = str(error).partition(" - at `$.")
    return f"{place.rstrip('`') or 'the document'}: {what.replace('`', '')}"


def _by_name(entries: Iterable[Any], origin: str) -> Iterator[tuple[str, msgspec.Struct]]:
    """Yield the names and contents of a list; client-go refuses a name that a file has twice."""
    names: set[str] = set()
    for entry in entries:
        if entry.name in names:
            raise ConnectError(f"{origin}: {entry.name} is defined twice; remove one of the two")
        names.add(entry.name)
        yield entry.name, getattr(entry, CONTENTS[type(entry)])


def _located(entry: Entry, keys: Iterable[str], folder: str) -> Entry:
    """Return an entry with paths that are relative to the folder of its file."""
    plugin: Mapping[str, str] = entry.get("exec", {})
    if os.sep in plugin.get("command", ""):  # else it is searched for in the PATH
        entry["exec"] = {**plugin, "command": _join(folder, plugin["command"])}
    return entry | {key: _join(folder, entry[key]) for key in keys if key in entry}


def _join(folder: str, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118
