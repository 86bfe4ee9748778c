"""Stands for NeMo-RL's: YAML files that name their ``defaults``, and Hydra's overrides on top of them."""

from pathlib import Path

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf


class OverridesError(Exception):
    pass


def load_config(file):
    config = OmegaConf.load(file)
    defaults = config.pop("defaults", None)
    return OmegaConf.merge(load_config(Path(file).parent / defaults), config) if defaults else config


def parse_hydra_overrides(config, overrides):
    try:
        OmegaConf.set_struct(config, True)
        parsed = OverridesParser.create().parse_overrides(overrides=overrides)
        ConfigLoaderImpl._apply_overrides_to_config(overrides=parsed, cfg=config)
        return config
    except Exception as error:
        raise OverridesError(f"Failed to parse Hydra overrides: {error}") from error
