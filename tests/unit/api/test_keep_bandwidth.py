"""The default rate of copies."""

from elasticjob_api.keep_bandwidth import default_bandwidth


def test_encrypted_copies_have_half_the_rate() -> None:
    assert (default_bandwidth(has_tls=False), default_bandwidth(has_tls=True)) == (256 << 20, 128 << 20)
