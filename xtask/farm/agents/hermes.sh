# Hermes agent, a Python program (3.11). OpenAI chat API.

C="python3 -m hermes_cli.main"
setup() {
    export PYTHONPATH=$A/site-packages OPENAI_API_KEY=k OPENAI_BASE_URL=$MOCK/v1 \
        PYTHONDONTWRITEBYTECODE=1
    mkdir -p "$HOME/.hermes"
    cat > "$HOME/.hermes/config.yaml" <<T
model:
  default: mock-1
  provider: custom
  base_url: $MOCK/v1
  api_key: k
T
}
ask() { say "$1"; go $C chat "${@:2}" -q "$1" --yolo; }
more() { ask "$1" -c; }
