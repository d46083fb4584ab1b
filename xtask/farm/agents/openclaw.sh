# OpenClaw; needs Node 24. OpenAI chat API.

SUB_AGENT_PLAN=
C="$NODE24 $A/node_modules/openclaw/openclaw.mjs"
setup() {
    export PATH=$(dirname "$NODE24"):$PATH OPENCLAW_SKIP_UPDATE_CHECK=1 OPENCLAW_NO_UPDATE=1
    mkdir -p "$HOME/.openclaw"
    cat > "$HOME/.openclaw/openclaw.json" <<T
{"agents":{"defaults":{"workspace":"$HOME/proj","model":{"primary":"mock/mock-1"}}},
 "models":{"providers":{"mock":{"baseUrl":"$MOCK/v1","apiKey":"k","api":"openai-completions","models":[
  {"id":"mock-1","name":"Mock","reasoning":false,"input":["text"],"contextWindow":200000,"maxTokens":8000,"cost":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0}}]}}},
 "gateway":{"mode":"local"}}
T
}
ask() { say "$1"; go $C agent --local --session-id s1 --message "$1"; }
more() { ask "$1"; }
