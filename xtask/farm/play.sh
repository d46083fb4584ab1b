#!/bin/bash
# Third part of record.sh: starts the model server and plays a scenario with the agent's own commands.
MOCK=http://127.0.0.1:8765
A=/opt/agents/$AGENT
NODE24=/opt/agents/node24/node_modules/node/bin/node
# The plan of the prompt that starts a sub-agent; empty for an agent without sub-agents.
SUB_AGENT_PLAN="agent;read"

# fact TYPE TEXT: adds a fact to the truth.
fact() { python3 - "$1" "$2" >> "$TRUTH" <<'P'
import json, sys
print(json.dumps({"type": sys.argv[1], "text": sys.argv[2]}, ensure_ascii=False))
P
}
say() { fact prompt "$1"; }
# go PROGRAM...: runs the agent without a terminal, for a limited time.
go() { timeout -k 5 300 "$@" < /dev/null 2>&1 | tail -c 4000; }
# terminal "PROGRAM ..." STEP...: runs it in a terminal; see terminal.py.
terminal() { timeout -k 5 300 python3 /opt/farm/terminal.py "$@"; }

git init -q -b main .
git config user.email dev@example.com
git config user.name Dev
printf '# proj\n\nneedle in a small project\n' > README.md
git add README.md
git commit -qm first
. "/opt/farm/agents/$AGENT.sh"
. /opt/farm/scenarios.sh
[ "$SCENARIO" != sub-agent ] || [ -n "$SUB_AGENT_PLAN" ] || exit 3
for command in $(needs "$SCENARIO"); do
    declare -F "$command" > /dev/null || exit 3
done
python3 /opt/farm/model_server.py 8765 "$TRUTH" &
SERVER=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    (exec 3<> /dev/tcp/127.0.0.1/8765) 2> /dev/null && break
    sleep 0.3
done
setup
"scenario_${SCENARIO//-/_}"
sleep 1
kill $SERVER
