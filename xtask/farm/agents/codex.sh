# Codex CLI. OpenAI responses API.

# Its sub-agents run in the background.
SUB_AGENT_PLAN="agent;wait"
C=$(echo "$A"/node_modules/@openai/codex-linux-x64/vendor/*/bin/codex)
setup() {
    export MOCK_KEY=k
    mkdir -p "$HOME/.codex"
    cat > "$HOME/.codex/config.toml" <<T
model = "gpt-5.5"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[features]
multi_agent = true
multi_agent_v2 = true
[model_providers.mock]
name = "mock"
base_url = "$MOCK/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
supports_websockets = false
[analytics]
enabled = false
[projects."$HOME/proj"]
trust_level = "trusted"
T
}
ask() { say "$1"; go "$C" exec --skip-git-repo-check --json "$1"; }
more() { say "$1"; go "$C" exec --skip-git-repo-check --json resume --last "$1"; }
# session: the id of the oldest session.
session() { find "$HOME/.codex/sessions" -name '*.jsonl*' | sort | head -1 | grep -oE '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}'; }
fork() { say "$1"; go "$C" exec fork --skip-git-repo-check --json "$(session)" "$1"; }
# in_terminal STEP...: opens that session in a terminal. The program leaves a server behind, which
# keeps the session open; only this recording's processes are in reach.
in_terminal() {
    terminal "$C resume $(session)" settle:90 ENTER settle:20 "$@" command:/quit wait:3
    pkill codex
    sleep 1
}
compact() { in_terminal command:/compact settle:30; }
rename() {
    in_terminal "command:/rename $1" settle:20
    fact title "$1"
}
