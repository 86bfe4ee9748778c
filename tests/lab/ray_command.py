#!/usr/bin/python3
"""The command ``ray`` of the lab's image, whose packages are mounted without their commands."""

from ray.scripts.scripts import main

main()
