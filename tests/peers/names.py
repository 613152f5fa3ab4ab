"""A name server that answers every question with the given addresses, after the given delay.

    python3 names.py

It listens on 127.0.0.1, port 53. Each line of standard input is a JSON object, such as
`{"addresses": ["10.0.0.1"], "delay_s": 4, "silent": false}`; it answers `done`.
"""
import heapq
import json
import select
import socket
import struct
import sys
import time

TYPE_A = 1

# Question and answer in one, recursion desired and available, no error.
ANSWER = 0x8180

# A pointer to the name in the question.
SAME_NAME = 0xC00C

TTL_S = 1


def answer(query, addresses):
    end = query.index(0, 12) + 5
    kind, kind_of_net = struct.unpack("!HH", query[end - 4 : end])
    if kind != TYPE_A:
        addresses = []
    text = query[:2] + struct.pack("!HHHHH", ANSWER, 1, len(addresses), 0, 0) + query[12:end]
    for address in addresses:
        text += struct.pack("!HHHIH", SAME_NAME, TYPE_A, kind_of_net, TTL_S, 4)
        text += socket.inet_aton(address)
    return text


def main():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    state, waiting, number = {"addresses": []}, [], 0
    print("ready", flush=True)
    while True:
        wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        readable, _, _ = select.select([server, sys.stdin], [], [], wait)
        if server in readable:
            query, client = server.recvfrom(512)
            if not state.get("silent"):
                number += 1
                due = time.monotonic() + state.get("delay_s", 0)
                heapq.heappush(waiting, (due, number, answer(query, state["addresses"]), client))
        if sys.stdin in readable:
            line = sys.stdin.readline()
            if not line:
                return
            state = json.loads(line)
            print("done", flush=True)
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, text, client = heapq.heappop(waiting)
            server.sendto(text, client)


main()
