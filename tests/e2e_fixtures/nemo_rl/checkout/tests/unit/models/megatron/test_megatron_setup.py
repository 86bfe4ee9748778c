import pytest


@pytest.mark.mcore
def test_with_megatron():
    assert True
