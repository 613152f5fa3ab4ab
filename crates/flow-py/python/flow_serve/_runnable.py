"""What runs: processes, their addresses, and requests to them."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flow_serve import _program
from flow_serve._banner import banner
from flow_serve._endpoints import Endpoints
from flow_serve._file_values import plain
from flow_serve._process import RunningFlow
from flow_serve._yaml import to_yaml
from flow_serve.exceptions import FlowBuildLevelError, NotSupportedError

if TYPE_CHECKING:
    from typing_extensions import Self

    from flow_serve._client import AsyncClient, Client
    from flow_serve._plan import Callback

#: Seconds between two looks at a flow that `block` waits for.
LOOK_SECONDS = 0.2


class Runnable(Endpoints):
    """What a flow and a deployment have in common: they run, and receive documents."""

    def __init__(self, asyncio: bool, base: Path) -> None:
        self._asyncio = asyncio
        self._base = base
        self._running: RunningFlow | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._client: Any = None
        self._stop = threading.Event()

    # What the two kinds define.

    def _file(self) -> dict[str, Any]:
        """The flow as a flow file, with absolute paths."""
        raise NotImplementedError

    def _gateway_option(self, *names: str) -> Any:
        """An option of the gateway, under the first of these names that is set."""
        raise NotImplementedError

    def _set_gateway_option(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def _source_file(self) -> Path | None:
        """The flow file, if the flow is exactly what is in one."""
        return None

    # Life

    def start(self) -> Self:
        """Starts the processes, and waits until they serve. ``with`` does it, and closes the flow at the end.

        :return: the flow itself
        :raises RuntimeFailToStart: a process did not start; the message has its log
        :raises PortAlreadyUsed: another process listens on a port of the flow
        :raises FlowBuildLevelError: it runs already
        """
        if self._running is not None:
            raise FlowBuildLevelError("it is running already")
        running = RunningFlow(self._written(), (), self._environment(), quiet=bool(self._gateway_option("quiet")))
        try:
            running.wait_until_ready()
        except BaseException:
            self._remove_folder()
            raise
        self._running = running
        self._stop.clear()
        if not self._gateway_option("quiet"):
            print(banner(self._protocols(), running.ports, running.metrics, not _is_loopback(self.host)), flush=True)
        return self

    def close(self) -> None:
        """Lets requests in progress finish, and stops the processes."""
        running, self._running = self._running, None
        self._client = None
        self._stop.set()
        if running is not None:
            running.stop()
        self._remove_folder()

    def block(self, stop_event: Any = None) -> None:
        """Waits until Ctrl-C, until `stop_event` is set, or until the processes end.

        :param stop_event: an event of ``threading`` or ``multiprocessing``
        :raises FlowBuildLevelError: it does not run
        """
        running = self._running
        if running is None:
            raise FlowBuildLevelError("it does not run; use `with`, or call `start()` before `block()`")
        event = stop_event if stop_event is not None else self._stop
        try:
            while running.is_running and not event.wait(LOOK_SECONDS):
                pass
        except KeyboardInterrupt:
            pass

    def __enter__(self) -> Self:
        return self if self._running is not None else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.get_running_loop().run_in_executor(None, self.close)

    # Where it is

    @property
    def port(self) -> Any:
        """The port for clients, or the list of ports. Without one in the flow, it is known once the flow runs."""
        if self._running is not None:
            ports = self._running.ports
            return ports[0] if len(ports) == 1 else ports
        port = self._gateway_option("port", "ports", "port_expose")
        return port[0] if isinstance(port, list) and len(port) == 1 else port

    @port.setter
    def port(self, value: int | list[int]) -> None:
        self._set_before_start("port", value)

    @property
    def host(self) -> str:
        """The host that the gateway listens on."""
        return str(self._gateway_option("host") or os.environ.get("FLOW_LISTEN_HOST") or "127.0.0.1")

    @host.setter
    def host(self, value: str) -> None:
        self._set_before_start("host", value)

    @property
    def protocol(self) -> Any:
        """The protocol of the gateway, or the list of protocols. Each port answers all of them."""
        protocols = self._protocols()
        return protocols[0] if len(protocols) == 1 else protocols

    @protocol.setter
    def protocol(self, value: str | list[str]) -> None:
        self._set_before_start("protocol", plain(value))

    @property
    def is_running(self) -> bool:
        """Whether the processes run."""
        return self._running is not None and self._running.is_running

    @property
    def client(self) -> Client | AsyncClient:
        """A client of the flow. It speaks gRPC, which each port of a gateway answers, whatever its protocol is called."""
        from flow_serve._client import Client

        port = self.port
        if port is None:
            raise FlowBuildLevelError("the port is not known before the flow runs; start it, or set `port`")
        if self._client is None:
            certificate = self._gateway_option("ssl_certfile")
            self._client = Client(
                host="localhost" if certificate else "127.0.0.1",
                port=port[0] if isinstance(port, list) else port,
                asyncio=self._asyncio,
                tls=certificate is not None,
                tls_ca=certificate,
            )
        client: Client | AsyncClient = self._client
        return client

    # Requests

    def post(
        self,
        on: str,
        inputs: Any = None,
        on_done: Callback = None,
        on_error: Callback = None,
        on_always: Callback = None,
        parameters: Any = None,
        target_executor: str | None = None,
        request_size: int = 100,
        show_progress: bool = False,
        continue_on_error: bool = False,
        return_responses: bool = False,
        max_attempts: int = 1,
        initial_backoff: float = 0.5,
        max_backoff: float = 2,
        backoff_multiplier: float = 1.5,
        results_in_order: bool = False,
        stream: bool = True,
        prefetch: int | None = None,
        return_type: Any = None,
        **options: Any,
    ) -> Any:
        """Sends documents to an endpoint, as :meth:`flow_serve.Client.post` does, with the same options."""
        return self.client.post(
            on,
            inputs,
            on_done,
            on_error,
            on_always,
            parameters,
            target_executor,
            request_size,
            show_progress,
            continue_on_error,
            return_responses,
            max_attempts,
            initial_backoff,
            max_backoff,
            backoff_multiplier,
            results_in_order,
            stream,
            prefetch,
            return_type,
            **options,
        )

    def is_flow_ready(self, **options: Any) -> Any:
        """Whether a request gets through the whole flow."""
        return self.client.is_flow_ready(**options)

    dry_run = is_flow_ready

    def stream_doc(self, *arguments: Any, **options: Any) -> Any:
        """Streams the documents that a method makes of one, as :meth:`flow_serve.Client.stream_doc` does."""
        return self.client.stream_doc(*arguments, **options)

    def profiling(self, show_table: bool = True) -> Any:
        """How the time of one request divides, in milliseconds."""
        return self.client.profiling(show_table)

    # Files

    def to_yaml(self) -> str:
        """The flow as a flow file."""
        return to_yaml(self._file())

    def save_config(self, filename: str | os.PathLike[str]) -> bool:
        """Writes the flow to a flow file. Paths in it are absolute."""
        Path(filename).write_text(self.to_yaml(), encoding="utf-8")
        return True

    def check(self) -> None:
        """Checks the flow without starting anything.

        :raises RuntimeError: the flow cannot run; the message lists all problems
        """
        self._output_of("check", self._written())

    def plot(
        self,
        output: str | os.PathLike[str] | None = None,
        vertical_layout: bool = False,
        inline_display: bool = False,
        build: bool = True,
        copy_flow: bool = True,
    ) -> Self:
        """Draws the flow. A notebook shows the picture of a flow without this.

        :param output: a file to write, which ends with ``.svg`` or ``.mmd``; without it, Mermaid text is printed
        :param inline_display: whether the picture is shown in a notebook instead
        :return: the flow itself
        """
        del build, copy_flow
        if vertical_layout:
            raise NotSupportedError("`vertical_layout` is not supported: pictures run from left to right")
        if output is not None:
            self._output_of("plot", self._written(), "--output", os.path.abspath(output))
        elif not (inline_display and _display(self._svg())):
            print(self._output_of("plot", self._written(), "--format", "mermaid"), end="")
        return self

    def to_kubernetes_yaml(
        self, output_base_path: str | os.PathLike[str], k8s_namespace: str | None = None, include_gateway: bool = True
    ) -> None:
        """Writes Kubernetes manifests, as ``flow export kubernetes`` does."""
        _with_gateway(include_gateway)
        namespace = ["--namespace", k8s_namespace] if k8s_namespace else []
        self._output_of("export", "kubernetes", self._written(), os.path.abspath(output_base_path), *namespace)

    to_k8s_yaml = to_kubernetes_yaml

    def to_docker_compose_yaml(
        self,
        output_path: str | os.PathLike[str] | None = None,
        network_name: str | None = None,
        include_gateway: bool = True,
    ) -> None:
        """Writes a file for Docker Compose, as ``flow export docker-compose`` does."""
        _with_gateway(include_gateway)
        if network_name not in (None, "jina-network"):
            raise NotSupportedError("`network_name` is not supported: Compose makes a network of its own for the file")
        output = os.path.abspath(output_path or "docker-compose.yml")
        self._output_of("export", "docker-compose", self._written(), output)

    def _repr_html_(self) -> str | None:
        """The picture of the flow in a notebook."""
        try:
            return f'<div style="overflow-x:auto">{self._svg()}</div>'
        except (OSError, RuntimeError):
            return None  # The notebook shows the text instead.

    def _svg(self) -> str:
        return self._output_of("plot", self._written(), "--format", "svg")

    def _output_of(self, *arguments: Any) -> str:
        try:
            return _program.output_of(arguments)
        finally:
            if self._running is None:
                self._remove_folder()

    # Inside

    def _protocols(self) -> list[str]:
        protocols = self._gateway_option("protocol", "protocols") or "grpc"
        return [str(each).upper() for each in (protocols if isinstance(protocols, list) else [protocols])]

    def _set_before_start(self, name: str, value: Any) -> None:
        if self._running is not None:
            raise FlowBuildLevelError(f"`{name}` cannot be changed while the flow runs; close it first")
        self._client = None
        self._set_gateway_option(name, value)

    def _environment(self) -> dict[str, str]:
        """What executors in Python need: this interpreter, and where it finds modules."""
        folders = dict.fromkeys(map(os.path.abspath, sys.path))
        python = os.environ.get("FLOW_PYTHON") or sys.executable
        return {"FLOW_PYTHON": python, "PYTHONPATH": os.pathsep.join(filter(_is_added, folders))}

    def _written(self) -> Path:
        """The flow in a file."""
        source = self._source_file()
        if source is not None:
            return source
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="flow-")
        file = Path(self._folder.name) / "flow.yml"
        file.write_text(self.to_yaml(), encoding="utf-8")
        return file

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _is_added(folder: str) -> bool:
    """Whether the script or the environment added the folder. An interpreter finds its own folders itself."""
    own = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return os.path.isdir(folder) and not any(folder == each or folder.startswith(each + os.sep) for each in own)


def _with_gateway(include_gateway: bool) -> None:
    if not include_gateway:
        raise NotSupportedError("`include_gateway=False` is not supported: remove the gateway's file after the export")


def _display(svg: str) -> bool:
    """Shows a picture in a notebook. Says whether there is one."""
    if "IPython" not in sys.modules:
        return False
    from IPython.display import SVG, display

    display(SVG(svg))
    return True
