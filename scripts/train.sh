#!/usr/bin/env bash
# Trains a GPT (or a Llama) on your text: scripts/train.sh --help
exec "$(dirname "${BASH_SOURCE[0]}")/gradus.sh" train "$@"
