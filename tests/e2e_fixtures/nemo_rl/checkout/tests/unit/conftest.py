KINDS = ("mcore", "vllm")


def pytest_addoption(parser):
    for kind in KINDS:
        parser.addoption(f"--{kind}-only", action="store_true")


def pytest_configure(config):
    for kind in KINDS:
        config.addinivalue_line("markers", f"{kind}: needs the extra")


def pytest_collection_modifyitems(config, items):
    """As NeMo-RL's: marked tests are dropped without their option, and all others with it, and pytest is not told."""
    for kind in KINDS:
        only = config.getoption(f"--{kind}-only")
        items[:] = [item for item in items if bool(item.get_closest_marker(kind)) == only]
