"""A single executor with a gateway in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flow_serve import _uses
from flow_serve._file_values import given, plain, read_config
from flow_serve._runnable import Runnable
from flow_serve._signatures import shows_options
from flow_serve._typed_options import DeploymentOptions
from flow_serve.exceptions import BadConfigSource

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

#: Options that are the gateway's if an executor is deployed alone.
OF_GATEWAY = (
    "port",
    "ports",
    "host",
    "protocol",
    "protocols",
    "prefetch",
    "title",
    "description",
    "cors",
    "uvicorn_kwargs",
    "ssl_certfile",
    "ssl_keyfile",
    "no_debug_endpoints",
    "no_crud_endpoints",
    "expose_endpoints",
)


class Deployment(Runnable):
    """An executor that is deployed alone, behind a gateway, or is to be added to a flow.

    :param uses: what runs: a class of Python, a built-in executor, a path, or an image
    :param asyncio: whether ``post`` is an asynchronous iterator
    """

    def __init__(
        self, *, uses: Any = None, asyncio: bool = False, include_gateway: bool = True, **options: Unpack[DeploymentOptions]
    ) -> None:
        super().__init__(asyncio, Path.cwd())
        del include_gateway
        self._options = given(options)
        if uses is not None:
            modules = self._options.pop("py_modules", None)
            self._options.update(plain(_uses.described(uses, self._base)))
            if modules is not None:
                listed = modules if isinstance(modules, list) else [modules]
                self._options["py_modules"] = [*listed, *self._options.get("py_modules", [])]

    @property
    def name(self) -> str:
        """The name of the executor."""
        return str(self._options.get("name", "executor"))

    @property
    def args(self) -> Mapping[str, Any]:
        """The options of the executor."""
        return dict(self._options)

    @property
    def num_replicas(self) -> int:
        """Number of processes that share the work."""
        return int(self._options.get("replicas", 1))

    @classmethod
    def load_config(cls, source: Any, **options: Any) -> Self:
        """The deployment in a file: its path, its text, or what it says as a mapping.

        :raises BadConfigSource: the file is not there, or is not a deployment
        """
        file, path = read_config(source, options)
        if file.get("jtype") != "Deployment":
            raise BadConfigSource(f"`{source}` is no deployment; it begins with `jtype: Deployment`")
        deployment = cls()
        deployment._options = dict(file.get("with") or {})
        if path is not None:
            deployment._base = path.parent
        return deployment

    def __repr__(self) -> str:
        state = f"at port {self.port}" if self.is_running else "not running"
        return f"<Deployment `{self.name}`, {state}>"

    @classmethod
    def _of_entry(cls, entry: Mapping[str, Any], name: str) -> Deployment:
        deployment = Deployment()
        deployment._options = {**entry, "name": name}
        return deployment

    def _executor_options(self) -> dict[str, Any]:
        """The options as those of an executor in a flow."""
        return _uses.absolute(self._options, self._base)

    def _file(self) -> dict[str, Any]:
        options = self._executor_options()
        gateway = {key: options.pop(key) for key in OF_GATEWAY if key in options}
        file: dict[str, Any] = {"jtype": "Flow"}
        if gateway:
            file["gateway"] = gateway
        file["executors"] = [{"name": self.name, **options}]
        return file

    def _gateway_option(self, *names: str) -> Any:
        values = (self._options.get(name) for name in names)
        return next((value for value in values if value is not None), None)

    def _set_gateway_option(self, name: str, value: Any) -> None:
        self._options[name] = plain(value)


shows_options(Deployment.__init__, DeploymentOptions)
