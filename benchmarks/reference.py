"""`python -m benchmarks.reference KUBECONFIG RESOURCE EVENTS`: what an event costs in `kubernetes_asyncio.Watch`.

Prints the same lines as the client-go program: {"watching": true}, and after so many events what they cost.
"""

import asyncio
import json
import sys
import time

from kubernetes_asyncio import client, config, watch


async def follow(kubeconfig: str, resource: str, events: int) -> None:
    await config.load_kube_config(config_file=kubeconfig)
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        lists = {"pods": core.list_pod_for_all_namespaces, "configmaps": core.list_config_map_for_all_namespaces}
        revision = (await lists[resource](limit=1)).metadata.resource_version  # type: ignore[attr-defined]
        stream = watch.Watch().stream(lists[resource], resource_version=revision)
        print(json.dumps({"watching": True}), flush=True)
        started = 0.0
        for seen in range(events + 1):
            await anext(stream)
            if seen == 0:  # the first event opens the account, and is not in it
                started = time.process_time()
        spent = time.process_time() - started
        print(json.dumps({"events": events, "cpu_us_per_event": spent / events * 1e6}), flush=True)


if __name__ == "__main__":
    asyncio.run(follow(sys.argv[1], sys.argv[2], int(sys.argv[3])))
