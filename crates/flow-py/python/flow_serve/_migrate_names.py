"""What becomes of the names of Jina and DocArray: the verdict, and what to do."""

WORKS = "works"
CHANGES = "changes"
REFUSED = "refused"

Verdicts = dict[str, tuple[str, str]]

#: Names that are imported from `jina`.
JINA_NAMES: Verdicts = {
    **{
        name: (WORKS, "")
        for name in (
            "AsyncFlow",
            "Client",
            "Deployment",
            "Document",
            "DocumentArray",
            "Executor",
            "Flow",
            "dynamic_batching",
            "monitor",
            "requests",
        )
    },
    "Gateway": (REFUSED, "a gateway of your own needs Jina's runtime; start it with Jina, with flow's executors as `external`"),
    "DocumentArrayMemmap": (CHANGES, "use a `DocumentArray`, which keeps documents in the form in which they arrived"),
    "__version__": (WORKS, ""),
}

#: Names that are imported from `docarray`.
DOCARRAY_NAMES: Verdicts = {
    "Document": (WORKS, ""),
    "DocumentArray": (WORKS, ""),
    "BaseDoc": (WORKS, "with the package docarray, whose documents the client takes and gives back"),
    "DocList": (WORKS, "with the package docarray, whose documents the client takes and gives back"),
    "DocVec": (WORKS, "with the package docarray, whose documents the client takes and gives back"),
    "dataclass": (REFUSED, "describe documents by their chunks and tags, or use DocArray 0.30's `BaseDoc`"),
}

#: Modules, and what is in their place.
MODULES: Verdicts = {
    "jina": (WORKS, ""),
    "jina.clients": (WORKS, ""),
    "jina.excepts": (WORKS, ""),
    "jina.helper": (CHANGES, "only `random_port` and `random_identity` are there"),
    "jina.logging.logger": (WORKS, ""),
    "jina.logging.predefined": (WORKS, ""),
    "jina.serve.executors": (WORKS, ""),
    "jina.serve.executors.decorators": (WORKS, ""),
    "jina.types.request": (WORKS, ""),
    "jina.types.request.data": (WORKS, ""),
    "docarray": (WORKS, ""),
    "docarray.document": (WORKS, ""),
    "docarray.typing": (WORKS, "with the package docarray"),
    "docarray.documents": (WORKS, "with the package docarray"),
    "jina.serve.runtimes.gateway.http.fastapi": (
        REFUSED,
        "a gateway of your own needs Jina's runtime; flow's gateway serves HTTP by itself, with `protocol: http`",
    ),
    "jina.serve.gateway": (REFUSED, "a gateway of your own needs Jina's runtime; start it with Jina"),
    "jina.hubble": (REFUSED, "Jina's hub is no more; `flow hub` shares executors in a registry of your own"),
    "jina.proto": (REFUSED, "the messages are in the package of Jina; clients do not need them"),
    "jina.math.distance": (CHANGES, "use NumPy, or `DocumentArray.match`"),
}

#: Attributes of documents that other versions name otherwise.
ATTRIBUTES: Verdicts = {
    "buffer": (CHANGES, "Jina 2's name of `blob`; write `blob`"),
    "blob": (CHANGES, "is bytes; in Jina 2 it was an array, which is `tensor` since Jina 3"),
    "graph": (REFUSED, "documents have no graphs since Jina 3"),
    "content_hash": (REFUSED, "compare the documents themselves, or hash `to_bytes()`"),
}

#: Methods of flows and clients that are not there or do something else.
METHODS: Verdicts = {
    "mutate": (REFUSED, "there is no GraphQL; use `post`, or the gateway's HTTP routes"),
    "rolling_update": (CHANGES, "use `flow reload`, which changes a flow without losing a request"),
    "scale": (CHANGES, "use `flow scale`"),
    "from_hub": (REFUSED, "Jina's hub is no more; `flow hub` shares executors in a registry of your own"),
}

#: Methods of DocArray 0.21's arrays beyond those that there are, and what to do instead.
DOCUMENT_ARRAY_METHODS = {
    "push": "Jina's cloud is no more; use `to_bytes()` and a store of your own",
    "pull": "Jina's cloud is no more; use `from_bytes()` and a store of your own",
    "plot_embeddings": "use a library for pictures on `embeddings`",
    "plot_image_sprites": "use a library for pictures on `tensors`",
    "to_dataframe": "use `pandas.DataFrame(docs.to_list())`",
    "from_dataframe": "make the documents from the rows",
    "embed": "use an executor, or `SentenceEncoder`",
    "evaluate": "compute the metric from `matches`",
    "map": "use a loop, or an executor with `replicas`",
    "apply": "use a loop, or an executor with `replicas`",
    "apply_batch": "use `batch()`, or an executor with dynamic batching",
    "save_binary": "write `to_bytes()` to a file",
    "load_binary": "read a file with `from_bytes()`",
    "save_csv": "write the rows of `to_list()`",
    "from_csv": "make the documents from the rows of the file",
    "from_files": "make a document with `uri` for each file",
    "to_pydantic_model": "use `to_dict()`",
}

#: Options of a client that are not there or have no effect.
CLIENT_OPTIONS: Verdicts = {
    "protocol": (CHANGES, "the client speaks gRPC, which each port of a flow answers; leave `protocol` out"),
    "tracing": (REFUSED, "clients export no traces yet"),
    "metrics": (REFUSED, "clients export no metrics yet"),
    "grpc_channel_options": (REFUSED, "the client does not use the gRPC library that they are for"),
    "proxy": (REFUSED, "the client connects directly"),
}
