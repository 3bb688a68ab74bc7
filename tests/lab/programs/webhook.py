"""A validating webhook that allows all requests after a delay: `python webhook.py CERTIFICATE KEY`.

It prints its addresses in a line of JSON. `POST /late` sets the delay, with the seconds as the body.
"""

import asyncio
import ssl
import sys

import uvloop
from aiohttp import web

from watchslo.sim import process


class Webhook:
    """Answers reviews after the configured delay."""

    def __init__(self) -> None:
        self._late = 0.0

    async def review(self, request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        await asyncio.sleep(self._late)
        response = {"uid": asked["uid"], "allowed": True}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    async def late(self, request: web.Request) -> web.Response:
        self._late = float(await request.text())
        return web.Response()


async def main(certificate: str, key: str) -> None:
    webhook, context = Webhook(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    reviews, control = web.Application(), web.Application()
    reviews.add_routes([web.post("/", webhook.review)])
    control.add_routes([web.post("/late", webhook.late)])
    served = await process.listen(reviews, "127.0.0.1", 0, context)
    controlled = await process.listen(control, "127.0.0.1", 0)
    process.announce(
        url=f"https://127.0.0.1:{served.addresses[0][1]}/", control=f"http://127.0.0.1:{controlled.addresses[0][1]}"
    )
    await process.stopped()
    for runner in (served, controlled):
        await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
