#!/bin/bash
echo "[audio-deps] Already installed and functional, skipping."
