"""OpenEnv's own typed client of the task routes against a server of ours, whose environment has another name."""

import json
import sys

import httpx
from openenv.harbor.client import HarborEnv


class Renamed(httpx.HTTPTransport):
    """That client knows one name; the paths are ours."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.replace("/harbor_env/", "/AWMEnvironment/")
        request.url = request.url.copy_with(path=path)
        return super().handle_request(request)


env = HarborEnv(base_url=sys.argv[1])
env._http.close()
env._http = httpx.Client(base_url=sys.argv[1], transport=Renamed())
splits = env.splits()
name = splits[0]["name"]
count = env.num_tasks(name)
seen = {
    "splits": splits,
    "count": count,
    "last": env.get_task(name, count - 1).model_dump(),
    "range": [one.model_dump() for one in env.get_task_range(name, 0, 3)],
}
try:
    env.get_task(name, count)
except Exception as error:
    seen["beyond"] = f"{type(error).__name__} {error}"
env._http.close()
print(json.dumps(seen))
