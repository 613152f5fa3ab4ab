"""Proves that executors which a script defines run in processes of their own. Its argument is an empty folder."""
import json
import os

from jina import Document, DocumentArray, Executor, Flow, requests
from jina.excepts import BadServer, RuntimeFailToStart


class Upper(Executor):
    def __init__(self, mark="", **kwargs):
        super().__init__(**kwargs)
        self.mark = mark

    @requests(on="/upper")
    def upper(self, docs: DocumentArray, parameters, **kwargs):
        for doc in docs:
            doc.text = doc.text.upper() + self.mark + parameters.get("more", "")
            doc.tags["process"] = os.getpid()

    @requests(on="/fail")
    def fail(self, **kwargs):
        raise ValueError("no way")


class Broken(Executor):
    def __init__(self, **kwargs):
        raise RuntimeError("cannot find the weights")


if __name__ == "__main__":
    with Flow().add(uses=Upper, name="upper", uses_with={"mark": "!"}) as flow:
        docs = flow.post("/upper", [Document(text="a"), Document(text="b")], parameters={"more": "?"})
        assert sorted(docs.texts) == ["A!?", "B!?"], docs.texts
        assert docs[0].tags["process"] != os.getpid()
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
