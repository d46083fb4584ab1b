# Kilo CLI. OpenAI chat API. The wrapper package @kilocode/cli fails to find its own binary; the
# platform package alone is enough.

C=$A/node_modules/@kilocode/cli-linux-x64/bin/kilo
setup() {
    export KILO_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_MODELS_FETCH=1 KILO_TELEMETRY_LEVEL=off \
        DO_NOT_TRACK=1
    mkdir -p "$HOME/.config/kilo"
    cat > "$HOME/.config/kilo/kilo.json" <<T
{"autoupdate":false,"share":"disabled","permission":{"*":"allow"},
 "provider":{"mock":{"npm":"@ai-sdk/openai-compatible","name":"Mock",
  "options":{"baseURL":"$MOCK/v1","apiKey":"k"},
  "models":{"mock-1":{"name":"Mock 1","limit":{"context":200000,"output":8000},"cost":{"input":1,"output":2,"cache_read":0.1}}}}},
 "model":"mock/mock-1","small_model":"mock/mock-1"}
T
}
ask() { say "$1"; go "$C" run --auto "${@:2}" "$1"; }
more() { ask "$1" --continue; }
fork() { ask "$1" --continue --fork; }
