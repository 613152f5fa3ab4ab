"""What flows do, case by case: run with stock Jina and with flow_serve, whose results are compared.

    flow_table.py FOLDER

Documents are those of the docarray that is installed, of either generation. The last line that is printed is a mapping of
the cases.
"""
import asyncio
import json
import os
import subprocess
import sys
import time

import docarray
from jina import Client, Deployment, Executor, Flow, requests

FOLDER = sys.argv[1] if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else "."
IS_V2 = hasattr(docarray, "DocList")

if IS_V2:

    class Part(docarray.BaseDoc):
        text: str = ""

    class Text(docarray.BaseDoc):
        text: str = ""
        parts: docarray.DocList[Part] = docarray.DocList[Part]()

    Texts = docarray.DocList[Text]
    RETURN = {"return_type": Texts}

    def document(text, parts=()):
        return Text(text=text, parts=docarray.DocList[Part]([Part(text=part) for part in parts]))

    def parts_of(doc):
        return doc.parts

else:
    Text, Texts = docarray.Document, docarray.DocumentArray
    RETURN = {}

    def document(text, parts=()):
        return Text(text=text, chunks=[Text(text=part) for part in parts])

    def parts_of(doc):
        return doc.chunks


class Worker(Executor):
    """Does what its endpoint says."""

    def __init__(self, mark="", farewell=None, **kwargs):
        super().__init__(**kwargs)
        self.mark = mark
        self.farewell = farewell

    @requests(on="/mark")
    def add_mark(self, docs: Texts, **kwargs) -> Texts:
        for doc in docs:
            doc.text += self.mark
        return docs

    @requests(on="/sleep")
    def sleep(self, docs: Texts, **kwargs) -> Texts:
        for doc in docs:
            time.sleep(float(doc.text))
        return docs

    @requests(on="/parts")
    def mark_parts(self, docs: Texts, **kwargs) -> Texts:
        for doc in docs:
            for part in parts_of(doc):
                part.text += self.mark
        return docs

    @requests(on="/process")
    def process(self, docs: Texts, **kwargs) -> Texts:
        for doc in docs:
            doc.text = str(os.getpid())
        return docs

    @requests(on="/about")
    def about(self, docs: Texts, parameters, **kwargs) -> Texts:
        own = {name: value for name, value in parameters.items() if not name.startswith("__")}
        for doc in docs:
            doc.text = json.dumps([self.metas.name, self.runtime_args.name.partition("/")[0], own], sort_keys=True)
        return docs

    @requests(on="/others")
    def others(self, docs: Texts, **kwargs) -> Texts:
        return Texts([document(f"{len(docs)} documents"), document(self.mark)])

    @requests(on="/none")
    def none(self, docs: Texts, **kwargs) -> Texts:
        return Texts([])

    @requests(on="/fail")
    def fail(self, docs: Texts, **kwargs) -> Texts:
        if any(doc.text == "bad" for doc in docs):
            raise ValueError("a bad text", self.mark)
        return docs

    def by_name(self, docs: Texts, **kwargs) -> Texts:
        for doc in docs:
            doc.text = "by name"
        return docs

    def close(self):
        if self.farewell:
            with open(self.farewell, "a") as file:
                file.write(f"{self.mark}\n")


def documents(*texts):
    return Texts([document(text) for text in texts])


def texts_of(docs):
    return [doc.text for doc in docs]


def post(flow, on, *texts, **options):
    return texts_of(flow.post(on, documents(*texts), results_in_order=True, **RETURN, **options))


def caught(call):
    """The class of the exception that a call raises; of its own classes of a missing file, what they extend."""
    try:
        call()
        return "nothing"
    except FileNotFoundError:
        return "FileNotFoundError"
    except BaseException as error:
        return type(error).__name__


