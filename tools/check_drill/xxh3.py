"""XXH3 with 128 bits, seed 0 and the default secret, for inputs of 17 bytes and more, from its specification."""

import struct

MASK = 2**64 - 1
PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, PRIME64_2, PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
PRIME64_4, PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PRIME_MX1 = 0x165667919E3779F9
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
STRIPE = 64
STRIPES_PER_BLOCK = (len(SECRET) - STRIPE) // 8


def words(data, at, count):
    return struct.unpack_from(f"<{count}Q", data, at)


def avalanche(x):
    x ^= x >> 37
    x = x * PRIME_MX1 & MASK
    return x ^ x >> 32


def folded(a, b):
    product = a * b
    return (product & MASK) ^ product >> 64


def mix(data, at, secret):
    (a, b), (s, t) = words(data, at, 2), words(SECRET, secret, 2)
    return folded(a ^ s, b ^ t)


def mix_two(acc, data, first, second, secret):
    acc[0] = (acc[0] + mix(data, first, secret) & MASK) ^ (sum(words(data, second, 2)) & MASK)
    acc[1] = (acc[1] + mix(data, second, secret + 16) & MASK) ^ (sum(words(data, first, 2)) & MASK)


def medium(data):
    size = len(data)
    acc = [size * PRIME64_1 & MASK, 0]
    if size <= 128:
        for i in reversed(range((size - 1) // 32 + 1)):
            mix_two(acc, data, 16 * i, size - 16 * (i + 1), 32 * i)
    else:
        for i in range(4):
            mix_two(acc, data, 32 * i, 32 * i + 16, 32 * i)
        acc = [avalanche(word) for word in acc]
        for i in range(4, size // 32):
            mix_two(acc, data, 32 * i, 32 * i + 16, 3 + 32 * (i - 4))
        mix_two(acc, data, size - 16, size - 32, 136 - 17 - 16)
    low = avalanche(sum(acc) & MASK)
    high = avalanche(acc[0] * PRIME64_1 + acc[1] * PRIME64_4 + size * PRIME64_2 & MASK)
    return (-high & MASK) << 64 | low


def accumulate(acc, data, at, secret):
    stripe, keys = words(data, at, 8), words(SECRET, secret, 8)
    for i in range(8):
        value = stripe[i] ^ keys[i]
        acc[i ^ 1] = acc[i ^ 1] + stripe[i] & MASK
        acc[i] = acc[i] + (value & 0xFFFFFFFF) * (value >> 32) & MASK


def merged(acc, start, secret):
    keys = words(SECRET, secret, 8)
    total = start + sum(folded(acc[i] ^ keys[i], acc[i + 1] ^ keys[i + 1]) for i in range(0, 8, 2))
    return avalanche(total & MASK)


def large(data):
    acc = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
    size, block = len(data), STRIPE * STRIPES_PER_BLOCK
    stripes = (size - 1) // STRIPE
    for stripe in range(stripes):
        accumulate(acc, data, STRIPE * stripe, 8 * (stripe % STRIPES_PER_BLOCK))
        if stripe % STRIPES_PER_BLOCK == STRIPES_PER_BLOCK - 1 and size > block * (stripe // STRIPES_PER_BLOCK + 1):
            keys = words(SECRET, len(SECRET) - STRIPE, 8)
            acc = [(word ^ word >> 47 ^ key) * PRIME32_1 & MASK for word, key in zip(acc, keys)]
    accumulate(acc, data, size - STRIPE, len(SECRET) - STRIPE - 7)
    low = merged(acc, size * PRIME64_1 & MASK, 11)
    high = merged(acc, ~(size * PRIME64_2) & MASK, len(SECRET) - STRIPE - 11)
    return high << 64 | low


def xxh3_128(data):
    return medium(data) if len(data) <= 240 else large(data)
