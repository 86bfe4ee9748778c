def pytest_addoption(parser):
    parser.addoption("--mcore-only", action="store_true")
