#!/usr/bin/env bash
# Writes text with the model of a run: scripts/sample.sh RUN --prompt 'In the beginning'
exec "$(dirname "${BASH_SOURCE[0]}")/gradus.sh" sample "$@"
