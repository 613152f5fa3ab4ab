"""A cable between two network namespaces, on which packets are lost, late, out of order or stopped as one says.

    python3 cable.py NAME NAMESPACE ADDRESS NAMESPACE ADDRESS

It forwards packets between two TUN devices, so it needs no module of the kernel for faults, such as `sch_netem`. `-` stands for
the namespace in which it runs. Each line of standard input is a JSON object with the new state of the cable; it answers `done`.
"""
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000

# The longest packet, and more.
PACKET = 65536

# A router drops what would wait longer than this for a slow line.
QUEUE_S = 0.5

# The same faults in each run.
SEED = 1


def device(name, namespace, address):
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    ip = ["ip"]
    if namespace != "-":
        subprocess.run(["ip", "link", "set", name, "netns", namespace], check=True)
        ip = ["ip", "-n", namespace]
    subprocess.run([*ip, "addr", "add", f"{address}/24", "dev", name], check=True)
    subprocess.run([*ip, "link", "set", name, "up"], check=True)
    return file


class Way:
    """One direction of the cable."""

    def __init__(self, source, sink, name):
        self.source, self.sink, self.name = source, sink, name
        self.waiting = []
        self.taken = 0
        self.line_free_at = 0.0
        self.last_due = 0.0

    def read(self, state, dice):
        while True:
            try:
                packet = os.read(self.source, PACKET)
            except BlockingIOError:
                return
            self.take(packet, state, dice)

    def take(self, packet, state, dice):
        blocked = state.get("blocked", "")
        if blocked in (self.name, "both") or dice.random() < state.get("loss", 0):
            return
        due = now = time.monotonic()
        rate = state.get("bits_per_s")
        if rate:
            begins = max(now, self.line_free_at)
            if begins - now > QUEUE_S:
                return
            due = self.line_free_at = begins + len(packet) * 8 / rate
        jitter = state.get("jitter_ms", 0)
        delay = state.get("delay_ms", 0) + dice.uniform(-jitter, jitter)
        if dice.random() < state.get("overtaking", 0):
            # It goes ahead of those that wait.
            delay = 0
        else:
            due = self.last_due = max(self.last_due, due + delay / 1000)
        self.taken += 1
        heapq.heappush(self.waiting, (due, self.taken, packet))

    def send(self):
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            packet = heapq.heappop(self.waiting)[2]
            try:
                os.write(self.sink, packet)
            except OSError:
                pass  # Its machine is gone.

    def next_due(self):
        return self.waiting[0][0] if self.waiting else None


def main():
    name, first_space, first_address, second_space, second_address = sys.argv[1:]
    first = device(f"{name}a", first_space, first_address)
    second = device(f"{name}b", second_space, second_address)
    ways = {first: Way(first, second, "forth"), second: Way(second, first, "back")}
    state, dice = {}, random.Random(SEED)
    print("ready", flush=True)
    while True:
        dues = [due for due in (way.next_due() for way in ways.values()) if due is not None]
        wait = max(0.0, min(dues) - time.monotonic()) if dues else None
        readable, _, _ = select.select([*ways, sys.stdin], [], [], wait)
        for file in readable:
            if file in ways:
                ways[file].read(state, dice)
                continue
            line = sys.stdin.readline()
            if not line:
                return
            state = json.loads(line)
            print("done", flush=True)
        for way in ways.values():
            way.send()


main()
