def test_save():
    assert True
