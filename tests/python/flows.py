"""Proves what flows do in Python. Its argument is an empty folder."""
import asyncio
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from jina import AsyncFlow, Client, Deployment, Document, DocumentArray, Executor, Flow
from jina.excepts import PortAlreadyUsed, RuntimeFailToStart
from flow_serve.exceptions import FlowBuildLevelError, FlowTopologyError, NotSupportedError

FOLDER = Path(sys.argv[1])
os.chdir(FOLDER)


def raises(kind, call, part):
    try:
        call()
    except kind as error:
        assert part in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def texts(count):
    return [Document(text=str(number)) for number in range(count)]


# A flow runs as long as its block.
flow = Flow().add(name="a", uses="echo").add(name="b", uses="echo", replicas=2)
with flow:
    port = flow.port
    assert flow.host == "127.0.0.1"
    assert flow.is_running and flow.num_deployments == 3 and flow.protocol == "GRPC"
    docs = flow.post("/any", texts(10), request_size=3)
    assert isinstance(docs, DocumentArray) and sorted(docs.texts) == sorted(map(str, range(10)))
    assert flow.is_flow_ready() and len(flow.index(texts(2))) == 2
    assert Client(port=port).is_flow_ready()
    raises(FlowBuildLevelError, lambda: flow.add(uses="echo"), "close it first")
    raises(PortAlreadyUsed, Flow(port=port).add(uses="echo").start, str(port))
assert not flow.is_running
raises(ConnectionError, lambda: Client(port=port).post("/any", texts(1)), "cannot connect")
with flow:  # again
    assert len(flow.post("/any", texts(1))) == 1

# A graph, as a picture and as files.
graph = Flow(name="graph", workspace="data").add(name="x", uses="echo").add(name="y", uses="echo", needs="gateway")
graph.needs(["x", "y"], name="joined").add(name="last", uses="echo", when={"tags__a": {"$eq": 1}})
graph.plot("graph.svg").plot("graph.mmd")
assert (FOLDER / "graph.svg").read_text().startswith("<svg") and "joined" in (FOLDER / "graph.mmd").read_text()
assert "<svg" in graph._repr_html_()
graph.save_config("graph.yml")
loaded = Flow.load_config("graph.yml")
assert loaded == graph and loaded["last"].args["when"] == {"tags__a": {"$eq": 1}} and len(loaded) == 4
assert str(FOLDER.resolve()) in graph.to_yaml()
raises(FlowTopologyError, lambda: Flow().needs("x"), "several inputs")
graph.to_docker_compose_yaml("compose.yml")
graph.to_kubernetes_yaml("k8s", k8s_namespace="mine")
assert "services:" in (FOLDER / "compose.yml").read_text() and any((FOLDER / "k8s").iterdir())

# A file is started as it is written, and a changed one from another place.
(FOLDER / "flow.yml").write_text("jtype: Flow\nwith: {workspace: w}\nexecutors:\n  - {name: first, uses: echo}\n")
with Flow.load_config("flow.yml") as from_file:
    assert len(from_file.post("/any", texts(3))) == 3
with Flow.load_config("flow.yml").add(name="second", uses="echo") as changed:
    routes = changed.post("/any", texts(1), return_responses=True)[0].routes
    assert [route.executor for route in routes] == ["gateway", "first", "second"]
raises(FileNotFoundError, lambda: Flow.load_config("nosuch.yml"), "nosuch.yml")

# Mistakes are those of `flow check`; the error of a start has them all.
wrong = Flow(prot=1).add(uses="echo", replica=2)
raises(RuntimeError, wrong.check, "did you mean `replicas`?")
raises(RuntimeFailToStart, wrong.start, "did you mean `port`?")
raises(NotSupportedError, lambda: Flow().add(uses="echo", uses_with={"a": object()}), "another process")
raises(NotSupportedError, lambda: Client(port=1, protocol="http"), "gRPC")
raises(TypeError, lambda: Client(prot=1), "did you mean `port`?")

# Signatures name the options, as completion shows them.
for method, names in ((Flow, "port replicas asyncio"), (Flow.add, "uses replicas needs"), (Deployment, "uses port"), (Flow.post, "on_done")):
    assert set(names.split()) <= set(inspect.signature(method).parameters), method
assert list(inspect.signature(Flow().post).parameters) == list(inspect.signature(Client(port=1).post).parameters)

