"""`python -m benchmarks.kubernetes_asyncio_watch KUBECONFIG EVENTS` measures an event in `kubernetes_asyncio.Watch`.

It prints the same lines as the client-go program: {"watching": true}, and after EVENTS events of pods their cost.
"""

import asyncio
import json
import sys
import time

from kubernetes_asyncio import client, config, watch


async def follow(kubeconfig: str, events: int) -> None:
    await config.load_kube_config(config_file=kubeconfig, persist_config=False)
    async with client.ApiClient() as api:
        pods = client.CoreV1Api(api).list_pod_for_all_namespaces
        revision = (await pods(limit=1)).metadata.resource_version
        stream = watch.Watch().stream(pods, resource_version=revision)
        print(json.dumps({"watching": True}), flush=True)
        await anext(stream)  # the measurement starts after the first event
        started = time.process_time()
        for _ in range(events):
            await anext(stream)
        spent = time.process_time() - started
        print(json.dumps({"events": events, "cpu_us_per_event": spent / events * 1e6}), flush=True)


if __name__ == "__main__":
    asyncio.run(follow(sys.argv[1], int(sys.argv[2])))
