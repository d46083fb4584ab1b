# Claude Code. Anthropic messages API.
C=$A/node_modules/@anthropic-ai/claude-code-linux-x64/claude
setup() {
    export ANTHROPIC_BASE_URL=$MOCK ANTHROPIC_API_KEY=sk-ant-mock-0000 IS_SANDBOX=1 \
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 \
        CLAUDE_CODE_TMPDIR=/run/dev
    cat > "$HOME/.claude.json" <<T
{"hasCompletedOnboarding":true,"theme":"dark","bypassPermissionsModeAccepted":true,
 "customApiKeyResponses":{"approved":["sk-ant-mock-0000"],"rejected":[]},
 "projects":{"$HOME/proj":{"hasTrustDialogAccepted":true,"hasCompletedProjectOnboarding":true}}}
T
}
# headless TEXT [FLAG...]: one run; sets SESSION to the session that it wrote.
headless() {
    go "$C" -p "$@" --dangerously-skip-permissions --output-format json > /run/answer.json
    SESSION=$(python3 -c 'import json; print(json.load(open("/run/answer.json"))["session_id"])')
}
ask() { say "$1"; headless "$@"; }
more() { ask "$1" --resume "$SESSION"; }
fork() { ask "$1" --resume "$SESSION" --fork-session; }
compact() { fact command /compact; headless /compact --resume "$SESSION"; }
rename() {
    terminal "$C --resume $SESSION --dangerously-skip-permissions" settle:90 \
        "command:/rename $1" settle:20 command:/exit wait:3
    fact title "$1"
}
