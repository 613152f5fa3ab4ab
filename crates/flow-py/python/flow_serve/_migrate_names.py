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
    "from_files": "make a document with `uri` for each file",
    "to_pydantic_model": "use `to_dict()`",
    "from_ndarray": "set `tensors`, or make a document with `tensor` for each row",
    "from_lines": "make a document with `text` for each line",
    "from_huggingface_datasets": "make the documents from the rows",
    "to_base64": "encode `to_bytes()` with the module `base64`",
    "from_base64": "decode with the module `base64`, and use `from_bytes()`",
    "save_embeddings_csv": "use `numpy.savetxt` on `embeddings`",
    "flatten": "use `traverse_flat`, or access paths such as `docs['@r,c,m']`",
    "get_vocabulary": "count the words of `texts` with `collections.Counter`",
    "cloud_push": "Jina's cloud is no more; use `to_bytes()` and a store of your own",
    "cloud_pull": "Jina's cloud is no more; use `from_bytes()` and a store of your own",
}

#: Methods of DocArray 0.21's documents beyond those that there are, and what to do instead.
DOCUMENT_METHODS = {
    "load_uri_to_image_tensor": "read the file with Pillow, and set `tensor` to `numpy.asarray(image)`",
    "load_uri_to_audio_tensor": "read the file with the module `wave`, and set `tensor`",
    "load_uri_to_video_tensor": "read the file with PyAV, and set `tensor`",
    "load_uri_to_point_cloud_tensor": "read the file with trimesh, and set `tensor`",
    "load_uri_to_vertices_and_faces": "read the file with trimesh, and set `chunks`",
    "convert_blob_to_image_tensor": "read `blob` with Pillow, and set `tensor` to `numpy.asarray(image)`",
    "convert_image_tensor_to_blob": "write `tensor` with Pillow, and set `blob`",
    "convert_image_tensor_to_uri": "write `tensor` with Pillow, and set `uri`",
    "save_image_tensor_to_file": "write `tensor` with Pillow",
    "set_image_tensor_shape": "resize with Pillow before you set `tensor`",
    "set_image_tensor_normalization": "compute it with NumPy on `tensor`",
    "set_image_tensor_channel_axis": "use `numpy.moveaxis` on `tensor`",
    "convert_text_to_tensor": "count words yourself, and set `tensor`",
    "convert_uri_to_datauri": "read with `load_uri_to_blob()`, and encode it with the module `base64`",
    "embed_feature_hashing": "use an executor, or `SentenceEncoder`",
    "display": "use `summary()`",
}

#: Options of a client that are not there or have no effect.
CLIENT_OPTIONS: Verdicts = {
    "protocol": (CHANGES, "the client speaks gRPC, which each port of a flow answers; leave `protocol` out"),
    "tracing": (REFUSED, "clients export no traces yet"),
    "metrics": (REFUSED, "clients export no metrics yet"),
    "grpc_channel_options": (REFUSED, "the client does not use the gRPC library that they are for"),
    "proxy": (REFUSED, "the client connects directly"),
}
