import re

import pytest

from watchslo.errors import ConnectError
from watchslo.kube.proxy_rule import environment_rule, fixed_rule


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://a.example.com:6443", {}, None),
        ("https://a.example.com:6443", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://a.example.com:6443", {"https_proxy": "p:3128"}, "http://p:3128"),
        ("https://a.example.com:6443", {"HTTP_PROXY": "http://p:3128"}, None),
        ("http://a.example.com", {"HTTP_PROXY": "http://p:3128"}, "http://p:3128"),
        ("https://localhost:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://127.0.0.2:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p"}, None),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, None),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p", "NO_PROXY": "other, example.com"}, None),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p", "no_proxy": ".example.com"}, None),
        ("https://example.com", {"HTTPS_PROXY": "http://p", "no_proxy": ".example.com"}, "http://p"),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p", "no_proxy": "*.example.com"}, None),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p", "NO_PROXY": "ample.com,,10.0.0.0/8"}, "http://p"),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.example.com:443"}, None),
        ("https://a.example.com", {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.example.com:6443"}, "http://p"),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.96.0.0/12"}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.96.0.1"}, None),
        ("https://10.96.0.1:443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/16"}, "http://p"),
        ("https://[fd00::1]:443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "fd00::/8"}, None),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "[fd00::1]:6443"}, None),
        ("https://[fd00::1]:443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "[fd00::1]:6443,a:b:c"}, "http://p"),
        ("https://10.0.0.7:6443", {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.7:6443"}, None),
    ],
)
def test_rule_follows_the_environment(url: str, environ: dict[str, str], proxy: str | None) -> None:
    assert environment_rule(environ).for_url(url) == proxy


@pytest.mark.parametrize("url", ["https://10.0.0.1:443", "https://127.0.0.1:6443", "http://localhost:8080"])
def test_proxy_of_the_kubeconfig_is_for_all_addresses(url: str) -> None:
    assert fixed_rule("http://file.test:1", "here").for_url(url) == "http://file.test:1"


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        (
            "socks5h://p",
            "HTTPS_PROXY: SOCKS proxies (socks5h://) are not supported; name a proxy with http://, or a tunnel",
        ),
        ("http://[::1", "HTTPS_PROXY: not the URL of a proxy; write http://host:port"),
        ("ftp://p", "HTTPS_PROXY: not the URL of a proxy; write http://host:port"),
    ],
)
def test_unsupported_proxy_is_refused_for_the_addresses_that_need_it(proxy: str, message: str) -> None:
    rule = environment_rule({"HTTPS_PROXY": proxy, "NO_PROXY": "10.0.0.1"})
    assert rule.for_url("https://10.0.0.1:443") is None
    with pytest.raises(ConnectError, match=re.escape(message)):
        rule.for_url("https://10.0.0.2:443")


@pytest.mark.parametrize("url", ["https://a:99999", "https://[a"])
def test_address_that_is_no_url_is_an_error(url: str) -> None:
    with pytest.raises(ConnectError, match="not a URL"):
        environment_rule({"HTTPS_PROXY": "http://p"}).for_url(url)


def test_unsupported_proxy_of_the_kubeconfig_is_refused() -> None:
    with pytest.raises(ConnectError, match=re.escape("here: SOCKS proxies (socks5://) are not supported")):
        fixed_rule("SOCKS5://p", "here")
    for url in ("127.0.0.1:1", "p:1", "p"):
        with pytest.raises(ConnectError, match="here: not the URL of a proxy"):
            fixed_rule(url, "here")
    assert fixed_rule("https://p", "here").for_url("https://a") == "https://p"
