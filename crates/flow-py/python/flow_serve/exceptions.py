"""The exceptions of clients and flows. Their names are Jina's."""

from typing import Any


class BaseJinaException(BaseException):
    """What all exceptions of this module have in common."""


class RuntimeFailToStart(SystemError, BaseJinaException):
    """A process of a flow did not start."""


class FlowTopologyError(Exception, BaseJinaException):
    """The graph of a flow is not clear."""


class FlowMissingDeploymentError(Exception, BaseJinaException):
    """A flow has no executor of this name."""


class FlowBuildLevelError(Exception, BaseJinaException):
    """A method was called at the wrong time, such as ``block`` before ``start``."""


class BadConfigSource(FileNotFoundError, BaseJinaException):
    """A file of a flow or an executor is not there, or is not valid."""


class BadServerFlow(Exception, BaseJinaException):
    """The server refused a request, or its flow does not work."""


class BadClient(Exception, BaseJinaException):
    """The client was used in a wrong way."""


class BadServer(Exception, BaseJinaException):
    """An executor failed. The first argument is the header of the reply."""

    @property
    def header(self) -> Any:
        """The header of the reply."""
        return self.args[0] if self.args else None


class BadClientCallback(BadClient, BaseJinaException):
    """A callback raised an exception."""


class BadClientInput(BadClient, BaseJinaException):
    """The inputs of a post cannot be sent."""


class NotSupportedError(Exception, BaseJinaException):
    """An option of Jina that flow does not have."""


class NoContainerizedError(Exception, BaseJinaException):
    """An executor that is not in a container cannot be exported."""


class PortAlreadyUsed(RuntimeError, BaseJinaException):
    """Another process listens on the port."""


class ExecutorError(RuntimeError, BaseJinaException):
    """The exception of an executor, as its reply describes it."""

    def __init__(self, name: str, args: "list[str]", stacks: "list[str]", executor: "str | None" = None) -> None:
        super().__init__(*args)
        self.name = name
        self.stacks = stacks
        self.executor = executor

    def __str__(self) -> str:
        return "\n".join(self.stacks)


class ProgramNotFound(FileNotFoundError):
    """The program ``flow`` is nowhere to be found."""
