#!/usr/bin/env bash
# Test a checkpoint with several processes on one or more machines.
# Usage: tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [flags of test.py]
# One process for each GPU; without a GPU the processes share the CPU.
set -euo pipefail

if [ $# -lt 3 ]; then
    echo "usage: $0 CONFIG CHECKPOINT PROCESSES [flags of test.py]" >&2
    exit 2
fi
CONFIG=$1
CHECKPOINT=$2
PROCESSES=$3
HERE=$(cd "$(dirname "$0")" && pwd)

PYTHONPATH="$HERE/..:${PYTHONPATH:-}" exec python -m torch.distributed.run \
    --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" \
    --nproc_per_node="$PROCESSES" \
    "$HERE/test.py" "$CONFIG" "$CHECKPOINT" --launcher pytorch "${@:4}"
