# Grok Build. OpenAI chat API through a model of one's own.

SUB_AGENT_PLAN=
C=$(find "$A/node_modules" -name 'grok*' -type f -size +5M | head -1)
setup() {
    export XAI_API_KEY=k GROK_DISABLE_AUTO_UPDATE=1
    mkdir -p "$HOME/.grok"
    cat > "$HOME/.grok/config.toml" <<T
[models]
default = "mock"
[model.mock]
model = "mock-1"
name = "Mock"
base_url = "$MOCK/v1"
api_key = "k"
context_window = 200000
T
}
ask() { say "$1"; go "$C" "${@:2}" -p "$1" --yolo; }
more() { ask "$1" --continue; }
