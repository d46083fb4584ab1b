# Factory Droid with a model of one's own. OpenAI chat API.

# Its sub-agents need a daemon that does not start offline.
SUB_AGENT_PLAN=
C=$(find "$A/node_modules" -name droid -type f -size +5M | head -1)
setup() {
    export FACTORY_API_KEY=fk-mock FACTORY_DROID_AUTO_UPDATE_ENABLED=false
    mkdir -p "$HOME/.factory"
    cat > "$HOME/.factory/settings.json" <<T
{"customModels":[{"model":"mock-1","displayName":"Mock","provider":"generic-chat-completion-api","baseUrl":"$MOCK/v1","apiKey":"k","maxOutputTokens":8000}],"cloudSessionSync":false}
T
}
ask() { say "$1"; go "$C" exec --model custom:Mock-0 --auto high "${@:2}" "$1"; }
# Offline, `exec --session-id` ends with status 1 and no message: a resume cannot be recorded.
fork() { ask "$1" --fork "$(ls -t "$HOME"/.factory/sessions/*/*.jsonl | head -1 | grep -oE '[0-9a-f-]{36}' | tail -1)"; }
