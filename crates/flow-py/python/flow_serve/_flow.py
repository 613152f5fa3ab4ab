"""Flows: graphs of executors, which are built by method calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from flow_serve import _uses
from flow_serve._file_values import given, listed, names_of, plain, read_config
from flow_serve._runnable import Runnable
from flow_serve._signatures import shows_options
from flow_serve._typed_options import ExecutorOptions, FlowOptions, GatewayOptions
from flow_serve.exceptions import (
    BadConfigSource,
    FlowBuildLevelError,
    FlowMissingDeploymentError,
    FlowTopologyError,
    NotSupportedError,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from flow_serve._deployment import Deployment


class Flow(Runnable):
    """A flow. Each method that adds to it returns it, so that calls can be chained.

    Options have the names that they have in a flow file, and ``flow check`` says which of them flow has. An executor is
    named by ``uses``: a class of Python, a built-in executor, a path, or an image.
    """

    def __init__(self, *, asyncio: bool = False, **options: Unpack[FlowOptions]) -> None:
        super().__init__(asyncio, Path.cwd())
        self._with = given(options)
        self._gateway: dict[str, Any] = {}
        self._executors: list[dict[str, Any]] = []
        self._rest: dict[str, Any] = {}
        self._source: Path | None = None

    def add(self, deployment: Any = None, *, uses: Any = None, **options: Unpack[ExecutorOptions]) -> Self:
        """Adds an executor. It follows the one before it, unless it has ``needs``.

        :param deployment: a :class:`Deployment`, or the name of the executor
        :param uses: what runs: a class of Python, a built-in executor, a path, or an image
        :return: the flow itself
        """
        from flow_serve._deployment import Deployment

        entry = given(options)
        if isinstance(deployment, Deployment):
            entry = {**deployment._executor_options(), **entry}
        elif deployment is not None:
            entry["name" if isinstance(deployment, str) and "name" not in entry else "uses"] = deployment
        if uses is not None:
            described = _uses.described(uses, self._base)
            modules = listed(entry.pop("py_modules", None))
            entry.update({key: plain(value) for key, value in described.items()})
            if modules:
                entry["py_modules"] = [*modules, *entry.get("py_modules", [])]
        return self._append(entry)

    def needs(self, needs: Sequence[Any], name: str = "joiner", **options: Any) -> Self:
        """Adds a node that joins several executors: it waits for the documents of all.

        :param needs: the names of the executors, two or more
        :param name: the name of the node
        """
        if isinstance(needs, str) or len(needs) <= 1:
            raise FlowTopologyError("a join has several inputs; for one, use `add(needs=…)`")
        return self._append({"method": "needs", "name": name, "needs": names_of(needs), **given(options)})

    def needs_all(self, name: str = "joiner", **options: Any) -> Self:
        """Adds a node that joins all executors that nothing follows yet."""
        return self._append({"method": "needs_all", "name": name, **given(options)})

    def inspect(self, name: str = "inspect", **options: Any) -> Self:
        """Adds an executor beside the last one; what follows does not get its documents."""
        return self._append({"method": "inspect", "name": name, **self._described(options)})

    def gather_inspect(self, name: str = "gather_inspect", include_last_deployment: bool = True, **options: Any) -> Self:
        """Joins the executors that :meth:`inspect` added."""
        if not include_last_deployment:
            raise NotSupportedError("`include_last_deployment=False` is not supported: the join follows the last executor")
        return self._append({"method": "gather_inspect", "name": name, **given(options)})

    def config_gateway(self, **options: Unpack[GatewayOptions]) -> Self:
        """Sets options of the gateway."""
        self._modified()
        self._gateway.update(self._described(dict(options)))
        return self

    def expose_endpoint(self, exec_endpoint: str, **options: Any) -> Self:
        """Gives an endpoint a route of its own over HTTP, as the option `expose_endpoints` does."""
        self._modified()
        exposed = self._gateway_option("expose_endpoints") or {}
        self._set_gateway_option("expose_endpoints", {**exposed, exec_endpoint: options})
        return self

    def scale(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Is not supported."""
        raise NotSupportedError("`scale` is not supported: run `flow scale`, or set `replicas` before the flow starts")

    def rolling_update(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Is not supported."""
        raise NotSupportedError(
            "`rolling_update` is not supported: run `flow restart` to replace processes, or `flow reload` after a change of the flow file"
        )

    def mutate(self, *_arguments: Any, **_options: Any) -> NoReturn:
        """Is not supported."""
        raise NotSupportedError("there is no GraphQL; use `post`, or the gateway's HTTP routes")

    def build(self, copy_flow: bool = False, **_ignored: Any) -> Self:
        """Checks the flow, as :meth:`check` does."""
        del copy_flow
        self.check()
        return self

    @property
    def num_deployments(self) -> int:
        """Number of executors; while the flow runs, the gateway counts too."""
        return len(self._executors) + (self._running is not None)

    @property
    def workspace(self) -> str | None:
        """The folder below which executors keep their files."""
        return self._with.get("workspace")

    @workspace.setter
    def workspace(self, value: str) -> None:
        self._set_before_start("workspace", value)

    @property
    def env(self) -> dict[str, str] | None:
        """Environment variables of the executors."""
        return self._with.get("env")

    @env.setter
    def env(self, value: Mapping[str, Any]) -> None:
        self._set_before_start("env", {key: str(item) for key, item in value.items()})

    def __getitem__(self, item: str | int) -> Deployment:
        from flow_serve._deployment import Deployment

        for index, entry in enumerate(self._executors):
            if item in (index, self._name(index)):
                return Deployment._of_entry(entry, self._name(index))
        names = ", ".join(f"`{name}`" for name, _ in self)
        raise FlowMissingDeploymentError(f"the flow has no executor `{item}`; there are {names}")

    def __iter__(self) -> Iterator[tuple[str, Deployment]]:
        return iter([(self._name(index), self[index]) for index in range(len(self._executors))])

    def __len__(self) -> int:
        return len(self._executors)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flow) and self._file() == other._file()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        state = f"at port {self.port}" if self.is_running else "not running"
        return f"<Flow of {', '.join(name for name, _ in self) or 'no executors'}, {state}>"

    @classmethod
    def load_config(cls, source: Any, **options: Any) -> Self:
        """The flow in a flow file: its path, its text, or what it says as a mapping.

        :raises BadConfigSource: the file is not there, or is not a flow
        """
        file, path = read_config(source, options)
        if file.get("jtype", "Flow") not in ("Flow", "AsyncFlow"):
            raise BadConfigSource(f"`{source}` is no flow, but `jtype: {file['jtype']}`")
        of_flow: dict[str, Any] = file.get("with") or {}
        flow = cls(**of_flow)
        executors = [key for key in ("executors", "deployments", "pods") if key in file]
        flow._executors = [dict(entry) if isinstance(entry, dict) else entry for key in executors for entry in file[key] or []]
        flow._gateway = dict(file.get("gateway") or {})
        known = ("jtype", "with", "gateway", *executors)
        flow._rest = {key: value for key, value in file.items() if key not in known}
        if path is not None:
            flow._base, flow._source = path.parent, path
        return flow

    def _append(self, entry: dict[str, Any]) -> Self:
        self._modified()
        if "needs" in entry:
            entry["needs"] = names_of(entry["needs"])
        self._executors.append(entry)
        return self

    def _modified(self) -> None:
        if self._running is not None:
            raise FlowBuildLevelError("the flow runs, so it cannot be changed; close it first")
        self._source = None

    def _described(self, options: dict[str, Any]) -> dict[str, Any]:
        uses = options.pop("uses", None)
        described = {} if uses is None else _uses.described(uses, self._base)
        return given({**options, **described})

    def _name(self, index: int) -> str:
        entry = self._executors[index]
        return str(entry.get("name") or f"executor{index}") if isinstance(entry, dict) else f"executor{index}"

    def _file(self) -> dict[str, Any]:
        file: dict[str, Any] = {"jtype": "Flow", **self._rest}
        if self._with:
            file["with"] = _uses.absolute(self._with, self._base)
        if self._gateway:
            file["gateway"] = _uses.absolute(self._gateway, self._base)
        executors = (entry if isinstance(entry, dict) else {"uses": entry} for entry in self._executors)
        file["executors"] = [_uses.absolute(entry, self._base) for entry in executors]
        return file

    def _source_file(self) -> Path | None:
        return self._source

    def _gateway_option(self, *names: str) -> Any:
        for options in (self._gateway, self._with):
            for name in names:
                if options.get(name) is not None:
                    return options[name]
        return None

    def _set_gateway_option(self, name: str, value: Any) -> None:
        self._modified()
        self._gateway.pop(name, None)
        self._with[name] = plain(value)


class AsyncFlow(Flow):
    """A flow whose ``post`` is an asynchronous iterator."""

    def __init__(self, *, asyncio: bool = True, **options: Unpack[FlowOptions]) -> None:
        del asyncio
        super().__init__(asyncio=True, **options)


shows_options(Flow.__init__, FlowOptions)
shows_options(AsyncFlow.__init__, FlowOptions)
shows_options(Flow.add, ExecutorOptions)
shows_options(Flow.config_gateway, GatewayOptions)
