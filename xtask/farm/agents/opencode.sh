# OpenCode. OpenAI chat API through @ai-sdk/openai-compatible (bundled).

C=$A/node_modules/opencode-linux-x64/bin/opencode
setup() {
    export OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1
    mkdir -p "$HOME/.config/opencode"
    cat > "$HOME/.config/opencode/opencode.json" <<T
{"autoupdate":false,"share":"disabled","permission":{"*":"allow"},
 "provider":{"mock":{"npm":"@ai-sdk/openai-compatible","name":"Mock",
  "options":{"baseURL":"$MOCK/v1","apiKey":"k"},
  "models":{"mock-1":{"name":"Mock 1","limit":{"context":200000,"output":8000},"cost":{"input":1,"output":2,"cache_read":0.1}},
            "mock-2":{"name":"Mock 2","limit":{"context":200000,"output":8000},"cost":{"input":3,"output":6,"cache_read":0.3}}}}},
 "model":"mock/mock-1","small_model":"mock/mock-1"}
T
}
ask() { say "$1"; go "$C" run "${@:2}" "$1"; }
more() { ask "$1" --continue; }
fork() { ask "$1" --continue --fork; }
