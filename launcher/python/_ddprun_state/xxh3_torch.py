"""XXH3-64 with seed 0, computed with Python integers and torch. It follows the specification of
the algorithm (doc/xxhash_spec.md of xxHash)."""
import torch

_MASK = 2**64 - 1
_PRIME32_1 = 0x9E3779B1
_PRIME32_2 = 0x85EBCA77
_PRIME32_3 = 0xC2B2AE3D
_PRIME64_1 = 0x9E3779B185EBCA87
_PRIME64_2 = 0xC2B2AE3D27D4EB4F
_PRIME64_3 = 0x165667B19E3779F9
_PRIME64_4 = 0x85EBCA77C2B2AE63
_PRIME64_5 = 0x27D4EB2F165667C5
_PRIME_MX1 = 0x165667919E3779F9
_PRIME_MX2 = 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")

_STRIPE = 64
_STRIPES = (len(_SECRET) - _STRIPE) // 8  # stripes of a block
_BLOCK = _STRIPE * _STRIPES
_BLOCKS_AT_ONCE = 1024  # 1 MiB


def _u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def _u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def _avalanche(h):
    h ^= h >> 37
    h = h * _PRIME_MX1 & _MASK
    return h ^ h >> 32


def _avalanche_xxh64(h):
    h ^= h >> 33
    h = h * _PRIME64_2 & _MASK
    h ^= h >> 29
    h = h * _PRIME64_3 & _MASK
    return h ^ h >> 32


def _fold(a, b):
    """Returns the XOR of the two halves of the 128-bit product."""
    product = a * b
    return (product ^ product >> 64) & _MASK


def _mix16(data, at, secret_at):
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at),
                 _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _up_to_16(data):
    size = len(data)
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        h = _u32(data, size - 4) + (_u32(data, 0) << 32)
        h ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        h ^= (h << 49 | h >> 15) & _MASK ^ (h << 24 | h >> 40) & _MASK
        h = h * _PRIME_MX2 & _MASK
        h ^= (h >> 35) + size
        h = h * _PRIME_MX2 & _MASK
        return h ^ h >> 28
    if size > 0:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        return _avalanche_xxh64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_xxh64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _up_to_128(data):
    size = len(data)
    h = size * _PRIME64_1
    for i in range((size - 1) // 32, -1, -1):
        h += _mix16(data, 16 * i, 32 * i) + _mix16(data, size - 16 * (i + 1), 32 * i + 16)
    return _avalanche(h & _MASK)


def _up_to_240(data):
    size = len(data)
    h = size * _PRIME64_1 + sum(_mix16(data, 16 * i, 16 * i) for i in range(8))
    h = _avalanche(h & _MASK)
    h += sum(_mix16(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
    h += _mix16(data, size - 16, 136 - 17)
    return _avalanche(h & _MASK)


def _signed(value):
    return value - 2**64 if value >= 2**63 else value


def _secret_words(at):
    return [_u64(_SECRET, at + 8 * i) for i in range(8)]


def _contributions(stripes, keys):
    """Returns what each stripe adds to the eight sums. `stripes`, `keys` and the result have one
    row of eight words for each stripe."""
    keyed = stripes ^ keys
    low = keyed & 0xFFFFFFFF
    high = keyed >> 32 & 0xFFFFFFFF
    return stripes.reshape(-1, 4, 2).flip(2).reshape(stripes.shape) + low * high


def _rows(data, begin, count):
    """Returns `count` stripes of `data` as rows of eight 64-bit words."""
    part = torch.frombuffer(data, dtype=torch.uint8, offset=begin, count=count * _STRIPE)
    return part.clone().view(torch.int64).reshape(count, 8)  # a copy is aligned


_KEYS = torch.tensor([[_signed(word) for word in _secret_words(8 * i)] for i in range(_STRIPES)])
_LAST_KEYS = torch.tensor([[_signed(word) for word in _secret_words(len(_SECRET) - _STRIPE - 7)]])


def _add(sums, contributions):
    return [(a + b) & _MASK for a, b in zip(sums, contributions.sum(0).tolist())]


def _whole_blocks(data, blocks, sums):
    scramble = _secret_words(len(_SECRET) - _STRIPE)
    for first in range(0, blocks, _BLOCKS_AT_ONCE):
        count = min(_BLOCKS_AT_ONCE, blocks - first)
        rows = _rows(data, first * _BLOCK, count * _STRIPES)
        added = _contributions(rows, _KEYS.repeat(count, 1)).reshape(count, _STRIPES, 8).sum(1)
        for row in added.tolist():
            for i in range(8):
                h = sums[i] + row[i] & _MASK
                sums[i] = (h ^ h >> 47 ^ scramble[i]) * _PRIME32_1 & _MASK
    return sums


def _long(data):
    size = len(data)
    blocks = (size - 1) // _BLOCK
    sums = _whole_blocks(data, blocks, [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5,
        _PRIME32_1])
    stripes = (size - 1 - blocks * _BLOCK) // _STRIPE
    if stripes:
        sums = _add(sums, _contributions(_rows(data, blocks * _BLOCK, stripes), _KEYS[:stripes]))
    sums = _add(sums, _contributions(_rows(data, size - _STRIPE, 1), _LAST_KEYS))
    h = size * _PRIME64_1
    for i in range(4):
        h += _fold(sums[2 * i] ^ _u64(_SECRET, 11 + 16 * i),
                   sums[2 * i + 1] ^ _u64(_SECRET, 19 + 16 * i))
    return _avalanche(h & _MASK)


def xxh3(data):
    """Returns the hash as an integer. `data`: bytes, or an array of ctypes."""
    size = len(data)
    if size > 240:
        return _long(bytearray(data) if isinstance(data, bytes) else data)
    short = bytes(data)
    if size > 128:
        return _up_to_240(short)
    return _up_to_128(short) if size > 16 else _up_to_16(short)