def one_executor():
    farewell = os.path.join(FOLDER, f"farewell-{os.getpid()}")
    flow = Flow().add(uses=Worker, name="worker", uses_with={"mark": "!", "farewell": farewell})
    before = [caught(lambda: flow.block()), flow.num_deployments]
    with flow as entered:
        result = {
            "before": before,
            "entered": entered is flow,
            "mark": post(flow, "/mark", "a", "b"),
            "client": post(Client(port=flow.port), "/mark", "c"),
            "unbound": post(flow, "/unbound", "a"),
            "others": post(flow, "/others", "a", "b", "c"),
            "none": post(flow, "/none", "a"),
            "without documents": len(flow.post("/mark", **RETURN)),
            "about": post(flow, "/about", "a", parameters={"k": 5, "deep": {"list": [1, None, "x"]}, "worker__own": 1}),
            "ready": flow.is_flow_ready(),
            "count": flow.num_deployments,
            "nested": [[part.text for part in parts_of(doc)] for doc in flow.post("/parts", Texts([document("a", ["x", "y"])]), **RETURN)],
            "twice": caught(lambda: flow.add(uses=Worker)),
            "kind": type(flow.post("/mark", documents("a"), **RETURN)).__name__.removesuffix("InMemory"),
            "endpoints": [post_to(flow, name) for name in ("index", "search", "update", "delete")],
            "order": order(flow),
            "generators": generators(flow),
            "callbacks": callbacks(flow),
            "failures": failures(flow),
        }
    with open(farewell) as file:
        result["farewell"] = file.read()
    result["after"] = caught(lambda: post(flow, "/mark", "a"))
    return result


def post_to(flow, name):
    return getattr(flow, name)(documents("a"), return_responses=True)[0].header.exec_endpoint


def order(flow):
    sent = [str(number / 100) for number in (20, 0, 10, 5)]
    return texts_of(flow.post("/sleep", documents(*sent), request_size=1, results_in_order=True, **RETURN)) == sent


def generators(flow):
    def numbers():
        for number in range(25):
            yield document(str(number))

    async def asynchronous():
        for number in range(25):
            await asyncio.sleep(0)
            yield document(str(number))

    def sizes(inputs):
        responses = flow.post("/mark", inputs, request_size=10, return_responses=True, results_in_order=True)
        return [len(response.docs) for response in responses]

    return [sizes(numbers()), sizes(numbers), sizes(asynchronous())]


def callbacks(flow):
    def seen(on, *texts, **options):
        calls = []

        def called(name):
            return lambda response: calls.append([name, texts_of(response.docs) if name == "done" else None])

        given = {f"on_{name}": called(name) for name in ("done", "error", "always")}
        back = flow.post(on, documents(*texts), request_size=1, results_in_order=True, **given, **RETURN, **options)
        return [calls, back]

    return {
        "success": seen("/mark", "a", "b"),
        "failure": seen("/fail", "good", "bad", "good"),
        "continue": seen("/fail", "bad", "good", continue_on_error=True),
    }


def failures(flow):
    try:
        post(flow, "/fail", "bad")
    except Exception as error:
        exception = error.args[0].status.exception
        raised = [type(error).__name__, exception.name, list(exception.args)]
    return {
        "raised": raised,
        "goes on": post(flow, "/fail", "good"),
        "of several": sorted(post(flow, "/fail", "good", "bad", "fine", request_size=1, continue_on_error=True)),
        "responses": [
            response.header.status.code
            for response in flow.post(
                "/fail", documents("good", "bad"), request_size=1, results_in_order=True, continue_on_error=True, return_responses=True
            )
        ],
    }


def graph():
    # Stock Jina does not answer a request whose `target_executor` skips an executor of this graph.
    flow = Flow().add(uses=Worker, name="first", uses_with={"mark": "A"})
    flow = flow.add(uses=Worker, name="left", needs="first", uses_with={"mark": "L"})
    flow = flow.add(uses=Worker, name="right", needs="first", uses_with={"mark": "R"})
    flow = flow.needs(["left", "right"], name="joined").add(uses=Worker, name="last", uses_with={"mark": "Z"})
    with flow:
        [response] = flow.post("/mark", documents("a"), return_responses=True)
        return {
            "routes": sorted({route.executor for route in response.routes} - {"joined"}),
            # Both branches changed the same attribute; which one wins is not said.
            "joined": texts_of(response.docs)[0] in ("aALZ", "aARZ"),
            "documents": len(response.docs),
            "failure": caught(lambda: post(flow, "/fail", "bad")),
            "others": sorted(post(flow, "/others", "a")),
        }


