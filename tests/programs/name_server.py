"""The name server of a cluster, for kubernetes_pods_test.cc: DNS over UDP, for IPv4 addresses.

argv: ADDRESS FILE. FILE has a line "NAME ADDRESS" for each name, and is read again for each question. The program prints
"ready" when it listens. For each question for an address it prints the name, and the answer or "NXDOMAIN".
"""
import socket
import struct
import sys

A = 1
IN = 1
TTL = 30  # seconds, as Kubernetes' name server answers by default
NXDOMAIN = 3


def question(packet):
    """The name, its type, and where the question ends."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    kind, _ = struct.unpack_from(">HH", packet, at + 1)
    return ".".join(labels).lower(), kind, at + 5


def answer(packet, known):
    name, kind, end = question(packet)
    address = known.get(name)
    if kind == A:
        print(name, address or "NXDOMAIN", flush=True)
    records = b""
    if address and kind == A:
        # 0xc00c: the name in the question.
        records = struct.pack(">HHHIH", 0xc00c, A, IN, TTL, 4) + socket.inet_aton(address)
    identifier, flags = struct.unpack_from(">HH", packet)
    # A response, with authority. The recursion flag is that of the question.
    flags = 0x8480 | flags & 0x0100 | (0 if address else NXDOMAIN)
    header = struct.pack(">HHHHHH", identifier, flags, 1, 1 if records else 0, 0, 0)
    return header + packet[12:end] + records


def main():
    address, file = sys.argv[1:]
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    print("ready", flush=True)
    while True:
        packet, sender = server.recvfrom(4096)
        with open(file) as lines:
            known = dict(line.split() for line in lines)
        server.sendto(answer(packet, known), sender)


main()