# What is not supported says so, and what to do instead.
raises(NotSupportedError, lambda: Flow().scale("a", 2), "`flow scale`")
raises(NotSupportedError, lambda: Flow().rolling_update("a"), "`flow reload`")
raises(NotSupportedError, lambda: Flow().mutate("{}"), "GraphQL")
raises(NotSupportedError, lambda: Executor.from_hub("jinahub://Any"), "`flow hub`")
exposed = Flow(port=1).add(uses="echo").expose_endpoint("/a", methods=["POST"]).expose_endpoint("/b")
assert exposed._file()["with"]["expose_endpoints"] == {"/a": {"methods": ["POST"]}, "/b": {}}
exposed.check()

# An executor can be made as an object, from its files.
(FOLDER / "marker.py").write_text(
    """from jina import Executor, requests


class Marker(Executor):
    def __init__(self, mark="", **kwargs):
        super().__init__(**kwargs)
        self.mark = mark

    @requests(on="/mark")
    def add_mark(self, docs, **kwargs):
        for doc in docs:
            doc.text += self.mark
"""
)
(FOLDER / "marker.yml").write_text("jtype: Marker\npy_modules: [marker.py]\nwith: {mark: '!'}\nmetas: {name: own}\n")
for source, options, mark in [("marker.yml", {}, "!"), ("marker.yml", {"uses_with": {"mark": "?"}}, "?"), ("marker.py", {}, "")]:
    marker, docs = Executor.load_config(source, **options), texts(1)
    marker.add_mark(docs=docs)
    assert docs[0].text == "0" + mark and marker.metas.name == ("own" if source == "marker.yml" else "Marker"), (source, docs[0].text)
raises(FileNotFoundError, lambda: Executor.load_config("nosuch.yml"), "nosuch.yml")
raises(NotSupportedError, lambda: Executor.load_config("jtype: Marker\n"), "the path of a `config.yml`")

# A class serves itself.
served, ended = type(marker), threading.Event()
threading.Timer(0.1, ended.set).start()
served.serve(stop_event=ended, uses_with={"mark": "!"})

# A deployment is one executor.
with Deployment(name="alone", uses="echo", replicas=2) as deployment:
    assert len(deployment.post("/any", texts(5))) == 5
with Flow().add(Deployment(name="inside", uses="echo")) as flow:
    assert flow[0].name == "inside" and len(flow.post("/any", texts(5))) == 5


# Inside a running loop, both kinds of flows work.
async def inside_loop():
    with Flow().add(uses="echo") as blocking:
        assert len(blocking.post("/any", texts(3))) == 3
    async with AsyncFlow().add(uses="echo") as flow:
        sizes = [len(docs) async for docs in flow.post("/any", texts(5), request_size=2)]
        assert sorted(sizes) == [1, 2, 2]


asyncio.run(inside_loop())

# Inputs are taken only as the flow takes requests.
taken, taken_at_first = [], []


def numbers():
    for number in range(2000):
        taken.append(number)
        yield Document(text=str(number))


with Flow().add(uses="echo") as flow:
    flow.post("/any", numbers, request_size=1, prefetch=4, on_done=lambda _: taken_at_first.append(len(taken)))
assert len(taken) == 2000 and taken_at_first[0] <= 5, taken_at_first[:3]

# Threads share a client; a blocked flow ends with its event.
with Flow().add(uses="echo") as flow:
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(len(flow.post("/any", texts(100), request_size=5)))) for _ in range(8)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert counts == [100] * 8
    event = threading.Event()
    threading.Timer(0.2, event.set).start()
    flow.block(stop_event=event)

# The processes end with the script, however it ends.
CHILD = "from flow_serve import Flow\nf = Flow().add(uses='echo').start()\nprint(f.port, flush=True)\nf.block()"
for number in (signal.SIGKILL, signal.SIGINT):
    # A shell's background jobs, and so their children, ignore SIGINT.
    default = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=default,
    )
    lines = iter(child.stdout.readline, "")
    port = next(int(line) for line in lines if line.strip().isdigit())
    child.send_signal(number)
    child.wait()
    end = time.monotonic() + 20
    while Client(port=port).is_flow_ready():
        assert time.monotonic() < end, "the flow outlived its script"
print(json.dumps("fine"))
