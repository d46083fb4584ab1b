# Kimi Code; needs Node 24. OpenAI chat API.

C="$NODE24 $A/node_modules/@moonshot-ai/kimi-code/dist/main.mjs"
setup() {
    export KIMI_DISABLE_TELEMETRY=1 KIMI_CODE_DISABLE_TELEMETRY=1
    mkdir -p "$HOME/.kimi-code"
    cat > "$HOME/.kimi-code/config.toml" <<T
default_model = "mock-1"
telemetry = false
[providers.mock]
type = "openai"
base_url = "$MOCK/v1"
api_key = "k"
[models.mock-1]
provider = "mock"
model = "mock-1"
max_context_size = 200000
[models.mock-2]
provider = "mock"
model = "mock-2"
max_context_size = 200000
T
}
ask() { say "$1"; go $C "${@:2}" -p "$1"; }
more() { ask "$1" --continue; }
