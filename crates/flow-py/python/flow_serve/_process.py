"""A flow that runs: the process `flow up`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from flow_serve._program import program
from flow_serve.exceptions import PortAlreadyUsed, RuntimeFailToStart

#: Lines of the log that an error quotes.
LAST_LINES = 40

#: Seconds that a flow has to stop after the time that its requests have; then it is killed.
STOP_SECONDS = 20


class RunningFlow:
    """The processes of a flow. They end with :meth:`stop`, and with this process, however it ends."""

    def __init__(self, file: Path, arguments: Sequence[str], environment: Mapping[str, str], quiet: bool) -> None:
        command = [program(), "up", str(file), "--ready-format", "json", "--until-stdin-ends", *arguments]
        # It keeps clear of the terminal's Ctrl-C: this process gets it, and stops the flow.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self._quiet = quiet
        self._ready: dict[str, Any] | None = None
        self._decided = threading.Event()
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._readers = [
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def wait_until_ready(self) -> None:
        """Waits until the flow serves. The error quotes the log of a flow that does not start."""
        try:
            # With a limit, so that Ctrl-C is noticed on all platforms.
            while not self._decided.wait(1.0):
                pass
        except BaseException:
            self.stop()
            raise
        if self._ready is None:
            status = self._process.wait()
            for reader in self._readers:
                reader.join()
            log = "\n".join(self._last)
            kind = PortAlreadyUsed if " is taken: " in log or "address already in use" in log.lower() else RuntimeFailToStart
            raise kind(f"the flow did not start (exit code {status})\n{log}")

    @property
    def port(self) -> int:
        """The first port for clients."""
        return self.ports[0]

    @property
    def ports(self) -> list[int]:
        """The ports for clients."""
        ready = self._ready or {}
        addresses = [ready.get("address", ":0"), *ready.get("more_addresses", [])]
        return [int(address.rpartition(":")[2]) for address in addresses]

    @property
    def metrics(self) -> str | None:
        """Where the gateway serves metrics."""
        return (self._ready or {}).get("metrics")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Lets requests in progress finish, and ends the processes."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        except KeyboardInterrupt:
            # The second Ctrl-C stops at once.
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
            raise
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read_events(self, lines: IO[bytes] | None) -> None:
        for line in lines or ():
            if line.startswith(b'{"event":"ready"'):
                self._ready = json.loads(line)
                self._decided.set()
            elif not line.startswith(b'{"event":'):
                self._show(line)
        self._decided.set()

    def _read_log(self, lines: IO[bytes] | None) -> None:
        for line in lines or ():
            self._show(line)

    def _show(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\n")
        self._last.append(text)
        if not self._quiet:
            try:
                print(text, file=sys.stderr, flush=True)
            except (OSError, ValueError):
                self._quiet = True  # Nothing reads the output any more.
