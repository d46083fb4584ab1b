# Continue CLI; needs Node 24. OpenAI chat API.

SUB_AGENT_PLAN=
C=$A/node_modules/.bin/cn
setup() {
    export PATH=$(dirname "$NODE24"):$PATH CONTINUE_TELEMETRY_ENABLED=0
    mkdir -p "$HOME/.continue"
    cat > "$HOME/.continue/config.yaml" <<T
name: mock
version: 1.0.0
schema: v1
models:
  - name: Mock
    provider: openai
    model: mock-1
    apiBase: $MOCK/v1
    apiKey: k
    roles: [chat]
    capabilities: [tool_use]
T
}
ask() { say "$1"; go "$C" --config "$HOME/.continue/config.yaml" --auto "${@:2}" -p "$1"; }
more() { ask "$1" --resume; }
