import pytest


@pytest.mark.vllm
def test_with_vllm():
    assert True


def test_without():
    assert True
