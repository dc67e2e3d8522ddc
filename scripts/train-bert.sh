#!/usr/bin/env bash
# Trains a BERT to classify your texts: scripts/train-bert.sh --help
exec "$(dirname "${BASH_SOURCE[0]}")/gradus.sh" train-bert "$@"
