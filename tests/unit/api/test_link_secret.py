"""The link secret of a job: encoded and decoded, rejected when corrupt, and never in an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elasticjob_api.errors import RecordError
from elasticjob_api.link_secret import SECRET_BYTES, decode_link_secret, encode_link_secret


@given(st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES))
def test_there_and_back(key: bytes) -> None:
    assert decode_link_secret(encode_link_secret(key)) == key


@pytest.mark.parametrize("length", [0, SECRET_BYTES - 1, SECRET_BYTES + 1])
def test_a_key_of_another_length_is_none(length: int) -> None:
    with pytest.raises(ValueError, match="must have 32"):
        encode_link_secret(b"k" * length)


@given(st.one_of(st.binary(max_size=100), st.sampled_from([b"2 " + b"0" * 64, b"1 " + b"G" * 64, b"1 " + b"0" * 63])))
def test_anything_else_is_refused_and_not_repeated(data: bytes) -> None:
    with pytest.raises(RecordError) as refused:
        decode_link_secret(data)
    assert str(refused.value) == "the link secret of the job is corrupt, or of another version"
