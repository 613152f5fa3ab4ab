"""Proves that executors which a script defines run in processes of their own. Its argument is an empty folder."""
import asyncio
import json
import os

from jina import Client, Document, DocumentArray, Executor, Flow, requests
from jina.excepts import BadClientInput, BadServer, BadServerFlow, RuntimeFailToStart


class Settings:
    """Looks like a class of pydantic, which is not installed here."""

    model_fields = {"mark": None}

    def __init__(self, mark):
        self.mark = mark


class Upper(Executor):
    def __init__(self, mark="", **kwargs):
        super().__init__(**kwargs)
        self.mark = mark

    @requests(on="/upper")
    def upper(self, docs: DocumentArray, parameters, **kwargs):
        for doc in docs:
            doc.text = doc.text.upper() + self.mark + parameters.get("more", "")
            doc.tags["process"] = os.getpid()

    @requests(on="/count")
    def count(self, doc: Document, parameters, **kwargs):
        for number in range(int(parameters["to"])):
            yield Document(text=f"{doc.text} {number}")
        if doc.text == "broken":
            raise ValueError("no more")

    @requests(on="/settings")
    def settings(self, docs: DocumentArray, parameters: "Settings", **kwargs):
        for doc in docs:
            doc.text = f"{type(parameters).__name__} {parameters.mark}"

    @requests(on="/fail")
    def fail(self, **kwargs):
        raise ValueError("no way")


class Broken(Executor):
    def __init__(self, **kwargs):
        raise RuntimeError("cannot find the weights")


async def stream(port):
    client = Client(port=port, asyncio=True)
    seen = []
    async for doc in client.stream_doc("/count", Document(text="b"), parameters={"to": 2}):
        seen.append(doc.text)
    assert seen == ["b 0", "b 1"], seen
    # What is not read to its end is given up.
    async for doc in client.stream_doc("/count", Document(text="c"), parameters={"to": 100_000}):
        break


if __name__ == "__main__":
    with Flow().add(uses=Upper, name="upper", uses_with={"mark": "!"}) as flow:
        docs = flow.post("/upper", [Document(text="a"), Document(text="b")], parameters={"more": "?"})
        assert sorted(docs.texts) == ["A!?", "B!?"], docs.texts
        assert docs[0].tags["process"] != os.getpid()
        # A class for the parameters gets them, and fails the request if they do not fit it.
        assert flow.post("/settings", Document(), parameters={"mark": "!"}).texts == ["Settings !"]
        try:
            flow.post("/settings", Document(), parameters={"other": "!"})
        except BadServer as error:
            assert error.header.status.exception.name == "TypeError", error
        else:
            raise AssertionError("the parameters were taken")
        streamed = flow.stream_doc("/count", Document(text="a"), parameters={"to": 3})
        assert [doc.text for doc in streamed] == ["a 0", "a 1", "a 2"]
        got = []
        try:
            for doc in flow.stream_doc("/count", Document(text="broken"), parameters={"to": 2}):
                got.append(doc.text)
        except BadServerFlow as error:
            assert "no more" in str(error), error
        assert got == ["broken 0", "broken 1"], got
        asyncio.run(stream(flow.port))
        try:
            list(flow.stream_doc("/count", [Document(), Document()]))
        except BadClientInput as error:
            assert "begins with one document; `inputs` has several" in str(error), error
        try:
            flow.post("/fail", Document())
        except BadServer as error:
            status = error.header.status
            assert "no way" in status.description and status.exception.name == "ValueError", error
        else:
            raise AssertionError("nothing failed")
    try:
        Flow().add(uses=Broken).start()
    except RuntimeFailToStart as error:
        assert "cannot find the weights" in str(error), error
    else:
        raise AssertionError("it started")
    print(json.dumps("fine"))
