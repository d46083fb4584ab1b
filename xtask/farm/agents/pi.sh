# Pi coding agent; needs Node 24. OpenAI chat API.

SUB_AGENT_PLAN=
C="$NODE24 $A/node_modules/@earendil-works/pi-coding-agent/dist/cli.js"
setup() {
    export PI_OFFLINE=1 PI_SKIP_VERSION_CHECK=1
    mkdir -p "$HOME/.pi/agent"
    # A session as short as these is only compacted if little of it is to be kept.
    echo '{"compaction":{"keepRecentTokens":60}}' > "$HOME/.pi/agent/settings.json"
    cat > "$HOME/.pi/agent/models.json" <<T
{"providers":{"mock":{"baseUrl":"$MOCK/v1","api":"openai-completions","apiKey":"k","models":[
 {"id":"mock-1","name":"Mock","reasoning":false,"input":["text"],"contextWindow":200000,"maxTokens":8000,"cost":{"input":1,"output":2,"cacheRead":0.1,"cacheWrite":0}},
 {"id":"mock-2","name":"Mock two","reasoning":false,"input":["text"],"contextWindow":200000,"maxTokens":8000,"cost":{"input":3,"output":6,"cacheRead":0.3,"cacheWrite":0}}]}}}
T
}
ask() { say "$1"; go $C --provider mock --model mock-1 "${@:2}" -p "$1"; }
more() { ask "$1" --continue; }
fork() { ask "$1" --fork "$(ls -t "$HOME"/.pi/agent/sessions/*/*.jsonl | head -1)"; }
compact() { terminal "$C --provider mock --model mock-1 --continue" settle:90 command:/compact settle:30 command:/quit wait:3; }
rename() {
    terminal "$C --provider mock --model mock-1 --continue" settle:90 "command:/name $1" settle:20 command:/quit wait:3
    fact title "$1"
}
