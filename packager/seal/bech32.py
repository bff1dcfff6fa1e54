"""Bech32 (BIP 173 without the length limit), the spelling of age's keys: 32 raw bytes under a human-readable prefix."""

from __future__ import annotations

from packager.base.errors import InputError

_ALPHABET = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_CHECKSUM_DIGITS = 6


def format_bech32(prefix: str, data: bytes) -> str:
    """Return `data` in lower-case Bech32 under `prefix` (lower case)."""
    digits = _regroup(data, 8, 5, pad=True)
    digits += _checksum(prefix, digits)
    return f"{prefix}1{''.join(_ALPHABET[digit] for digit in digits)}"


def parse_bech32(text: str, *, prefix: str, length: int) -> bytes:
    """Return the `length` bytes that `text` spells under `prefix`; else InputError, which never repeats the text."""
    folded = text.lower()
    if text not in (folded, text.upper()):
        raise InputError(f"a key that starts with {prefix}1 mixes upper and lower case")
    if not folded.startswith(f"{prefix}1"):
        raise InputError(f"expected a key that starts with {prefix}1")
    body = folded[len(prefix) + 1 :]
    digits = [_ALPHABET.find(letter) for letter in body]
    if -1 in digits or len(digits) < _CHECKSUM_DIGITS or _polymod(_expand(prefix) + digits) != 1:
        raise InputError(f"the checksum of a key that starts with {prefix}1 does not hold", hint="copy the key again")
    data = _regroup(bytes(digits[:-_CHECKSUM_DIGITS]), 5, 8, pad=False)
    if len(data) != length or format_bech32(prefix, bytes(data)) != folded:
        raise InputError(f"expected {length} bytes in a key that starts with {prefix}1, found {len(data)}")
    return bytes(data)


def _regroup(data: bytes, width: int, new_width: int, *, pad: bool) -> list[int]:
    bits = waiting = 0
    groups: list[int] = []
    for value in data:
        waiting = (waiting << width | value) & 0xFFFF
        bits += width
        while bits >= new_width:
            bits -= new_width
            groups.append(waiting >> bits & ((1 << new_width) - 1))
    if pad and bits:
        groups.append(waiting << (new_width - bits) & ((1 << new_width) - 1))
    return groups


def _expand(prefix: str) -> list[int]:
    codes = prefix.encode("ascii")
    return [code >> 5 for code in codes] + [0] + [code & 31 for code in codes]


def _checksum(prefix: str, digits: list[int]) -> list[int]:
    rest = _polymod(_expand(prefix) + digits + [0] * _CHECKSUM_DIGITS) ^ 1
    return [rest >> 5 * (_CHECKSUM_DIGITS - 1 - place) & 31 for place in range(_CHECKSUM_DIGITS)]


def _polymod(digits: list[int]) -> int:
    rest = 1
    for digit in digits:
        top = rest >> 25
        rest = (rest & 0x1FFFFFF) << 5 ^ digit
        for place, constant in enumerate(_GENERATOR):
            rest ^= constant if top >> place & 1 else 0
    return rest
