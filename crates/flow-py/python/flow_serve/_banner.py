"""What a flow prints when it is ready."""

from __future__ import annotations

import shutil
import socket
import unicodedata

Row = tuple[str, str, str]


def banner(protocols: list[str], ports: list[int], metrics: str | None, is_open: bool) -> str:
    """The addresses of a flow in a frame. `is_open`: other machines reach the gateway."""
    private = private_address() if is_open else None
    rows: list[Row] = []
    for index, port in enumerate(ports):
        rows.append(("🔗", "Protocol", ", ".join(protocols) if len(ports) == 1 else protocols[index % len(protocols)]))
        rows.append(("🏠", "Local", f"127.0.0.1:{port}"))
        if private is not None:
            rows.append(("🔒", "Private", f"{private}:{port}"))
    if metrics is not None:
        rows.append(("📈", "Metrics", f"http://{metrics}/metrics"))
    text = "🎉 Flow is ready to serve!"
    columns = shutil.get_terminal_size().columns
    return f"{_rule(text, columns)}\n{_frame('🔗 Endpoint', rows)}"


def private_address() -> str | None:
    """The address of this machine in its network. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a socket of this kind only chooses a route. The address is one for documentation.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return address


def _rule(text: str, columns: int) -> str:
    side = "─" * max((columns - _width(text) - 2) // 2, 3)
    return f"{side} {text} {side}"


def _frame(title: str, rows: list[Row]) -> str:
    names = max(_width(name) for _, name, _ in rows)
    values = max(_width(value) for _, _, value in rows)
    inner = max(names + values + 12, _width(title) + 4)
    side = "─" * ((inner - _width(title) - 2) // 2)
    top = f"╭{side} {title} {side}".ljust(0)
    top += "─" * (inner - _width(top) + 1) + "╮"
    lines = [top]
    for icon, name, value in rows:
        text = f"  {icon}  {name:>{names}}  {value:>{inner - names - 10}}  "
        lines.append(f"│{text}{' ' * (inner - _width(text))}│")
    return "\n".join([*lines, f"╰{'─' * inner}╯"])


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
