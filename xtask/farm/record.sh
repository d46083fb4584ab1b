#!/bin/bash
# record.sh AGENT SCENARIO OUT
#
# Runs an agent against the model server in namespaces of its own and leaves OUT/home (the files that
# the agent wrote) and OUT/truth.jsonl (the facts). Needs root. $FARM_AGENTS has one directory per
# installed agent. Exit status 3: the agent does not have what the scenario needs.
set -eu
FARM=$(cd "$(dirname "$0")" && pwd)
AGENT=$1 SCENARIO=$2 OUT=$3
mkdir -p "$OUT/home/proj"
export FARM AGENT SCENARIO OUT
exec timeout --kill-after 10 "${PATIENCE:-1200}" \
    unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc --propagation private \
    nice bash "$FARM/world.sh"