def needs_all():
    flow = Flow().add(uses=Worker, name="x", uses_with={"mark": "X"})
    flow = flow.add(uses=Worker, name="y", needs="gateway", uses_with={"mark": "Y"}).needs_all(name="end")
    with flow:
        docs = post(flow, "/mark", "a")
        return [len(docs), docs[0] in ("aX", "aY"), post(flow, "/unbound", "a")]


def inspected():
    flow = Flow().add(uses=Worker, name="x", uses_with={"mark": "X"})
    flow = flow.inspect(uses=Worker, name="look", uses_with={"mark": "?"}).add(uses=Worker, name="y", uses_with={"mark": "Y"})
    with flow:
        return post(flow, "/mark", "a")


def replicas():
    with Flow().add(uses=Worker, name="worker", replicas=3) as flow:
        # At the same time, so that each replica gets some.
        busy = flow.post("/sleep", documents(*["0.2"] * 6), request_size=1, **RETURN)
        processes = post(flow, "/process", *["?"] * 60, request_size=1)
        numbers = [str(number) for number in range(50)]
        return [len(busy), len(set(processes)), post(flow, "/mark", *numbers, request_size=7) == numbers]


def options_of_executors():
    with Flow().add(uses=Worker, name="named", uses_metas={"name": "metas"}, uses_requests={"/own": "by_name"}) as flow:
        return [post(flow, "/about", "a"), post(flow, "/own", "a")]


def deployment():
    with Deployment(uses=Worker, uses_with={"mark": "!"}) as alone:
        return [post(alone, "/mark", "a", "b"), type(alone.port).__name__]


def a_deployment_in_a_flow():
    with Flow().add(Deployment(uses=Worker, uses_with={"mark": "!"}, name="inside")) as flow:
        return post(flow, "/mark", "a")


def mistakes():
    return {
        "one need": caught(lambda: Flow().add(name="a").needs("a")),
        "no file": caught(lambda: Flow.load_config("nosuch.yml")),
        "gone": caught(lambda: Client(port=1).post("/", documents("a"))),
    }


def files():
    path = os.path.join(FOLDER, f"flow-{os.getpid()}.yml")
    Flow(name="kept").add(name="a", uses="executor.yml", replicas=2).add(name="b", needs="gateway").save_config(path)
    loaded = Flow.load_config(path)
    return [loaded.num_deployments, [name in open(path).read() for name in ("kept", "executor.yml", "replicas: 2")]]


async def asynchronous():
    flow = Flow(asyncio=True).add(uses=Worker, name="worker", uses_with={"mark": "!"})
    with flow:

        async def all_of(on, *texts, **options):
            return [doc.text async for docs in flow.post(on, documents(*texts), **RETURN, **options) for doc in docs]

        async def inputs():
            for number in range(5):
                await asyncio.sleep(0)
                yield document(str(number))

        failed = "nothing"
        try:
            await all_of("/fail", "bad")
        except Exception as error:
            failed = type(error).__name__
        sizes = [len(docs) async for docs in flow.post("/mark", inputs(), request_size=2, results_in_order=True, **RETURN)]
        seen = []
        async for response in flow.post("/mark", documents("a"), return_responses=True):
            seen.append(texts_of(response.docs))
        # Several posts at a time.
        together = await asyncio.gather(*[all_of("/sleep", "0.05") for _ in range(4)])
        return [await all_of("/mark", "a", "b"), failed, sizes, seen, together, await flow.is_flow_ready()]


CASES = (
    one_executor,
    graph,
    needs_all,
    inspected,
    replicas,
    options_of_executors,
    deployment,
    a_deployment_in_a_flow,
    mistakes,
    files,
    asynchronous,
)


def result_of(case):
    try:
        result = case()
        return asyncio.run(result) if asyncio.iscoroutine(result) else result
    except BaseException as error:
        return {"raised": type(error).__name__, "text": str(error)[:400]}


def in_process(name):
    """The result of a case in a process of its own: stock Jina forks, and hangs if its client was used before."""
    done = subprocess.run([sys.executable, __file__, FOLDER, name], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(result_of({case.__name__: case for case in CASES}[sys.argv[2]])))
    else:
        print(json.dumps({case.__name__: in_process(case.__name__) for case in CASES}))
