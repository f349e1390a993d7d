#!/usr/bin/env bash
# Train with several processes on one or more machines.
# Usage: tools/dist_train.sh CONFIG PROCESSES [flags of tools/train.py]
# One process for each GPU; without a GPU the processes share the CPU.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: $0 CONFIG PROCESSES [flags of train.py]" >&2
    exit 2
fi
CONFIG=$1
PROCESSES=$2
HERE=$(cd "$(dirname "$0")" && pwd)

PYTHONPATH="$HERE/..:${PYTHONPATH:-}" exec python -m torch.distributed.run \
    --nnodes="${NNODES:-1}" \
    --node_rank="${NODE_RANK:-0}" \
    --master_addr="${MASTER_ADDR:-127.0.0.1}" \
    --master_port="${PORT:-29500}" \
    --nproc_per_node="$PROCESSES" \
    "$HERE/train.py" "$CONFIG" --launcher pytorch "${@:3}"
