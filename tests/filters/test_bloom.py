import json
from pathlib import Path

import pytest

from kerolox.filters.bloom import BloomFilter, BloomFilterData, is_hit

GOLDEN = Path(__file__).parent.parent / "golden"


def golden(version: str) -> list[dict[str, str]]:
    lines = (GOLDEN / f"filters-{version}.jsonl").read_text().split("\n")
    return [answer for line in lines if line and "bits" in (answer := json.loads(line))]


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_bits_equal_those_of_java(version: str) -> None:
    answers = golden(version)

    assert len(answers) == 50
    for answer in answers:
        rate, expected, *numbers = map(int, answer["bits"].split())
        data = BloomFilter(rate, expected).generate(answer["text"])
        assert [data.bit_num, *(data.bit_pos or ())] == numbers


def test_all_owners_of_a_bit_map_are_hit_and_few_others() -> None:
    bloom = BloomFilter(20, 32)
    owners = [bloom.generate(f"group-{number}#topic") for number in range(20)]
    others = [bloom.generate(f"other-{number}#topic") for number in range(200)]

    bit_map = bloom.bit_map(owners)

    assert len(bit_map) == bloom.bit_count // 8 == 14
    assert all(is_hit(owner, bit_map) for owner in owners)
    assert sum(is_hit(other, bit_map) for other in others) < 200 * 0.2
    assert not is_hit(others[0], bloom.bit_map([]))


def test_bits_of_a_filter_with_other_parameters_are_invalid() -> None:
    bloom = BloomFilter(20, 32)

    assert bloom.is_valid(bloom.generate("x"))
    assert not bloom.is_valid(BloomFilter(20, 64).generate("x"))
    assert not bloom.is_valid(BloomFilterData(112, (1, 2)))
    assert not bloom.is_valid(BloomFilterData(112, None))
    assert not bloom.is_valid(None)


@pytest.mark.parametrize(("rate", "expected"), [(0, 32), (100, 32), (20, 0)])
def test_invalid_parameters_are_refused(rate: int, expected: int) -> None:
    with pytest.raises(ValueError, match="error_rate must be 1 to 99"):
        BloomFilter(rate, expected)
