#!/usr/bin/env bash
# Train on a slurm cluster.
# Usage: tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [flags]
# Environment: GPUS (total, 8), GPUS_PER_NODE (8; 0 trains on the CPU),
# TASKS_PER_NODE (GPUS_PER_NODE, or GPUS where that is 0), CPUS_PER_TASK (5),
# SRUN_ARGS.
set -euo pipefail

if [ $# -lt 4 ]; then
    echo "usage: $0 PARTITION JOB_NAME CONFIG WORK_DIR [flags]" >&2
    exit 2
fi
GPUS=${GPUS:-8}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
HERE=$(cd "$(dirname "$0")" && pwd)
RESOURCES=()
DEFAULT_TASKS=$GPUS
if [ "$GPUS_PER_NODE" -gt 0 ]; then
    RESOURCES=(--gres="gpu:$GPUS_PER_NODE")
    DEFAULT_TASKS=$GPUS_PER_NODE
fi
TASKS_PER_NODE=${TASKS_PER_NODE:-$DEFAULT_TASKS}

# shellcheck disable=SC2086  # SRUN_ARGS holds several words
PYTHONPATH="$HERE/..:${PYTHONPATH:-}" exec srun \
    -p "$1" \
    --job-name="$2" \
    ${RESOURCES[@]+"${RESOURCES[@]}"} \
    --ntasks="$GPUS" \
    --ntasks-per-node="$TASKS_PER_NODE" \
    --cpus-per-task="${CPUS_PER_TASK:-5}" \
    --kill-on-bad-exit=1 \
    ${SRUN_ARGS:-} \
    python -u "$HERE/train.py" "$3" --work-dir="$4" --launcher=slurm "${@:5}"
